/**
 * What mail systems say and what people write to return paths: the dead are recognised, the living never
 * suppressed.
 */
import { describe, expect, test } from "vitest";
import { judge } from "../../src/inbound/judge.ts";
import { classify } from "../../src/outcome/classify.ts";
import { verdictOn } from "../../src/outcome/verdict.ts";
import type { DueReport } from "../../src/record/mail/reports.ts";
import { replyOf } from "../../src/smtp/reply.ts";
import { specimenReplies, specimenReports } from "../oracle/specimens.ts";

/** `hard`, `soft` or `block` of a bounce, `delayed`, `complained`, or `ignored`. */
function resultOf(raw: string | Buffer, source: DueReport["source"] = "return_path"): string {
  const judged = judge({
    id: "01234567-89ab-7def-8123-456789abcde0",
    source,
    workspaceId: "01234567-89ab-7def-8123-456789abcde1",
    emailId: "01234567-89ab-7def-8123-456789abcde2",
    place: 0,
    network: null,
    raw: Buffer.from(raw),
    tries: 0,
    receivedAt: new Date(0),
  });
  if (judged.kind !== "told") return judged.kind;
  const { what } = judged.told;
  return what.kind === "bounced" ? what.category : what.kind;
}

const inWords = (text: string) => `=?utf-8?B?${Buffer.from(text).toString("base64")}?=`;

test("replies: as they come over the wire, and as a report quotes them", () => {
  const wrong = specimenReplies().filter(({ isHard, reply }) => {
    const code = Number(/^\d{3}/.exec(reply)?.[0] ?? 550);
    const outcome = classify(
      replyOf("rcpt", code, Buffer.from(reply).toString("latin1")),
      false,
      "receivers",
    );
    const said = outcome.kind === "bounced" && outcome.category === "hard";
    const reported = verdictOn({ code: null, status: null, text: reply }).category === "hard";
    return said !== isHard || reported !== isHard;
  });
  expect(wrong).toEqual([]);
});

test.each(specimenReports().map(({ name, expected, message }) => ({ name, expected, message })))(
  "$name: $expected",
  ({ expected, message }) => {
    expect(resultOf(message)).toBe(expected);
  },
);

const AWAY: [subject: string, text: string][] = [
  [
    "Out of Office: Order 1",
    "I am out of the office until Monday. For urgent failures contact a@x.example. Mail is not delivered to my account.",
  ],
  [
    "I'm away from my mail",
    "I will be away. Your message could not be delivered to me personally; mailbox is full of work.",
  ],
  [
    "Abwesenheitsnotiz: Bestellung",
    "Ich bin nicht im Büro. Ihre Nachricht wird nicht weitergeleitet. Diese Adresse existiert nicht mehr ab Januar.",
  ],
  [
    "Automatische Antwort: Bestellung",
    "Frau Kim ist nicht mehr im Unternehmen. Das Postfach existiert nicht mehr.",
  ],
  [
    "Réponse automatique : Commande",
    "Je suis absent. Votre message n'a pas été délivré. Adresse inconnue après vendredi.",
  ],
  ["Absence du bureau", "Je ne suis plus employé, cette adresse n'existe plus."],
  ["Respuesta automática: Pedido", "Estoy fuera de la oficina. El usuario no existe a partir del lunes."],
  ["Ausente: Pedido", "No se puede entregar su mensaje, esta cuenta no existe."],
  ["Resposta automática: Pedido", "Estou fora. Usuário inexistente."],
  ["Risposta automatica: Ordine", "Sono fuori ufficio. Utente sconosciuto."],
  ["Fuori sede", "Non è stato possibile consegnare: casella inesistente."],
  ["Automatisch antwoord: Bestelling", "Ik ben afwezig. Deze gebruiker is onbekend."],
  ["Afwezig: Bestelling", "Niet bezorgd, adres bestaat niet."],
  ["Autosvar: Order", "Jag är inte på kontoret. Okänd mottagare."],
  ["Automatisk svar: Ordre", "Jeg er ikke til stede. Ukendt modtager."],
  ["Fraværsmelding: Ordre", "Ukjent mottaker. Kunne ikke leveres."],
  ["Automaattinen vastaus: Tilaus", "En ole paikalla. Tuntematon vastaanottaja."],
  ["Automatyczna odpowiedź: Zamówienie", "Jestem poza biurem. Nieznany użytkownik."],
  ["Automatická odpověď: Objednávka", "Nejsem v kanceláři. Uživatel neexistuje."],
  ["Automatikus válasz: Rendelés", "Nem vagyok bent. Ismeretlen címzett."],
  ["Автоматический ответ: Заказ", "Меня нет в офисе. Пользователь не найден."],
  ["Автоматична відповідь: Замовлення", "Мене немає. Користувача не знайдено."],
  ["Otomatik Yanıt: Sipariş", "Ofiste değilim. Kullanıcı bulunamadı."],
  ["Αυτόματη απάντηση: Παραγγελία", "Λείπω. Άγνωστος παραλήπτης."],
  ["自動返信: 注文", "不在です。宛先不明。配信できません。"],
  ["不在通知", "このメールアドレスは存在しません。"],
  ["自动回复: 订单", "我不在办公室。用户不存在，退信。"],
  ["自動回覆: 訂單", "使用者不存在"],
  ["자동 회신: 주문", "부재중입니다. 사용자가 존재하지 않습니다."],
  ["부재중 자동 응답", "메일이 반송되었습니다."],
  ["رد تلقائي: الطلب", "أنا خارج المكتب. 550 5.1.1 user unknown"],
  ["תשובה אוטומטית: הזמנה", "550 user unknown"],
  ["Răspuns automat: Comanda", "Utilizator necunoscut."],
];

