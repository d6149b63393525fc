/**
 * Addresses as text: one mailbox, and the rules for names and values of header fields.
 *
 * Promises: nothing that `parseMailbox` returns can break out of a header or an SMTP command. `address` may
 * be written in either as it stands: the domain is in lower-case A-labels, a quoted local part keeps its
 * quotes. The time is linear in a bounded input, and nothing throws.
 *
 * Accepts `a@x.com`, `<a@x.com>`, `Name <a@x.com>`, `"Quoted, Name" <a@x.com>`, quoted local parts,
 * international domains and local parts (then `utf8` is true: only a receiver with SMTPUTF8 can take it). An
 * unquoted name is any text, as senders write it: `Acme, Inc. (EU) <a@x.com>`. A comma or semicolon beside a
 * second `@` reads as a list and is refused.
 *
 * Refuses lists, groups, comments outside of names, control and invisible characters, lone surrogates,
 * address literals (`a@[1.2.3.4]`), domains of one label, IPv4 in any disguise, and `<` or `>` in a quoted
 * local part: no SMTP client would carry them.
 */
import { domainToASCII } from "node:url";

const LOCAL_OCTETS_MAX = 64;
const DOMAIN_OCTETS_MAX = 253;
const ADDRESS_OCTETS_MAX = 254;
const NAME_OCTETS_MAX = 998;
/** A name of quoted pairs only, an address, and what stands around them. */
const TEXT_CHARS_MAX = 2 * NAME_OCTETS_MAX + ADDRESS_OCTETS_MAX + 16;
const HEADER_VALUE_CHARS_MAX = 16_384;

export type Mailbox = {
  readonly name: string | null;
  readonly local: string;
  readonly domain: string;
  /** local@domain */
  readonly address: string;
  /** The local part is not ASCII. */
  readonly utf8: boolean;
};

const ATEXT = "\\w!#$%&'*+\\-/=?^`{|}~";
const PHRASE = new RegExp(`^[${ATEXT}]+(?: [${ATEXT}]+)*$`);
/** Here and in the domain all above ASCII passes; INVISIBLE has the say about it. */
const DOT_ATOM = new RegExp(`^[${ATEXT}\\u0080-\\uffff]+(?:\\.[${ATEXT}\\u0080-\\uffff]+)*$`);
const DOMAIN_CHARS = /^[a-z0-9.\-\u0080-\uffff]*$/;
const HOST = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;
const CONTROL = /[\p{Cc}\p{Cs}]/u;
/**
 * Their lower case or normal form is an ASCII character: the Kelvin sign, the Greek question mark, the Greek
 * varia.
 */
const OTHER_ASCII_LETTER = /([\u212a\u037e\u1fef])/;
const REORDERING = /[\u202a-\u202e\u2066-\u2069]/;
const DIRECTION_MARK = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
const DIRECTION_MARKS = new RegExp(DIRECTION_MARK, "g");
const INVISIBLE = /[\p{Cc}\p{Cs}\p{Cf}\p{Z}]/u;

export function parseMailbox(text: string): Mailbox | null {
  if (text.length > TEXT_CHARS_MAX) return null;
  if (!PRINTABLE_ASCII.test(text) && CONTROL.test(text)) return null;
  const bare = text.trim();
  if (!bare.endsWith(">")) return mailbox(null, bare);
  const open = bare.lastIndexOf("<");
  if (open < 0) return null;
  const name = readName(bare.slice(0, open));
  return name === null ? null : mailbox(name || null, bare.slice(open + 1, -1));
}

/** The text that `parseMailbox` reads back as the same mailbox. */
export function formatMailbox({ name, address }: Mailbox): string {
  if (name === null) return address;
  return `${PHRASE.test(name) ? name : quoted(name)} <${address}>`;
}

/**
 * The form under which two parsed addresses are the same contact: letter case never distinguishes people.
 * What is not ASCII stays so: the Kelvin sign is no k, although its lower case and its normal form are.
 */
export function identity(address: string): string {
  if (PRINTABLE_ASCII.test(address)) return address.toLowerCase();
  const stretches = address.split(OTHER_ASCII_LETTER);
  // the odd ones are what was split at
  return stretches.map((text, n) => (n % 2 === 1 ? text : text.toLowerCase().normalize("NFC"))).join("");
}

