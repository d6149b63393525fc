/**
 * What a message to a return path or a feedback address reports: what became of recipients (RFC 3464, or the
 * words of systems that write none), a complaint (RFC 5965 and its variants), or nothing that counts.
 *
 * Promises: pure; nothing throws; the time is linear in the size of the message. What it says is a claim of
 * whoever wrote the message, to be judged by whom it can be about.
 */
import { isOneOf } from "../names.ts";
import { emailIdOf, pathsIn } from "../returnpath.ts";
import { bounceInWords, fatesInWords } from "./bouncewords.ts";
import type { Action, Fate } from "./fate.ts";
import { type Fields, field, type Part, partsOf, readFields, textOf, wordsIn } from "./mime.ts";
import {
  answeredWith,
  mildestOf,
  type Refusals,
  type RefusedAt,
  refusalsIn,
  refusedAt,
  whereOf,
} from "./refusedat.ts";
import { isAnswer, isOfDaemon, isOfMailSystem } from "./sender.ts";

export type Complaint = {
  feedbackType: string;
  recipient: string | null;
  /** Of the mail that is complained about. */
  messageId: string | null;
  mark: string | null;
  /** What may be return paths of ours, wherever the report shows them. */
  paths: string[];
};

export type ReadReport =
  | { kind: "delivery"; fates: Fate[]; passedOn: PassedOn | null }
  | { kind: "complaint"; complaint: Complaint; passedOn: PassedOn | null }
  | { kind: "ignored"; reason: string };

/**
 * Of a report that somebody else got and sends on: the ids of the mails that it shows, in lower case. Only
 * one that shows the mail in question is about it.
 */
export type PassedOn = { emailIds: readonly string[] };

const FATES_MAX = 100;
/** Of fields in a status part: one about the message, one for each recipient, and empty ones. */
const GROUPS_MAX = 500;
const TEXT_CHARS_MAX = 500;
const PATHS_MAX = 10;
const HEADER_TEXT_CHARS_MAX = 65_536;

/** `to`: a feedback address takes complaints of providers that write no report of RFC 5965. */
export function readReport(message: Buffer, to: "return path" | "feedback address"): ReadReport {
  const parts = partsOf(message);
  const [whole] = parts;
  if (!whole) return { kind: "ignored", reason: "the message is empty" };
  const complaint = complaintIn(parts, to);
  if (complaint) return complaint;
  const status = firstOf(parts, STATUS_TYPES);
  const fates = status ? fatesIn(textOf(status)) : [];
  if (status && fates.length > 0)
    return { kind: "delivery", fates: withWords(fates, parts), passedOn: passedOn(status, parts) };
  return withoutReport(whole, parts);
}

/**
 * Some systems attach their own report to a message; deeper is what was attached to the mail that comes back.
 */
const OWN_DEPTH_MAX = 3;
const SHOWN_MAX = 50;

function passedOn(report: Part, parts: readonly Part[]): PassedOn | null {
  const header = headerOf(parts);
  const isOwn = report.isQuoted
    ? isOfMailSystem(header) && report.depth <= OWN_DEPTH_MAX
    : isOfDaemon(header) || header.has("auto-submitted") || !isAnswer(header);
  return isOwn ? null : { emailIds: emailIdsShown(parts) };
}

/** By their return paths and their ids, in whatever header is attached. */
function emailIdsShown(parts: readonly Part[]): string[] {
  const headers = parts.filter(({ isQuoted, depth }) => isQuoted && depth > 0).map(({ fields }) => fields);
  const ids: string[] = [];
  for (const fields of [...headers, quotedHeader(parts)]) {
    ids.push(...pathsOf(fields).map(emailIdOf));
    for (const name of MESSAGE_ID_FIELDS) ids.push(...(field(fields, name).toLowerCase().match(UUID) ?? []));
    if (ids.length > SHOWN_MAX) break;
  }
  return ids;
}
const MESSAGE_ID_FIELDS = ["message-id", "in-reply-to", "references"];
const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=@)/g;

/** Somebody has read a mail, or deleted it unread. */
const RECEIPT_TYPE = "message/disposition-notification";
const STATUS_TYPES = ["message/delivery-status", "message/global-delivery-status"];
/** They send a mail back too, and complain about nothing. */
const OTHER_REPORTS = [...STATUS_TYPES, RECEIPT_TYPE];

/** What the message itself says goes before what a message attached to it says. */
function firstOf(parts: readonly Part[], types: readonly string[]): Part | null {
  const found = parts.filter(({ type }) => types.includes(type));
  return found.find(({ isQuoted }) => !isQuoted) ?? found[0] ?? null;
}

