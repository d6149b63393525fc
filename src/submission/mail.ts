/**
 * What was submitted as the body of POST /emails: the API then judges it as it judges any other.
 *
 * The envelope decides who gets mail, the header what is shown. A recipient that stands in To or Cc is one
 * there, and a Bcc otherwise; who stands in the header alone is shown and gets nothing. Where To names no
 * recipient at all, every recipient counts as one of To.
 */
import { createHash } from "node:crypto";
import { headerIsOperators, headerReserved, identity, MARK_FIELD, parseMailbox } from "../address.ts";
import { textOfBytes } from "../message/charset.ts";
import { decodeWords } from "../message/encodedwords.ts";
import { type HeaderField, listed, valuesOf } from "./fields.ts";
import { Malformed } from "./malformed.ts";
import { contentOf, type Leaf, readMime } from "./mime.ts";

/** The API takes 2 MB; a character more lets it say so, and what is beyond need not be handed around. */
const TEXT_CHARS_MAX = 2 * 1024 * 1024 + 1;
const CONTENT_TYPE_CHARS_MAX = 255;
/** As in a body of the API. What is nested in thousands of levels nobody can write as JSON again. */
const VARIABLES_DEPTH_MAX = 32;

const OWN_FIELDS = {
  template: "X-Postrider-Template",
  variables: "X-Postrider-Variables",
  tag: "X-Postrider-Tag",
  scheduledAt: "X-Postrider-Scheduled-At",
} as const;
const IDEMPOTENCY_FIELD = "Resend-Idempotency-Key";
/** The engine writes one of its own, by which it knows reports about the mail. */
const CLIENT_ID_FIELD = "X-Original-Message-ID";

export type SubmittedFile = { bytes: Buffer; hash: string };
export type SubmittedMail = {
  /** Its attachments have no content: that is in `files`, in the same order. */
  body: { [name: string]: unknown };
  files: SubmittedFile[];
  /** What the header shows as To and Cc, where that is not just its recipients. */
  shown: { to: string[]; cc: string[] } | null;
  idempotencyKey: string | null;
  /** Of all that makes the e-mail: the same for the same e-mail sent again. */
  digest: string;
};

/** Throws `Malformed`. */
export function readMail(message: Buffer, envelope: readonly string[]): SubmittedMail {
  const { fields, leaves } = readMime(message);
  const { recipients, shown } = peopleOf(fields, envelope);
  const template = templateOf(fields);
  const { files, ...contents } = contentsOf(leaves);
  const body = {
    from: senderOf(fields),
    ...recipients,
    ...someOf("reply_to", listed(fields, "reply-to")),
    ...subjectOf(fields, template !== null),
    ...(template && isBlank(contents) ? { attachments: contents.attachments } : contents),
    ...(template && { template }),
    ...headersOf(fields),
    ...someOf("tags", valuesOf(fields, OWN_FIELDS.tag.toLowerCase()).map(tagOf)),
    ...optional("scheduled_at", single(fields, OWN_FIELDS.scheduledAt)),
  };
  const idempotencyKey = single(fields, IDEMPOTENCY_FIELD);
  const digest = idempotencyKey === null ? "" : digestOf(body, shown, files);
  return { body, files, shown, idempotencyKey, digest };
}