describe.each(AWAY)("an automatic reply, %s", (subject, text) => {
  test.each([
    "From: Kim <kim@x.example>\nReturn-Path: <>\nAuto-Submitted: auto-replied",
    "From: Kim <kim@x.example>\nReturn-Path: <>",
    "From: Kim <kim@x.example>\nX-Auto-Response-Suppress: All\nAuto-Submitted: auto-generated",
    "From: postmaster@x.example\nReturn-Path: <>\nAuto-Submitted: auto-replied",
    "From: info@x.example\nPrecedence: auto_reply",
  ])("%s", (header) => {
    const type = "Content-Type: text/plain; charset=utf-8";
    expect(resultOf(`${header}\nSubject: ${inWords(subject)}\n${type}\n\n${text}\n\n> Order 1\n`)).toBe(
      "ignored",
    );
  });
});

const PEOPLE: [from: string, subject: string, text: string][] = [
  [
    "Parcel Delivery <service@parcel.example>",
    "Delivery failed",
    "Your parcel could not be delivered: recipient unknown. Call 550 123.",
  ],
  [
    "Mail Delivery Service GmbH <info@mds.example>",
    "Undeliverable shipment 5.1.1",
    "The recipient was unknown. 550 Main Street.",
  ],
  [
    "Anna <anna@x.example>",
    "Delivery problem",
    "Hi, my mail to you was rejected, user unknown! Mailbox is full? kim@x.example",
  ],
  [
    "Anna <anna@x.example>",
    "Mail delivery failed",
    "I got 550 5.1.1 user unknown when I wrote to shop@b.example, why?",
  ],
  [
    "Anna <anna@x.example>",
    "Re: Undelivered Mail Returned to Sender",
    "What is this?\n\nThis is the mail system at host x.\n<b@x.example>: 550 5.1.1 user unknown",
  ],
  [
    "Anna <anna@x.example>",
    "Fwd: Delivery Status Notification (Failure)",
    "---------- Forwarded message ---------\nFrom: Mail Delivery Subsystem <mailer-daemon@googlemail.com>\n\nDelivery to the following recipient failed permanently:\n\n b@x.example\n\n550 5.1.1 user unknown",
  ],
  [
    "Anna <anna@x.example>",
    "WG: Unzustellbar",
    "Delivery has failed to these recipients or groups: b@x.example 550 5.1.1 user unknown",
  ],
  ["Anna <anna@x.example>", "TR: Non remis", "Your message to b@x.example couldn't be delivered. 550 5.1.1"],
  [
    "Anna <anna@x.example>",
    "I do not work there",
    "kim@x.example does not exist any more, please use anna@x.example. User unknown.",
  ],
  ["Post Master Bakery <hello@bakery.example>", "order failed", "Returned to sender, address unknown"],
  [
    "Kim <postmaster@x.example>",
    "Hello",
    "We like your newsletter; the address abuse@x.example is not recognized.",
  ],
  [
    "Helpdesk <helpdesk@x.example>",
    "[Ticket 550] Delivery failure",
    "Your request failed. Account unknown. 550 5.1.1",
  ],
  [
    "DHL <noreply@dhl.example>",
    "Zustellung fehlgeschlagen",
    "Ihre Sendung konnte nicht zugestellt werden. Empfänger unbekannt. Adresse: x@y.example",
  ],
  [
    "Colissimo <noreply@colis.example>",
    "Échec de livraison",
    "Votre colis n'a pas pu être livré. Adresse inconnue. 550 km",
  ],
  ["Correos <info@correos.example>", "Envío devuelto", "No se pudo entregar. Destinatario desconocido."],
  ["ヤマト運輸 <mail@yamato.example>", "お届けできません", "お荷物を配達できませんでした。宛先不明"],
];

