/**
 * Replies made of the words that receivers use, in any order, language and number of lines: who speaks of the
 * sender, or gives any reason that passes, suppresses nobody; who only says that nobody is there always does.
 * All are constructed.
 */
import { expect, test } from "vitest";
import { classify } from "../../src/outcome/classify.ts";
import { verdictOn } from "../../src/outcome/verdict.ts";
import { replyOf } from "../../src/smtp/reply.ts";

/** As it comes over the wire, and as a report quotes it. */
function isHard(text: string): boolean[] {
  const wire = Buffer.from(text).toString("latin1");
  const outcome = classify(replyOf("rcpt", Number(text.slice(0, 3)), wire), false, "receivers");
  const said = outcome.kind === "bounced" && outcome.category === "hard";
  return [said, verdictOn({ code: null, status: null, text }).category === "hard"];
}

function listOf(text: string): string[] {
  return text.split("|").map((one) => one.trim());
}

const WORDS_OF_MISSING = listOf(
  "does not exist|doesn't exist|not found|is unknown|is invalid|cannot be found|has no MX record|no such user|no such domain|user unknown|domain not found|invalid address|was not found in DNS|unrouteable address|nonexistent|has null MX|has been closed|no longer exists",
);

/** Who sends, and what of them is missing. */
const SENDERS: [who: string[], missing: string[]][] = [
  [
    listOf(
      "Sender|Your sender address|The sender's mail domain|Return-Path|The return path domain|Reverse-path|Envelope sender|MAIL FROM domain|Mail from address|The address you are sending from|Sending domain|The sending user|The domain in your From address|The originator's mailbox|Your domain|Your email address|Your account|The domain part of the sender|Domain of sender|Bounce address of the sender|The mailbox you claim to send from|HELO domain|Client hostname",
    ),
    WORDS_OF_MISSING,
  ],
  [
    listOf("Absender|Die Adresse des Absenders|Die Domain des Absenders|Absenderdomain"),
    listOf("existiert nicht|unbekannt|nicht gefunden|ungültig|ist ungueltig"),
  ],
  [
    listOf("L'expéditeur|L'adresse de l'expéditeur|Le domaine de l'expéditeur|L'émetteur"),
    listOf("n'existe pas|inconnu|introuvable|inexistant"),
  ],
  [listOf("Remitente|El dominio del remitente"), listOf("no existe|desconocido|inexistente|no encontrado")],
  [listOf("Remetente|Domínio do remetente"), listOf("não existe|desconhecido|inexistente|não encontrado")],
  [listOf("Mittente|L'indirizzo del mittente"), listOf("non esiste|sconosciuto|inesistente|non trovato")],
  [listOf("De afzender|Het domein van de afzender"), listOf("bestaat niet|onbekend|niet gevonden")],
  [listOf("Nadawca|Domena nadawcy"), listOf("nie istnieje|nieznany|nie znaleziono")],
  [listOf("Odesílatel|Adresa odesílatele"), listOf("neexistuje|neznámý")],
  [listOf("Avsändaren|Avsändarens adress|Avsändardomänen"), listOf("finns inte|okänd|existerar inte")],
  [listOf("Avsender|Afsenderens adresse"), listOf("finnes ikke|findes ikke|ukjent")],
  [listOf("Feladó|A feladó címe"), listOf("nem létezik|ismeretlen|nem található")],
  [listOf("Gönderen|Gönderen adresi"), listOf("bulunamadı|yok|mevcut değil")],
  [listOf("Отправитель|Домен отправителя"), listOf("не существует|не найден|неизвестен")],
  [listOf("Відправник|Адреса відправника"), listOf("не існує|не знайдено")],
  [listOf("发件人|发信人|发件人域名|寄件者|發信人地址"), listOf("不存在|未找到")],
  [listOf("送信者|差出人のメールアドレス|送信元アドレス"), listOf("が存在しません|が見つかりません|不明")],
  [listOf("발신자|보낸 사람"), listOf("존재하지 않습니다|찾을 수 없습니다")],
];

const CODES = ["550 ", "550 5.1.1 ", "550 5.1.2 ", "553 5.1.0 ", "550 5.7.1 "];