// ---- what became of recipients

function fatesIn(text: string): Fate[] {
  const fates: Fate[] = [];
  let remote: string | null = null;
  let at = 0;
  for (let n = 0; n < GROUPS_MAX && at < text.length && fates.length < FATES_MAX; n++) {
    const { fields, end } = readFields(text, at);
    at = end;
    if (fields.has("reporting-mta")) remote ??= hostIn(field(fields, "reporting-mta"));
    const fate = fateIn(fields, remote);
    if (fate) fates.push(fate);
  }
  return fates;
}

/** A group of fields about one recipient; null: it is about the message, or says nothing. */
function fateIn(fields: Fields, reporter: string | null): Fate | null {
  const final = addressIn(field(fields, "final-recipient"));
  const recipient = recipientIn(fields, final);
  const stated = /\b([245]\.\d{1,3}\.\d{1,3})\b/.exec(field(fields, "status"))?.[1] ?? null;
  const action = actionOf(field(fields, "action"), stated);
  if (action === null || (recipient === null && !fields.has("status"))) return null;
  const diagnostic = clean(diagnosticIn(fields));
  const { code, status } = codesIn(diagnostic);
  const at = refusedAt([...fields.values()].flat().join("\n").slice(0, HEADER_TEXT_CHARS_MAX));
  return {
    ...(at !== null && { refusedAt: at }),
    recipient,
    ...(final !== null && final !== recipient && { behind: final }),
    action,
    status: statusOf(stated, status),
    code,
    text: diagnostic,
    remote: hostIn(field(fields, "remote-mta")) ?? reporter,
  };
}

/**
 * Who was first written to. Some copy the parameter of RCPT as it came, in which `+` is `+2B` and `=` is
 * `+3D` (RFC 3461, 4): unless the address that failed is spelt so too.
 */
function recipientIn(fields: Fields, final: string | null): string | null {
  const original = field(fields, "original-recipient");
  if (original === "")
    return addressIn(field(fields, "final-recipient") || field(fields, "x-actual-recipient"));
  const written = addressIn(original);
  return written === final
    ? written
    : addressIn(original.replace(/\+(2B|3D)/g, (_, code) => (code === "2B" ? "+" : "=")));
}

/**
 * What was said, without the kind of system that said it: `smtp; 550 no`, and in a field of Exchange's
 * `<host #5.0.0 smtp; 550 no>`. There should be one; of several any may excuse the recipient.
 */
function diagnosticIn(fields: Fields): string {
  const said = (fields.get("diagnostic-code") ?? [])
    .map((one) => one.replace(/^\s*[\w.-]{1,40}\s*;/, ""))
    .join(" ");
  if (said.trim() !== "") return said;
  const more = field(fields, "x-supplementary-info");
  return more.slice(more.indexOf(";") + 1).replace(/>$/, "");
}

/** `5.0.0` says nothing that the reply does not say better. */
function statusOf(stated: string | null, quoted: string | null): string | null {
  return stated === null || (/\.0\.0$/.test(stated) && quoted !== null) ? quoted : stated;
}

const ACTIONS = ["failed", "delayed", "delivered", "relayed", "expanded"] as const;

function actionOf(text: string, status: string | null): Action | null {
  const word = /^[a-z]{1,20}/.exec(text.trim().toLowerCase())?.[0] ?? "";
  if (isOneOf(ACTIONS, word)) return word;
  if (word === "failure") return "failed";
  if (status === null) return null;
  return status.startsWith("5") ? "failed" : status.startsWith("4") ? "delayed" : null;
}

/**
 * The code of a reply and its enhanced code, where the text begins with them or quotes them. Digits of an
 * address or a host name are none.
 */