/** A client that sends again makes a new Message-ID. */
function digestOf(
  body: { headers?: Record<string, string> },
  shown: SubmittedMail["shown"],
  files: readonly SubmittedFile[],
): string {
  const { [CLIENT_ID_FIELD]: _, ...headers } = body.headers ?? {};
  const parts = [{ ...body, headers }, shown, files.map(({ hash }) => hash)];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

function senderOf(fields: readonly HeaderField[]): string | undefined {
  const given = listed(fields, "from");
  if (given.length === 0) return undefined;
  if (given.length === 1) return given[0];
  throw new Malformed("The `From` header must name exactly one address.");
}

function peopleOf(fields: readonly HeaderField[], envelope: readonly string[]) {
  const open = new Map(envelope.map((address) => [identity(address), address]));
  const take = (texts: readonly string[]) =>
    texts.filter((text) => {
      const mailbox = parseMailbox(text);
      // what is no address is for the API to refuse
      return mailbox === null || open.delete(identity(mailbox.address));
    });
  const header = { to: listed(fields, "to"), cc: listed(fields, "cc") };
  const to = take(header.to);
  const cc = take(header.cc);
  if (to.length === 0) return { recipients: { to: [...cc, ...open.values()] }, shown: header };
  const isShown = to.length < header.to.length || cc.length < header.cc.length;
  const recipients = { to, ...someOf("cc", cc), ...someOf("bcc", [...open.values()]) };
  return { recipients, shown: isShown ? header : null };
}

/** With a template an empty one is as good as none, since many clients always write the field. */
function subjectOf(fields: readonly HeaderField[], hasTemplate: boolean): { subject?: string } {
  const given = single(fields, "Subject");
  const subject = given === null ? null : decodeWords(given);
  return subject === null || (subject === "" && hasTemplate) ? {} : { subject };
}

function templateOf(fields: readonly HeaderField[]): { id: string; variables?: unknown } | null {
  const id = single(fields, OWN_FIELDS.template);
  const variables = single(fields, OWN_FIELDS.variables);
  if (id === null) {
    if (variables === null) return null;
    throw new Malformed(`The \`${OWN_FIELDS.variables}\` header needs an \`${OWN_FIELDS.template}\` header.`);
  }
  return { id: decodeWords(id), ...(variables !== null && { variables: parsed(decodeWords(variables)) }) };
}

function parsed(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Malformed(`The \`${OWN_FIELDS.variables}\` header must be a JSON object.`);
  }
  if (isDeeper(value, VARIABLES_DEPTH_MAX))
    throw new Malformed(
      `The \`${OWN_FIELDS.variables}\` header is nested too deeply: at most ${VARIABLES_DEPTH_MAX} levels are allowed.`,
    );
  return value;
}

