/**
 * Signs composed messages: DKIM (RFC 6376), relaxed/relaxed, with rsa-sha256 or ed25519-sha256 (RFC 8463).
 *
 * Promises: what is signed is what a receiver has after it undid the dots of SMTP, in octets, whatever they
 * stand for. The same message and key give the same signature, so an attempt repeated is the same message.
 * Fields are never over 78 columns, unless a domain alone is. Signatures are made on the thread pool: only
 * hashing happens on this thread.
 *
 * What readers look at (SEALED) is listed once more than it occurs: another such field, added on the way,
 * breaks the signature. There is no time of signing (t=) and no expiry (x=): a mail may wait for days.
 */
import { createHash, type KeyObject, sign as signBytes } from "node:crypto";
import { promisify } from "node:util";
import { MARK_FIELD } from "../address.ts";
import type { Algorithm } from "../rules/signing.ts";
import { concatInTurns, turn } from "../turn.ts";

export type SigningKey = { domain: string; selector: string; algorithm: Algorithm; key: KeyObject };

const LINE_COLUMNS_MAX = 78;
/** About 5 ms of work. */
const SLICE_OCTETS = 512 * 1024;
const END_OF_HEAD = "\r\n\r\n";
/** Of these nobody may add another one. */
const SEALED = ["from", "to", "cc", "reply-to", "subject", "date", "message-id"];
/**
 * All else that may stand in a header belongs to whoever carries the mail, or to nobody (RFC 6376, 5.4.1).
 */
const SIGNED = new Set([
  ...SEALED,
  "mime-version",
  "in-reply-to",
  "references",
  "list-id",
  "list-help",
  "list-subscribe",
  "list-unsubscribe",
  "list-unsubscribe-post",
  "list-owner",
  "list-post",
  "list-archive",
  "feedback-id",
  "auto-submitted",
  "tls-report-domain",
  "tls-report-submitter",
  MARK_FIELD.toLowerCase(),
]);

/** The message with a signature of each key in front of it, in their order. */
export async function signed(message: Buffer, keys: readonly SigningKey[]): Promise<Buffer> {
  const headEnd = message.indexOf(END_OF_HEAD);
  if (headEnd < 0) throw new Error("a message without an end of its header cannot be signed");
  // one character for each octet, whatever it stands for
  const fields = message.toString("latin1", 0, headEnd).split(/\r\n(?![ \t])/);
  const chosen = signedFields(fields);
  const bodyHash = await hashOf(message.subarray(headEnd + END_OF_HEAD.length));
  const signatures = await Promise.all(keys.map((key) => signatureField(key, chosen, bodyHash)));
  return concatInTurns([Buffer.from(signatures.join("")), message]);
}

type Chosen = { names: string[]; canonical: string };

async function signatureField(
  key: SigningKey,
  { names, canonical }: Chosen,
  bodyHash: string,
): Promise<string> {
  const { domain, selector, algorithm } = key;
  const unsigned =
    foldAt(" ", "DKIM-Signature:", [
      "v=1;",
      `a=${algorithm}-sha256;`,
      "c=relaxed/relaxed;",
      `d=${domain};`,
      `s=${selector};`,
    ]) +
    foldAt(
      "",
      "\r\n h=",
      names.map((name, n) => name + (n < names.length - 1 ? ":" : ";")),
    ) +
    `\r\n bh=${bodyHash};\r\n b=`;
  // its own field goes last, without the signature and without a line end
  const data = Buffer.from(canonical + relaxedField(unsigned), "latin1");
  const signature = (await signatureOf(key, data)).toString("base64");
  return `${foldAt("", unsigned, signature.match(/.{1,64}/g) ?? [])}\r\n`;
}

const signOnPool = promisify(signBytes);

function signatureOf({ algorithm, key }: SigningKey, data: Buffer): Promise<Buffer> {
  if (algorithm === "rsa") return signOnPool("sha256", data, key);
  return signOnPool(null, createHash("sha256").update(data).digest(), key);
}

/** From the last to the first, as verifiers look for those that occur twice. */
function signedFields(fields: readonly string[]): Chosen {
  const names: string[] = [];
  let canonical = "";
  for (let n = fields.length - 1; n >= 0; n--) {
    const field = relaxedField(fields[n] as string);
    const name = field.slice(0, field.indexOf(":"));
    if (!SIGNED.has(name) && !name.startsWith("content-")) continue;
    names.push(name);
    canonical += `${field}\r\n`;
  }
  return { names: [...names, ...SEALED], canonical };
}

/** RFC 6376, 3.4.2. White space is space and tab alone: `\s` and `trim` would take octets of UTF-8 for it. */
export function relaxedField(field: string): string {
  const colon = field.indexOf(":");
  const name = field
    .slice(0, colon)
    .replace(/[ \t]+$/, "")
    .toLowerCase();
  const value = field
    .slice(colon + 1)
    .replaceAll("\r\n", "")
    .replace(/[ \t]+/g, " ");
  return `${name}:${value.startsWith(" ") ? value.slice(1) : value}`.replace(/ $/, "");
}

/** Of the body as RFC 6376, 3.4.4 has it; others have their turn between two slices. */
async function hashOf(body: Buffer): Promise<string> {
  const hash = createHash("sha256");
  const relaxed = new RelaxedBody((text) => hash.update(text, "latin1"));
  for (let at = 0; at < body.length; ) {
    const end = sliceEnd(body, at);
    relaxed.read(body.toString("latin1", at, end));
    at = end;
    if (at < body.length) await turn();
  }
  relaxed.end();
  return hash.digest("base64");
}

/** Behind a line: white space before its end must not be torn from it. */
function sliceEnd(body: Buffer, at: number): number {
  const lineEnd = body.indexOf("\r\n", at + SLICE_OCTETS);
  return lineEnd < 0 ? body.length : lineEnd + 2;
}

/** RFC 6376, 3.4.4, whole lines at a time. Empty lines are owed until another line follows. */
class RelaxedBody {
  readonly #write: (text: string) => void;
  #emptyLines = 0;
  #isEmpty = true;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  read(lines: string): void {
    // runs become one space before line ends are looked at, so that the time stays linear
    let text = lines.replace(/\t[ \t]*| [ \t]+/g, " ").replaceAll(" \r\n", "\r\n");
    if (text.endsWith(" ")) text = text.slice(0, -1);
    let end = text.length;
    while (text.endsWith("\r\n", end)) end -= 2;
    if (end > 0) {
      this.#write("\r\n".repeat(this.#emptyLines) + text.slice(0, end));
      this.#isEmpty = false;
      this.#emptyLines = 0;
    }
    this.#emptyLines += (text.length - end) / 2;
  }

  /** One line end closes a body that has any text. */
  end(): void {
    if (!this.#isEmpty) this.#write("\r\n");
  }
}

export function relaxedBody(body: string): string {
  let text = "";
  const relaxed = new RelaxedBody((more) => {
    text += more;
  });
  relaxed.read(body);
  relaxed.end();
  return text;
}

/** Pieces after one another, on lines as long as they may be. */
function foldAt(gap: string, begin: string, pieces: readonly string[]): string {
  let text = begin;
  let column = begin.length - (begin.lastIndexOf("\n") + 1);
  for (const piece of pieces) {
    if (column + gap.length + piece.length > LINE_COLUMNS_MAX) {
      text += `\r\n ${piece}`;
      column = 1 + piece.length;
    } else {
      text += gap + piece;
      column += gap.length + piece.length;
    }
  }
  return text;
}
