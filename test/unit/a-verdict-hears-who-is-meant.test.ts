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

/** No room, no permission, no certificate, no address of a host: what is missing there is nobody. */
const THINGS_MISSING = [
  "550 Почтовый ящик получателя временно отключён",
  "550 Получатель принимает письма только от известных адресов",
  "550 Домен не имеет прав на отправку этому получателю",
  "550 Для ящика не настроена пересылка: правило не существует",
  "550 Вложение для получателя не найдено",
  "550 El usuario no existe en su lista de contactos permitidos",
  "550 La cuenta no tiene espacio",
  "550 Usuario: permiso no encontrado",
  "550 O destinatário não tem espaço na caixa",
  "550 Conta: registro SPF não encontrado",
  "550 Le destinataire n'a plus de place",
  "550 Compte: enregistrement MX introuvable",
  "550 Le certificat de l'utilisateur est inconnu",
  "550 Postfach nicht erreichbar, Datenbank nicht gefunden",
  "550 Benutzer: Regel nicht gefunden",
  "550 Empfänger: Zertifikat ungültig",
  "550 Utente: spazio esaurito",
  "550 Account: permesso non trovato",
  "550 Odbiorca: brak miejsca",
  "550 Konto: certyfikat nie istnieje",
  "550 Schránka nemá dost místa",
  "550 Alıcı kutusunda yer kalmadı",
  "550 Kullanıcı kotası doldu",
  "550 사용자의 메일함 용량이 부족합니다",
  "550 계정 인증 정보를 찾을 수 없습니다",
  "550 您没有权限向该用户发送",
  "550 用户邮箱空间不足",
  "550 收件人服务器不存在路由",
  "550 受信者のメールボックスに空きがありません",
  "550 受信者の証明書が見つかりません",
  "550 Mottagaren har inte plats i brevlådan",
  "550 Ontvanger heeft geen ruimte meer",
  "550 Recipient's quota record not found",
  "550 Recipient mailbox server does not exist in routing cache",
  "550 User spool not found",
  "550 User: session expired, ticket not found",
  "550 Email loop: Received header count is invalid",
  "550 Recipient's domain has no valid DNSSEC records",
  "550 Mailbox index not found; rebuilding",
  "550 Account shard unknown, retry",
  "550 В почтовом ящике получателя нет свободного места",
  "550 5.2.0 У получателя нет места для новых писем",
  "550 В ящике отсутствует свободное место",
  "550 У получателя нет разрешения на приём внешней почты",
  "550 Письмо получателю удалено антивирусом",
  "550 Для получателя произошла неизвестная ошибка",
  "550 Обратная запись для IP-адреса не найдена",
  "550 Адрес вашего сервера не найден в DNS",
  "554 Почтовый сервер удалил вложение письма",
  "550 Доступ к адресу получателя закрыт для внешних писем",
  "550 No existe espacio suficiente en el buzón",
  "550 Buzón del destinatario: no existe espacio disponible",
  "550 Dirección IP desconocida",
  "550 La dirección del emisor no existe",
  "550 No se encontró la dirección IP en el DNS inverso",
  "550 Caixa postal do destinatário: não existe espaço disponível",
  "550 Endereço IP desconhecido",
  "550 Endereço do emissor inexistente",
  "550 Alıcı posta kutusunda yeterli alan yok",
  "550 Bu adres için gönderme izniniz yok",
  "550 Alıcı sunucusundan yanıt yok",
  "550 수신자에게 메일을 전달할 수 없습니다",
  "550 메일함에 남은 공간이 없습니다",
  "550 메일을 보낼 수 없습니다",
  "550 수신자 서버에서 알 수 없는 오류가 발생했습니다",
  "550 Địa chỉ người gửi không tồn tại",
  "550 Alamat pengirim tidak ditemukan",
  "550 Kotak surat penerima tidak ada ruang kosong",
  "550 Adresa pošiljaoca ne postoji",
  "550 Konto odbiorcy jest zablokowane, wiadomość nie została dostarczona",
  "550 Skrzynka odbiorca: wiadomość nie została przyjęta",
  "550 Adres IP nieznany",
  "550 În contul destinatarului nu există spațiu",
  "550 Adres van de verzender is onbekend",
  "550 IP-adres onbekend",
  "550 IP-Adresse unbekannt",
  "550 Rückwärtsauflösung der IP-Adresse nicht gefunden",
  "550 Adresse IP inconnue",
  "550 Il n'existe plus de place dans la boîte; boîte du destinataire: il n'existe plus d'espace",
  "550 Indirizzo IP sconosciuto",
  "550 IP adresa neznámá",
  "550 The IP address 203.0.113.4 is unknown to us",
  "550 IP address not found in our database",
  "550 发送域名不存在",
  "550 您的IP地址不存在反向解析",
  "550 På kontot finns inte plats",
  "550 A postafiókban nem található szabad hely",
  "550 Mottakeren har ikke plass; kontoen: det finnes ikke plass",
  "550 Vastaanottajan postilaatikosta ei löydy tilaa",
  "550 Destinatario: non esiste spazio sufficiente nella casella",
  "550 Benutzer hat den Empfang externer Nachrichten deaktiviert",
  "550 Der Benutzer existiert, sein Postfach ist aber gesperrt",
  "550 Utilisateur: accès refusé, expéditeur non trouvé dans la liste",
  "550 Domain of your address has no MX; address not found",
  "550 Recipient requires confirmation: sender not found in contact list",
  "550 User jo has no such permission to receive external mail",
  "550 The account has no one who may receive mail from outside",
  "550 Your organisation is unknown to the recipient",
  "550 Recipient's server certificate not found",
  "550 Recipient refused: key for encryption not found for user",
  "550 Mailbox store of user not found, contact support",
  "550 No route found to user's mailbox server",
  "550 Attachment for the recipient does not exist or is invalid",
  "550 User rule: message ID not found in recipient's conversation",
  "550 License of account not found",
  "550 Account: payment not found, please contact billing",
  "550 Email: reverse record not found",
  "550 Email policy record not found",
  "550 User quota class not found",
  "550 Address family not valid for this connection",
  "550 Email authentication record does not exist",
  "550 email signature not valid",
  "550 Email: Date header does not exist",
  "550 Email format not valid",
  "550 e-mail certificate is invalid",
  "550 email token not recognized",
  "550 The recipient's mail host is not known to have space",
  "550 Ihr Absenderserver hat keinen PTR; Hostname nicht gefunden",
  "550 Kein Platz im Postfach des Benutzers vorhanden",
  "550 Benutzerzertifikat des Empfängers nicht gefunden",
  "550 Le certificat du destinataire est introuvable",
  "550 No se encuentra el certificado del destinatario",
  "550 Destinatario no válido para remitentes externos",
  "550 Il destinatario non è presente nella rubrica del mittente",
  "550 Usuário não encontrado na lista de remetentes autorizados",
  "550 Не найдена DKIM-подпись для адреса",
  "550 Не найден маршрут до сервера получателя",
  "550 Получатель: ответ сервера не найден",
  "550 Для адреса не найдено правило приёма почты",
  "550 Kullanıcı için yetki bulunamadı",
  "550 Adres için MX kaydı bulunamadı",
  "550 수신자의 인증서를 찾을 수 없습니다",
  "550 수신자 서버를 찾을 수 없습니다",
  "550 메일 서버를 찾을 수 없습니다",
  "550 메일 제목이 존재하지 않습니다",
  "550 Pengguna: izin tidak ditemukan",
  "550 Người nhận: máy chủ không tồn tại",
  "550 Uživatel: certifikát neexistuje",
  "550 Użytkownik: reguła nie istnieje",
  "550 Mailbox temporarily moved, account not found in local store cache",
  "550 This account is not allowed to receive, unknown sender",
  "550 Recipient only accepts mail from contacts; you are not found in recipient's contacts",
  "550 User jo is over his daily limit, no such slot",
  "550 Recipient not available to external senders",
  "550 Address jo@firm.example: no valid license found for mailbox",
  "550 Account jo: two-factor session not found",
  "550 Mailbox: folder INBOX does not exist",
  "550 Mailbox: folder not found",
  "550 User's home server not found",
  "550 LMTP: user's backend not found",
  "550 Email: required header not found",
  "550 Email: DKIM selector not found",
  "550 Email contains link to domain that does not exist",
  "550 Email gateway: tenant not found",
  "550 Account: delegation not found",
  "550 Mailbox database not found",
  "550 User: group policy not found",
  "550 Recipient domain's MX certificate unknown",
];