function codesIn(text: string): { code: number | null; status: string | null } {
  const found = /(?:^|[^\w.@+])([245]\d\d)(?:[ -]#?([245]\.\d{1,3}\.\d{1,3}))?(?![\w.@+])/.exec(text);
  const alone = /(?:^|[^\d.])([245]\.\d{1,3}\.\d{1,3})(?![\d.])/.exec(text);
  return {
    code: found?.[1] === undefined ? null : Number(found[1]),
    status: found?.[2] ?? alone?.[1] ?? null,
  };
}

/**
 * A report without a quoted reply has its reason in the words for people; which command was refused stands
 * only there.
 */
function withWords(fates: Fate[], parts: readonly Part[]): Fate[] {
  const said = wordsOf(parts);
  const refusals = refusalsIn(said);
  const whole = whereOf(refusals);
  if (whole === null && fates.every(({ text }) => text !== "")) return fates;
  const words = fatesInWords(headerOf(parts), said);
  return fates.map((fate) => {
    const own =
      words.find(({ recipient }) => recipient === fate.recipient) ?? (fates.length === 1 ? words[0] : null);
    const at = fate.refusedAt ?? (fates.length === 1 ? whole : refusedAtAmong(fate, own ?? null, refusals));
    const timed = at === null ? fate : { ...fate, refusedAt: at };
    if (fate.text !== "" || !own) return timed;
    return { ...timed, code: own.code, text: own.text, status: statusOf(fate.status, own.status) };
  });
}

/**
 * Of one of several: by the reply in a transcript, by the words below its address, or by what is said of all.
 */
function refusedAtAmong(fate: Fate, own: Fate | null, { commands, exchanges }: Refusals): RefusedAt | null {
  if (exchanges.length > 0) return answeredWith(fate.text, exchanges);
  if (own?.refusedAt) return own.refusedAt;
  return commands.includes("rcpt") ? null : mildestOf(commands);
}

function withoutReport(whole: Part, parts: readonly Part[]): ReadReport {
  const header = whole.fields;
  if (firstOf(parts, [RECEIPT_TYPE])) return { kind: "ignored", reason: "a receipt of a mail that arrived" };
  const isReply = isAutomatic(header);
  const isNobodys = isReply && (hasAutomaticSubject(header) || !isOfMailSystem(header));
  const isReturned = parts.some(({ isQuoted, type }) => isQuoted || HEADER_TYPES.includes(type));
  const fates = isNobodys ? [] : bounceInWords(header, wordsOf(parts), isReturned);
  if (fates.length > 0) return { kind: "delivery", fates, passedOn: null };
  if (isReply) return { kind: "ignored", reason: "an automatic reply" };
  return { kind: "ignored", reason: "it reports nothing that is understood" };
}

function headerOf([whole]: readonly Part[]): Fields {
  return whole?.fields ?? new Map();
}

/** What people are to read, not what is quoted. */
function wordsOf(parts: readonly Part[]): string {
  const readable = parts.filter(
    ({ type, isQuoted }) => !isQuoted && (type === "text/plain" || type === "text/html"),
  );
  const first = readable.find(({ type }) => type === "text/plain") ?? readable[0];
  return first ? textOf(first) : "";
}

const AUTOMATIC_FIELDS = ["x-autoreply", "x-autorespond", "x-autoresponder", "x-auto-response", "x-vacation"];
const SUBJECT_CHARS_MAX = 200;
const AUTOMATIC_SUBJECT =
  /^[\s"'[(*]{0,10}(?:(?:auto(?:matic|mated)?|out of (?:the )?office|vacation|away|ooo)\b|(?:abwesen|automat(?:ische antwort|isch antwoord|isk(?:t)? svar|yczna odpowied|ická odpověď|ikus válasz)|automaattinen|autosvar|réponse (?:automatique|d'absence)|(?:message d')?absen|respuesta autom|resposta autom|risposta autom|fuera de (?:la )?oficina|ausen|fuori (?:sede|ufficio)|afwezig|frånvar|fravær|poissa|nieobecno|nepřítomn|távol|răspuns automat|otomatik yanıt|ofis dışı|αυτόματη απάντηση|автоматич|автоответ|відсутн|رد تلقائي|תשובה אוטומטית|自动(?:回复|答复)|自動(?:返信|応答|回覆|答覆)|不在|外出|자동 ?(?:회신|응답|답장)|부재))/iu;

function isAutomatic(fields: Fields): boolean {
  const submitted = field(fields, "auto-submitted").toLowerCase();
  return (submitted !== "" && !submitted.startsWith("no")) || isOfSomebodyAway(fields);
}

function isOfSomebodyAway(fields: Fields): boolean {
  if (field(fields, "auto-submitted").toLowerCase().startsWith("auto-replied")) return true;
  if (AUTOMATIC_FIELDS.some((name) => fields.has(name))) return true;
  if (/auto.?reply|auto.?respond|vacation/i.test(field(fields, "precedence"))) return true;
  return hasAutomaticSubject(fields);
}

function hasAutomaticSubject(fields: Fields): boolean {
  return AUTOMATIC_SUBJECT.test(wordsIn(fields, "subject").slice(0, SUBJECT_CHARS_MAX));
}

// ---- complaints

/** Reports of these types complain about nothing. */
const NO_COMPLAINT: ReadonlySet<string> = new Set(["not-spam", "auth-failure", "dmarc", "dkim"]);

function complaintIn(parts: readonly Part[], to: "return path" | "feedback address"): ReadReport | null {
  const report = firstOf(parts, ["message/feedback-report"]);
  const about = parts.find(({ isQuoted, depth }) => isQuoted && depth > 0) ?? null;
  const isOther = parts.some(({ type }) => OTHER_REPORTS.includes(type));
  const [whole] = parts;
  const isAnswer = whole !== undefined && isOfSomebodyAway(whole.fields);
  if (!report && (to !== "feedback address" || !about || isOther || isAnswer)) return null;
  const said = report ? readFields(textOf(report)).fields : new Map();
  const feedbackType = /^[a-z][\w-]{0,39}/.exec(field(said, "feedback-type").toLowerCase())?.[0] ?? "abuse";
  if (NO_COMPLAINT.has(feedbackType))
    return { kind: "ignored", reason: `feedback of the type ${feedbackType}` };
  const header = about?.fields ?? quotedHeader(parts);
  const recipient = RECIPIENT_FIELDS.map((name) => addressIn(field(said, name))).find(isAddress);
  const named = QUOTED_RECIPIENT_FIELDS.map((name) => addressIn(field(header, name))).find(isAddress);
  const complaint: Complaint = {
    feedbackType,
    recipient: recipient ?? named ?? null,
    messageId: /<[^<>\s]{1,250}>/.exec(field(header, "message-id"))?.[0] ?? null,
    mark: field(header, "x-postrider-mark").toLowerCase() || null,
    paths: [...pathsOf(said), ...pathsOf(header)].slice(0, PATHS_MAX),
  };
  return {
    kind: "complaint",
    complaint,
    passedOn: report?.isQuoted ? { emailIds: emailIdsShown(parts) } : null,
  };
}

const RECIPIENT_FIELDS = ["original-rcpt-to", "removal-recipient", "x-hmxmroriginalrecipient"];
/** Microsoft writes the first into the header of the mail that it sends back. */
const QUOTED_RECIPIENT_FIELDS = ["x-hmxmroriginalrecipient", "delivered-to", "x-original-to"];

/** Some send only the header of the mail, as text. */
const HEADER_TYPES = ["text/rfc822-headers", "message/rfc822-headers"];
function quotedHeader(parts: readonly Part[]): Fields {
  const part = firstOf(parts, HEADER_TYPES);
  return part ? readFields(textOf(part)).fields : new Map();
}

function pathsOf(fields: Fields): string[] {
  let text = "";
  for (const values of fields.values()) {
    for (const value of values) text += `${value}\n`;
    if (text.length > HEADER_TEXT_CHARS_MAX) break;
  }
  return pathsIn(text);
}

// ---- what stands in fields

const ADDRESS = /[^\s<>;,"]{1,64}@[^\s<>;,"@]{1,253}/;

/** The address of `rfc822; a@example.com`, in lower case; null when there is none, or a placeholder. */
export function addressIn(text: string): string | null {
  const [, type = "", given = ""] = /^(?:\s*([\w-]{1,20})\s*;)?(.*)/su.exec(text.slice(0, 1_000)) ?? [];
  return ADDRESS.exec(type.toLowerCase() === "utf-8" ? unescaped(given) : given)?.[0].toLowerCase() ?? null;
}

/**
 * RFC 6533, 3: 7-bit text shows other letters as `\x{F8}`, and the three of ASCII that mean something in it.
 * Escapes of others stay as they are.
 */
function unescaped(text: string): string {
  return text.replace(/\\x\{([0-9a-f]{2,6})\}/gi, (written, hex: string) => {
    const code = Number.parseInt(hex, 16);
    const isLetter = (code > 0x9f && code <= 0x10ffff) || MEANINGFUL.includes(code);
    const letter = isLetter ? String.fromCodePoint(code) : written;
    return letter.isWellFormed() ? letter : written;
  });
}

const MEANINGFUL: readonly number[] = [..."+=\\"].map((letter) => letter.charCodeAt(0));

function isAddress(address: string | null): address is string {
  return address !== null && !/^redacted/.test(address);
}

function hostIn(text: string): string | null {
  const host = /^(?:\s*[\w-]{1,20}\s*;)?\s*([^\s()<>;]{1,253})/.exec(text.slice(0, 1_000))?.[1];
  return host === undefined ? null : clean(host);
}

function clean(text: string): string {
  return text
    .slice(0, 4 * TEXT_CHARS_MAX)
    .replace(/[\p{Cc}\s]+/gu, " ")
    .trim()
    .slice(0, TEXT_CHARS_MAX)
    .toWellFormed();
}