test("a sender who is not there is no recipient who is not there", () => {
  const said = SENDERS.flatMap(([who, missing]) =>
    who.flatMap((one) =>
      missing.flatMap((what) => [
        `${one} ${what}`,
        `${one}: ${what}`,
        `${one} <us@shop.test>: ${what}`,
        `<bob@x.test>: rejected: ${one.toLowerCase()} ${what}`,
      ]),
    ),
  );
  const wrong = said
    .flatMap((text) => CODES.map((code) => code + text))
    .filter((text) => isHard(text).includes(true));
  expect(wrong).toEqual([]);
});

const REASONS_THAT_PASS = listOf(
  "mailbox full|over quota|too many messages|rate limit exceeded|greylisted|blocked by Spamhaus|your IP is blacklisted|spam detected|message contains virus|SPF check failed|no PTR record|sender address rejected|Sender verify failed|relaying denied|authentication required|temporary lookup failure|please try again later|DNS timeout|LDAP server unavailable|directory server down|rejected for policy reasons|policy violation|too many invalid recipients|directory harvest attack|maximum number of invalid recipients exceeded|not allowed to send to this address|database error|backend not responding|lookup timed out|does not accept mail from your domain|Postfach voll|boîte pleine|buzón lleno|почтовый ящик переполнен|邮箱已满|稍后再试|voruebergehend nicht erreichbar|réessayez plus tard|erro temporário|временная ошибка|垃圾邮件|请求过于频繁",
);
const NOBODY = listOf(
  "user unknown|no such user|mailbox not found|invalid recipient|account does not exist|Requested action not taken: mailbox unavailable|unrouteable address|domain not found|No mailbox here by that name|Empfänger unbekannt|用户不存在|account closed|delivery error: dd Not a valid recipient|Message was not accepted -- invalid mailbox|Recipient address rejected: Access denied",
);

test("a reason that passes is heard beside any words of a missing mailbox, before or behind them", () => {
  const said = REASONS_THAT_PASS.flatMap((reason) =>
    NOBODY.flatMap((nobody) =>
      ["", "5.1.1 ", "5.5.0 ", "5.4.1 "].flatMap((status) => [
        `550 ${status}${nobody}: ${reason}`,
        `550 ${status}${reason}: ${nobody}`,
        `550-${status}${nobody} 550-${reason} 550 For explanation visit https://www.ionos.com/help`,
        `550 ${status}<bob@x.test>: ${reason}; ${nobody}`,
      ]),
    ),
  );
  expect(said.filter((text) => isHard(text).includes(true))).toEqual([]);
});

const RECIPIENTS = listOf(
  "User|The recipient|Mailbox|Account|The recipient address|<bob@x.test>|Email address|Mailbox bob|user bob@x.test",
);
const ABSENT = listOf(
  "does not exist|doesn't exist|not found|unknown|could not be found|does not exist here|no longer exists|is not known here|has been deleted|was closed",
);

test("where nothing else is said, nobody is there, whatever stands around", () => {
  const said = RECIPIENTS.flatMap((who) =>
    ABSENT.flatMap((what) => [
      `${who} ${what}`,
      `Recipient rejected: ${who} ${what}`,
      `${who} ${what}. Please check the address.`,
      `Message could not be delivered: ${who} ${what}; returned to sender`,
      `${who} ${what} (in reply to RCPT TO command)`,
    ]),
  );
  const replies = said.flatMap((text) =>
    ["550 ", "550 5.1.1 ", "551 ", "554 5.0.0 ", "550-5.1.0 "].map((code) => code + text),
  );
  expect(replies.filter((text) => isHard(text).includes(false))).toEqual([]);
});

test.each([
  "550 Benutzer existiert nicht. Nachricht geht zurück an den Absender",
  "550 Destinataire inconnu, retour à l'expéditeur",
  "550 Destinatario desconocido; devuelto al remitente",
  "550 Utente sconosciuto, restituito al mittente",
  "550 Destinatário inexistente, devolvido ao remetente",
  "550 User unknown, returned to the sender",
])("a sender who only gets it back is not the one who is missing: %s", (reply) => {
  expect(isHard(reply)).toEqual([true, true]);
});