/** Characters that let text be shown in another order than it is written in. */
export function reordersText(text: string): boolean {
  return !PRINTABLE_ASCII.test(text) && REORDERING.test(text);
}

/** Those, and the marks that only lean text next to them: nothing that a name needs. */
export function hasDirectionMark(text: string): boolean {
  return !PRINTABLE_ASCII.test(text) && DIRECTION_MARK.test(text);
}

/** The text without them. */
export function withoutDirectionMarks(text: string): string {
  return PRINTABLE_ASCII.test(text) ? text : text.replace(DIRECTION_MARKS, "");
}

const IN_ADDRESS = "[^\\s<>()[\\]\"',;:/@\uff20\ufe6b]";
const COMMENT = "(?:\\([^()]{0,50}\\))?";
/** As in links, in HTML, and in parameters of SMTP: `=40` and `+40` only before the name of a host. */
const AT = "(?:[@\uff20\ufe6b]|%(?:25)*40|&#(?:64|x40);|&commat;|[=+]40(?=[\\w-]+(?:\\.[\\w-]+)*\\.[a-z]))";
/**
 * Also as `"first last"@`, `@[192.0.2.1]` and with comments. Only where a word begins: from each of its
 * characters on, 16,000 without a break took 250 ms.
 */
const ADDRESS = new RegExp(
  `(?:(?<!${IN_ADDRESS}'?)${IN_ADDRESS}+(?:'${IN_ADDRESS}+)*|"(?:\\\\.|[^"\\\\]){1,66}")` +
    `${COMMENT}${AT}${COMMENT}(?:${IN_ADDRESS}+|\\[[^\\s\\]]{1,50}\\])`,
  "gi",
);

/** For the eyes of others than its sender: what receivers say may repeat an address. */
export function withoutAddresses(text: string): string {
  return text.replace(ADDRESS, "(address)");
}

/** RFC 5322 field names: printable ASCII without the colon. */
export function headerNameOk(name: string): boolean {
  return /^[!-9;-~]{1,76}$/.test(name);
}

/** A value that can be folded and encoded into one field. */
export function headerValueOk(value: string): boolean {
  return value.length <= HEADER_VALUE_CHARS_MAX && (PRINTABLE_ASCII.test(value) || !CONTROL.test(value));
}

/** Says which workspace a mail is from, to its operator alone. */
export const MARK_FIELD = "X-Postrider-Mark";
const OWN_PREFIX = "x-postrider-";

const RESERVED_HEADERS = new Set([
  "from",
  "to",
  "cc",
  "bcc",
  "reply-to",
  "sender",
  "subject",
  "date",
  "message-id",
  "return-path",
  "received",
  "mime-version",
  "dkim-signature",
]);

/** What callers may set besides `X-` and `List-` fields. */
const GIVEN_HEADERS = [
  "Accept-Language",
  "Archived-At",
  "Auto-Submitted",
  "BIMI-Selector",
  "Comments",
  "Expires",
  "Feedback-ID",
  "Importance",
  "In-Reply-To",
  "Keywords",
  "Organization",
  "Precedence",
  "Priority",
  "References",
  "Sensitivity",
  "Supersedes",
  "Thread-Index",
  "Thread-Topic",
  "TLS-Required",
  "User-Agent",
];
const GIVEN = new Set(GIVEN_HEADERS.map((name) => name.toLowerCase()));
/**
 * They say what only those who carry mail can know, ask for an answer to somebody else, or are commands to a
 * smarthost: `X-SMTPAPI`, `X-MSYS-API` and `X-MC-BccAddress` add recipients that no quota counts.
 */
const BARRED_X =
  /^x-(?:received|authentication-|failed-recipients$|confirm-reading-to$|google-dkim-|smtpapi$|msys-|mc-)/;
/** To Amazon SES, commands in the name of its customer; to Exchange, what it has found out itself. */
const OPERATORS_X = /^x-(?:ses-(?!message-tags$)|ms-exchange-organization-)/;