test("a thing that is missing is no person who is missing, in any language", () => {
  expect(THINGS_MISSING.filter((text) => isHard(text).includes(true))).toEqual([]);
});

const PEOPLE_MISSING = [
  "550 Получатель не найден",
  "550 Нет такого адреса",
  "550 Ящик не найден",
  "550 Usuario desconocido",
  "550 Destinatario inexistente",
  "550 Conta inexistente",
  "550 Destinatário desconhecido",
  "550 Utilisateur inconnu",
  "550 Aucun utilisateur de ce nom",
  "550 Benutzer existiert nicht",
  "550 Kein solcher Benutzer",
  "550 Utente sconosciuto",
  "550 Adres odbiorcy nie istnieje",
  "550 Neznámý uživatel",
  "550 Alıcı bulunamadı",
  "550 사용자를 찾을 수 없습니다",
  "550 존재하지 않는 계정입니다",
  "550 收件人不存在",
  "550 無此使用者",
  "550 ユーザーが存在しません",
  "550 Okänd mottagare",
  "550 Ukjent mottaker",
  "550 Onbekende gebruiker",
  "550 No mailbox by that name",
  "550 Recipient not found",
  "550 Mailbox does not exist",
  "550 no such recipient",
  "550 Address does not exist",
  "550 Unknown recipient",
  "550 That account was deleted",
  "550 В домене нет такого пользователя",
  "550 Почтовый ящик не существует",
  "550 Адресат неизвестен",
  "550 Пользователь отсутствует",
  "550 Ящик удален",
  "550 해당 사용자가 없습니다",
  "550 존재하지 않는 사용자입니다",
  "550 수신자 없음",
  "550 알 수 없는 수신자",
  "550 Böyle bir kullanıcı yok",
  "550 Kullanıcı bulunamadı",
  "550 No existe el usuario",
  "550 El buzón no existe",
  "550 Caixa postal não existe",
  "550 Pengguna tidak ditemukan",
  "550 Pengguna tidak ada",
  "550 Người nhận không tồn tại",
  "550 Użytkownik nie został znaleziony",
  "550 Skrzynka nie została odnaleziona",
  "550 Contul nu există",
  "550 Kontot finns inte",
  "550 Brukeren finnes ikke",
  "550 A felhasználó nem található",
  "550 La casella non esiste",
  "550 L'adresse n'existe pas",
  "550 Empfänger unbekannt",
  "550 用户不存在",
  "550 Ο χρήστης δεν υπάρχει",
  "550 Korisnik ne postoji",
  "550 Käyttäjää ei löydy",
  "550 No such user here. IP address: 203.0.113.4",
  "550 Сообщение отклонено: пользователь не найден",
  "550 Ошибка: ящик не существует",
  "550 Письмо не доставлено, адресат неизвестен",
  "550 Wiadomość odrzucona: użytkownik nie istnieje",
  "550 Message rejected: user unknown",
  "550 Error: recipient address not found in our database",
  "550 Fehler: Empfänger unbekannt",
  "550 E-Mail-Adresse existiert nicht",
  "550 User record not found in directory",
  "550 Hata: kullanıcı bulunamadı",
  "550 받는 사람을 찾을 수 없습니다",
  "550 계정을 찾을 수 없습니다",
  "550 메일 주소가 존재하지 않습니다",
  "550 Такого ящика нет на сервере",
  "550 Такого пользователя нет",
  "550 Нет пользователя с таким именем",
  "550 Пользователь удалён",
  "550 Аккаунт удален",
  "550 Destinatário não existe",
  "550 Usuario no existe en el servidor",
  "550 Adresse inconnue",
  "550 Boîte aux lettres inexistante",
  "550 Utente non trovato",
  "550 Adresát nenalezen",
  "550 Mottagaren finns inte",
  "550 Ontvanger onbekend",
  "550 Gebruiker bestaat niet",
  "550 Vastaanottajaa ei löydy",
  "550 Nincs ilyen felhasználó",
];

test("a person who is missing is heard in every language", () => {
  expect(PEOPLE_MISSING.filter((text) => isHard(text).includes(false))).toEqual([]);
});