test.each(PEOPLE)("somebody: %s, %s", (from, subject, text) => {
  const header = `From: ${from}\nSubject: ${inWords(subject)}`;
  const type = "Content-Type: text/plain; charset=utf-8";
  for (const path of ["", "Return-Path: <kim@x.example>\n", "Return-Path: <>\n"])
    expect(resultOf(`${path}${header}\n${type}\n\n${text}\n`)).toBe("ignored");
  const attached = `--b\n${type}\n\n${text}\n--b\nContent-Type: message/rfc822\n\nSubject: Order 1\n\nThanks\n--b--\n`;
  expect(resultOf(`${header}\nContent-Type: multipart/mixed; boundary=b\n\n${attached}`)).toBe("ignored");
});

const MAIL = "Return-Path: <bounce@b.example>\nMessage-ID: <1@b.example>\nSubject: Order 1\n\nThanks";
const SAID = "Feedback-Type: abuse\nUser-Agent: Feedback/1.0\nVersion: 1";

function parts(header: string, ...all: [type: string, text: string][]): string {
  const body = all.map(([type, text]) => `--f\nContent-Type: ${type}\n\n${text}\n`).join("");
  return `${header}; boundary=f\n\n${body}--f--\n`;
}
const ARF = "Content-Type: multipart/report; report-type=feedback-report";
const MIXED = "Content-Type: multipart/mixed";

const COMPLAINTS: [who: string, message: string, atFeedback: string, atPath: string][] = [
  [
    "Yahoo",
    `From: "Yahoo! Mail AntiSpam Feedback" <feedback@arf.mail.yahoo.com>\nSubject: FW:Order 1\n${parts(ARF, ["text/plain", "This is an email abuse report."], ["message/feedback-report", `${SAID}\nOriginal-Rcpt-To: kim@yahoo.com\nReported-Domain: b.example`], ["message/rfc822", MAIL])}`,
    "complaint",
    "complained",
  ],
  [
    "Comcast, redacted and with the header alone",
    `From: feedbackloop@comcastfbl.senderscore.net\nSubject: Abuse report\n${parts(ARF, ["text/plain", "abuse"], ["message/feedback-report", `${SAID}\nRemoval-Recipient: redacted\nRedacted-Address: redacted`], ["text/rfc822-headers", MAIL])}`,
    "complaint",
    "complained",
  ],
  [
    "Fastmail, in base64",
    `From: fbl@fastmail.com\nSubject: Spam report\n${parts(ARF, ["message/feedback-report\nContent-Transfer-Encoding: base64", Buffer.from(SAID).toString("base64")], ["message/rfc822", MAIL])}`,
    "complaint",
    "complained",
  ],
  [
    "Mail.ru, with a type in capitals",
    `From: fbl@corp.mail.ru\nSubject: =?utf-8?B?0JbQsNC70L7QsdCw?=\n${parts(ARF, ["MESSAGE/FEEDBACK-REPORT", "feedback-type: ABUSE\nversion: 0.1"], ["message/rfc822", MAIL])}`,
    "complaint",
    "complained",
  ],
  [
    "Microsoft, no report at all",
    `From: staff@hotmail.com\nSubject: complaint about message from 192.0.2.1\n${parts(MIXED, ["message/rfc822", `X-HmXmrOriginalRecipient: kim@hotmail.com\n${MAIL}`])}`,
    "complaint",
    "ignored",
  ],
  [
    "X-ARF of abusix",
    `From: report@abusix.example\nSubject: abuse report about 192.0.2.1\nX-XARF: PLAIN\n${parts(MIXED, ["text/plain", "Hello Abuse-Team"], ["text/plain; name=report.txt", "Reported-From: report@abusix.example\nCategory: abuse\nReport-Type: spam\nVersion: 0.2"], ["message/rfc822", MAIL])}`,
    "complaint",
    "ignored",
  ],
  [
    "X-ARF about something else",
    `From: report@abusix.example\nSubject: login attack from 192.0.2.1\nX-XARF: PLAIN\n${parts(MIXED, ["text/plain", "Hello Abuse-Team"], ["text/plain; name=report.txt", "Category: abuse\nReport-Type: login-attack"], ["text/plain; name=logfile.log", "Failed password 550 5.1.1 user unknown"])}`,
    "ignored",
    "ignored",
  ],
  [
    "no spam after all",
    `From: feedback@arf.mail.yahoo.com\nSubject: FW:Order 1\n${parts(ARF, ["message/feedback-report", "Feedback-Type: not-spam\nVersion: 1"], ["message/rfc822", MAIL])}`,
    "ignored",
    "ignored",
  ],
  [
    "a failed signature",
    `From: dmarc@x.example\nSubject: FW: Order 1\n${parts(ARF, ["message/feedback-report", "Feedback-Type: auth-failure\nAuth-Failure: dmarc\nVersion: 1"], ["message/rfc822", MAIL])}`,
    "ignored",
    "ignored",
  ],
];

test.each(COMPLAINTS)("a complaint: %s", (_, message, atFeedback, atPath) => {
  expect(resultOf(message, "feedback_address")).toBe(atFeedback);
  expect(resultOf(message)).toBe(atPath);
});