/** In words, for whoever gave another. */
export const HEADERS_GIVEN = `\`X-...\`, \`List-...\`, ${GIVEN_HEADERS.map((name) => `\`${name}\``).join(", ")}`;

/** Whether a caller may set this field. */
export function headerGivable(name: string): boolean {
  const lower = name.toLowerCase();
  if (headerReserved(name)) return false;
  if (lower.startsWith("x-")) return !BARRED_X.test(lower) && !OPERATORS_X.test(lower);
  return GIVEN.has(lower) || lower.startsWith("list-");
}

/** Only the operator may say this to a smarthost. Callers set it for the service that they sent by before. */
export function headerIsOperators(name: string): boolean {
  return OPERATORS_X.test(name.toLowerCase());
}

/** Fields that are written here and nowhere else: a caller cannot set them. */
export function headerReserved(name: string): boolean {
  const lower = name.toLowerCase();
  return RESERVED_HEADERS.has(lower) || lower.startsWith("content-") || lower.startsWith(OWN_PREFIX);
}

export function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}

function mailbox(name: string | null, spec: string): Mailbox | null {
  const at = spec.lastIndexOf("@");
  if (at < 1) return null;
  const local = readLocal(spec.slice(0, at));
  const domain = readDomain(spec.slice(at + 1));
  if (local === null || domain === null) return null;
  const utf8 = !PRINTABLE_ASCII.test(local);
  const localOctets = utf8 ? Buffer.byteLength(local) : local.length;
  if (localOctets > LOCAL_OCTETS_MAX || localOctets + 1 + domain.length > ADDRESS_OCTETS_MAX) return null;
  return { name, local, domain, address: `${local}@${domain}`, utf8 };
}

function readLocal(text: string): string | null {
  if (DOT_ATOM.test(text)) return PRINTABLE_ASCII.test(text) || !INVISIBLE.test(text) ? text : null;
  return text.startsWith('"') ? readQuotedLocal(text) : null;
}

/** `"a.b"` and `a.b` name the same mailbox, and more receivers know the second. */
function readQuotedLocal(text: string): string | null {
  const content = unquote(text);
  if (content === null || content === "" || /[<>]/.test(content)) return null;
  if (INVISIBLE.test(content.replaceAll(" ", ""))) return null;
  return DOT_ATOM.test(content) ? content : quoted(content);
}

/**
 * `domainToASCII` parses as for a URL: alone it would cut at `/`, decode `%41`, drop tabs and soft hyphens
 * and turn 0x7f.1 into 127.0.0.1. So what goes in is checked before, and what comes out after.
 */
function readDomain(text: string): string | null {
  if (text.length > DOMAIN_OCTETS_MAX) return null;
  if (OTHER_ASCII_LETTER.test(text)) return null; // it would become the name of another domain
  let domain = text.toLowerCase();
  if (!PRINTABLE_ASCII.test(domain) || domain.includes("xn--")) {
    if (!DOMAIN_CHARS.test(domain) || INVISIBLE.test(domain)) return null;
    domain = domainToASCII(domain);
  }
  return domain.length <= DOMAIN_OCTETS_MAX && HOST.test(domain) ? domain : null;
}

/** The name before `<`, its quoted stretches unquoted: "" if there is none, null if it cannot be one. */
function readName(text: string): string | null {
  let name = text;
  let outside = text;
  if (text.includes('"')) {
    // Odd stretches stand in quotes; a quoted pair never ends one.
    const stretches = text.match(/\\.|[^"\\]+|["\\]/gsu) ?? [];
    let inQuotes = false;
    name = "";
    outside = "";
    for (const stretch of stretches) {
      if (stretch === '"') inQuotes = !inQuotes;
      else if (inQuotes) name += stretch.startsWith("\\") ? stretch.slice(1) : stretch;
      else {
        name += stretch;
        outside += stretch;
      }
    }
    if (inQuotes) return null;
  }
  if (/[<>]/.test(outside) || (/[,;]/.test(outside) && outside.includes("@"))) return null;
  name = name.trim();
  return name.length * 3 > NAME_OCTETS_MAX && Buffer.byteLength(name) > NAME_OCTETS_MAX ? null : name;
}

/** The content of exactly one quoted string. */
function unquote(text: string): string | null {
  if (!/^"(?:[^"\\]|\\.)*"$/su.test(text)) return null;
  return text.slice(1, -1).replace(/\\(.)/gsu, "$1");
}
