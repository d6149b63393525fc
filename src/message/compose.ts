/**
 * An e-mail as the octets of one message: what follows DATA, before dot-stuffing, ending in CRLF.
 *
 * Promises: a strict parser reads back what was given, but for line breaks (each becomes CRLF, and a message
 * of one part ends in one), control characters in header text (spaces) and white space at the ends of header
 * text. All is ASCII, unless an address needs SMTPUTF8. The same e-mail yields the same octets, so an attempt
 * repeated is the same message.
 *
 * Refuses with `UnwritableMessage` what no retry could mend: a header field that is not the caller's to set,
 * a date or a message id that is none.
 *
 * Text, HTML and both are written here directly: about 15 us for half a kilobyte, the plain text derived on
 * the way, where nodemailer's MailComposer takes twenty times that. E-mails with attachments or much text are
 * written in steps, by mimetree.
 */
import { headerNameOk, headerReserved, MARK_FIELD, type Mailbox } from "../address.ts";
import { concatInTurns } from "../turn.ts";
import { textPart } from "./body.ts";
import { addressField, dateField, givenField, subjectField } from "./header.ts";
import { plaintextInTurns, plaintextOf } from "./plaintext.ts";
import { type Attachment, treeOf } from "./tree.ts";

export type MessageContent = {
  /** With or without angle brackets. */
  messageId: string;
  date: Date;
  from: Mailbox;
  to: readonly Mailbox[];
  cc: readonly Mailbox[];
  replyTo: readonly Mailbox[];
  subject: string;
  html: string | null;
  /** null: derived from the HTML; "": none. */
  text: string | null;
  headers: Readonly<Record<string, string>>;
  attachments: readonly Attachment[];
  /** By which the operator finds the workspace that sent it. */
  mark?: string;
};

/** Longer texts are composed in steps: this takes up to 15 ms, where most take some 20 us. */
const AT_ONCE_CHARS_MAX = 32 * 1024;
const CRLF = Buffer.from("\r\n");
/** Some receivers take a mail without To for spam. */
const NOBODY_SHOWN = "To: undisclosed-recipients:;\r\n";

export class UnwritableMessage extends Error {}

export function compose(content: MessageContent): Buffer | Promise<Buffer> {
  const head = headOf(content);
  // the same octets where all is ASCII, and nobody has to count them first
  const encoding = needsUtf8(content) ? "utf8" : "latin1";
  const html = content.html ?? "";
  if (content.attachments.length > 0 || Math.max(html.length, content.text?.length ?? 0) > AT_ONCE_CHARS_MAX)
    return composeInTurns(content, Buffer.from(head, encoding), html);
  const text = content.text ?? plaintextOf(html);
  const boundary = boundaryFor(content.messageId, text, html);
  let message: string;
  if (html === "") message = composeOne(head, "text/plain", text);
  else if (text === "") message = composeOne(head, "text/html", html);
  else message = composeBoth(head, text, html, boundary);
  return Buffer.from(message, encoding);
}

/** Whether the header holds an address that only SMTPUTF8 can carry, wherever the envelope goes. */
export function needsUtf8({
  from,
  to,
  cc,
  replyTo,
}: Pick<MessageContent, "from" | "to" | "cc" | "replyTo">): boolean {
  return from.utf8 || to.some(isUtf8) || cc.some(isUtf8) || replyTo.some(isUtf8);
}

function isUtf8({ utf8 }: Mailbox): boolean {
  return utf8;
}

function headOf({ messageId, date, from, to, cc, replyTo, subject, headers, mark }: MessageContent): string {
  if (Number.isNaN(date.getTime())) throw new UnwritableMessage("the date is invalid");
  let head = addressField("From", [from]);
  head += to.length > 0 ? addressField("To", to) : NOBODY_SHOWN;
  if (cc.length > 0) head += addressField("Cc", cc);
  if (replyTo.length > 0) head += addressField("Reply-To", replyTo);
  head += subjectField(subject);
  head += `Message-ID: <${bareId(messageId)}>\r\n`;
  head += dateField(date);
  for (const name in headers) {
    if (!headerNameOk(name) || headerReserved(name))
      throw new UnwritableMessage(`the field ${JSON.stringify(name)} cannot be set`);
    head += givenField(name, headers[name] as string);
  }
  if (mark !== undefined) head += `${MARK_FIELD}: ${mark}\r\n`;
  return `${head}MIME-Version: 1.0\r\n`;
}

function bareId(messageId: string): string {
  const id = /^<?([!-;=?-~]{1,900})>?$/.exec(messageId)?.[1];
  if (id === undefined)
    throw new UnwritableMessage(`the message id ${JSON.stringify(messageId)} is malformed`);
  return id;
}

/** Made of the message id, so that it stays the same, and counted on while the text happens to hold it. */
function boundaryFor(messageId: string, text: string, html: string): string {
  const stem = `=_${messageId.replace(/[^A-Za-z0-9]/g, "").slice(0, 40)}`;
  let boundary = stem;
  for (let n = 1; text.includes(boundary) || html.includes(boundary); n++) boundary = `${stem}_${n}`;
  return boundary;
}

function composeOne(head: string, type: string, content: string): string {
  const { fields, body } = textPart(type, content);
  return `${head}${fields}\r\n${body}${body.endsWith("\r\n") ? "" : "\r\n"}`;
}

function composeBoth(head: string, text: string, html: string, boundary: string): string {
  const plain = textPart("text/plain", text);
  const rich = textPart("text/html", html);
  return (
    `${head}Content-Type: multipart/alternative;\r\n boundary="${boundary}"\r\n\r\n` +
    `--${boundary}\r\n${plain.fields}\r\n${plain.body}\r\n` +
    `--${boundary}\r\n${rich.fields}\r\n${rich.body}\r\n` +
    `--${boundary}--\r\n`
  );
}

async function composeInTurns(
  { messageId, text: given, attachments }: MessageContent,
  head: Buffer,
  html: string,
): Promise<Buffer> {
  const text = given ?? (await plaintextInTurns(html));
  const boundary = boundaryFor(messageId, text, html);
  const { fields, body } = await treeOf(text, html, attachments, boundary);
  const end = body.at(-1)?.subarray(-2).equals(CRLF) ? [] : [CRLF];
  return concatInTurns([head, Buffer.from(`${fields}\r\n`), ...body, ...end]);
}