function isDeeper(value: unknown, levels: number): boolean {
  if (value === null || typeof value !== "object") return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

function tagOf(text: string): { name: string; value: string } {
  const equals = text.indexOf("=");
  if (equals < 0) throw new Malformed(`The \`${OWN_FIELDS.tag}\` header must be \`name=value\`.`);
  return { name: text.slice(0, equals).trim(), value: text.slice(equals + 1).trim() };
}

/** They stay as they came, encoded words too. What the engine writes itself is left out. */
function headersOf(fields: readonly HeaderField[]): { headers?: Record<string, string> } {
  const headers = new Map<string, [string, string]>();
  for (const { name, value } of fields) {
    const lower = name.toLowerCase();
    if (READ_FIELDS.has(lower) || OF_THE_WAY.test(lower) || headerIsOperators(name)) continue;
    const kept = lower === "message-id" ? CLIENT_ID_FIELD : name;
    if (headerReserved(kept)) {
      if (lower.startsWith("x-postrider-") && lower !== MARK_FIELD.toLowerCase())
        throw new Malformed(
          `The \`${name}\` header is not known. Known are ${Object.values(OWN_FIELDS).join(", ")}.`,
        );
      continue;
    }
    if (headers.has(kept.toLowerCase())) throw new Malformed(`The \`${name}\` header is given twice.`);
    headers.set(kept.toLowerCase(), [kept, value]);
  }
  return headers.size > 0 ? { headers: Object.fromEntries(headers.values()) } : {};
}

const READ_FIELDS = new Set([
  ...["from", "to", "cc", "bcc", "reply-to", "subject"],
  ...[...Object.values(OWN_FIELDS), IDEMPOTENCY_FIELD].map((name) => name.toLowerCase()),
]);

/**
 * What servers, mailboxes and cron wrote about the message before us: like Received it ends here, and may be
 * given more than once.
 */
const OF_THE_WAY =
  /^(?:arc-(?:seal|message-signature|authentication-results)|(?:x-)?authentication-results|received-spf|x-received|(?:x-google-)?dkim-(?:signature|filter)|domainkey-signature|delivered-to|envelope-to|delivery-date|status|lines|x-original-to|x-spam-[a-z-]+|x-cron-env)$/;

/** Of a field that may occur once. */
function single(fields: readonly HeaderField[], name: string): string | null {
  const values = valuesOf(fields, name.toLowerCase());
  if (values.length > 1) throw new Malformed(`The \`${name}\` header is given twice.`);
  return values[0] ?? null;
}

type Contents = { text?: string; html?: string; attachments?: unknown[]; files: SubmittedFile[] };

function contentsOf(leaves: readonly Leaf[]): Contents {
  const attached = leaves.filter((leaf) => !isText(leaf));
  const files = attached.map((leaf) => {
    const bytes = contentOf(leaf);
    return { bytes, hash: createHash("sha256").update(bytes).digest("hex") };
  });
  return { files, ...textsOf(leaves.filter(isText)), ...someOf("attachments", attached.map(attachmentOf)) };
}

function isText({ type, isAttached, filename }: Leaf): boolean {
  return (type === "text/plain" || type === "text/html") && !isAttached && filename === null;
}

/**
 * Several texts are one after the other. One that has no alternative is part of the HTML, too; one in HTML
 * that has none is not in the text, which the API then derives from the HTML.
 */
function textsOf(leaves: readonly Leaf[]): { text?: string; html?: string } {
  const texts = leaves.map((leaf) => ({ isHtml: leaf.type === "text/html", content: textOf(leaf), ...leaf }));
  const plain = texts.filter(({ isHtml }) => !isHtml);
  if (plain.length === texts.length) return { text: joined(plain.map(({ content }) => content)) };
  const rich = texts.filter(({ isHtml, isAlternative }) => isHtml || !isAlternative);
  const html = joined(rich.map(({ isHtml, content }) => (isHtml ? content : asHtml(content))));
  const isWhole = plain.length > 0 && rich.every(({ isHtml, isAlternative }) => !isHtml || isAlternative);
  return isWhole ? { text: joined(plain.map(({ content }) => content)), html } : { html };
}

function joined(texts: readonly string[]): string {
  return texts.join("\n").slice(0, TEXT_CHARS_MAX);
}

function textOf(leaf: Leaf): string {
  const text = textOfBytes(contentOf(leaf), leaf.parameters.get("charset") ?? "").replaceAll("\r\n", "\n");
  const isFlowed = leaf.type === "text/plain" && leaf.parameters.get("format")?.toLowerCase() === "flowed";
  return isFlowed ? unflowed(text, leaf.parameters.get("delsp")?.toLowerCase() === "yes") : text;
}

/** RFC 3676: a line that ends in a space goes on in the next. Quoted lines stay as they are. */
function unflowed(text: string, dropsSpace: boolean): string {
  let whole = "";
  for (const line of text.split("\n")) {
    const said = line.startsWith(" ") ? line.slice(1) : line;
    const goesOn = said.endsWith(" ") && said !== "-- " && !said.startsWith(">");
    whole += goesOn ? (dropsSpace ? said.slice(0, -1) : said) : `${said}\n`;
  }
  return whole.endsWith("\n") ? whole.slice(0, -1) : whole;
}

function asHtml(text: string): string {
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `<div style="white-space: pre-wrap">${escaped}</div>`;
}

/** What clients write into a message that a template fills. */
function isBlank({ text = "", html = "" }: Pick<Contents, "text" | "html">): boolean {
  return text.trim() === "" && html.trim() === "";
}

function attachmentOf(leaf: Leaf, n: number) {
  return {
    filename: leaf.filename ?? `attachment-${n + 1}${ENDINGS_OF_TYPES[leaf.type] ?? ""}`,
    content: "",
    content_type: contentTypeOf(leaf),
    ...(leaf.contentId !== null && { content_id: leaf.contentId.replace(/^<(.*)>$/, "$1") }),
  };
}

/** A nameless file is known by its ending. */
const ENDINGS_OF_TYPES: Record<string, string> = {
  "message/rfc822": ".eml",
  "text/calendar": ".ics",
  "text/html": ".html",
  "text/plain": ".txt",
  "application/pdf": ".pdf",
  "image/png": ".png",
  "image/jpeg": ".jpg",
  "image/gif": ".gif",
};

function contentTypeOf({ type, parameters }: Leaf): string {
  let text = type;
  for (const [name, value] of parameters) {
    const written = `; ${name}="${value}"`;
    const isNeeded = name !== "name" && name !== "boundary" && !/["\\]/.test(value);
    if (isNeeded && text.length + written.length <= CONTENT_TYPE_CHARS_MAX) text += written;
  }
  return text;
}

function someOf<N extends string, T>(name: N, list: readonly T[]): { [name in N]?: T[] } {
  return list.length > 0 ? ({ [name]: list } as { [name in N]?: T[] }) : {};
}

function optional<N extends string>(name: N, value: string | null): { [name in N]?: string } {
  return value === null ? {} : ({ [name]: value } as { [name in N]?: string });
}
