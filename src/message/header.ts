/**
 * Header fields, folded and encoded (RFC 5322, RFC 2047). Every function returns whole fields with their line
 * ends.
 *
 * Promises: one call writes one field, whatever the text holds: control characters become spaces (and byte
 * order marks nothing), so no text can start a field of its own. Lines with encoded words have at most 76
 * octets; others fold there if a space lets them, and never reach 998. Only the local part of an address may
 * be other than ASCII. Unfolded and decoded, a field reads as it was given, but for white space at its ends.
 */
import { type Mailbox, quoted } from "../address.ts";

const LINE_OCTETS = 76;
const WORD_OCTETS_MAX = 75;
const WORD_OCTETS_MIN = 24; // room for one character of four octets
const TOKEN_OCTETS_MAX = 900; // beside the longest name still under 998
const NAME_OCTETS = 60;
const PARAMETER_OCTETS = LINE_OCTETS - " ;".length;

const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;
const CONTROLS = /\p{Cc}+/gu;
/** A decoder drops it where an encoded word happens to begin with it. */
const BYTE_ORDER_MARK = "\ufeff";
/** Text that a reader would take for an encoded word. */
const WORD_MARK = "=?";

export function subjectField(subject: string): string {
  return textField("Subject", subject, subject.includes(WORD_MARK));
}

/** A caller's own field. ASCII stays as given, so that structured values and words already encoded work. */
export function givenField(name: string, value: string): string {
  return textField(name, value, false);
}

export function addressField(name: string, mailboxes: readonly Mailbox[]): string {
  const pieces: string[] = [];
  for (let n = 1; n <= mailboxes.length; n++)
    pieces.push(...mailboxPieces(name, mailboxes[n - 1] as Mailbox, n < mailboxes.length ? "," : ""));
  return fold(name, pieces);
}

export function dateField(date: Date): string {
  return `Date: ${date.toUTCString().replace("GMT", "+0000")}\r\n`;
}

/** A structured field, each parameter on a line of its own. */
export function parameterField(name: string, value: string, parameters: readonly string[]): string {
  return `${[`${name}: ${value}`, ...parameters].join(";\r\n ")}\r\n`;
}

/**
 * The name of a file as one parameter or, where it is long, as numbered sections. RFC 2047 forbids encoded
 * words here, so all but short plain ASCII follows RFC 2231. That includes quotes and backslashes, which some
 * readers do not unescape.
 */
export function fileNameParameters(attribute: string, filename: string): string[] {
  const text = clean(filename.toWellFormed()) || "attachment";
  const plain = `${attribute}="${text}"`;
  const isPlain = /^[ !#-[\]-~]*$/.test(text) && !text.includes(WORD_MARK);
  if (isPlain && plain.length <= PARAMETER_OCTETS) return [plain];
  const whole = `${attribute}*=utf-8''${percentEncoded(text)}`;
  return whole.length <= PARAMETER_OCTETS ? [whole] : sections(attribute, text);
}

/** Each section holds whole characters: some readers decode one at a time. */
function sections(attribute: string, text: string): string[] {
  const found: string[] = [];
  let section = `${attribute}*0*=utf-8''`;
  for (const character of text) {
    const encoded = percentEncoded(character);
    if (section.length + encoded.length > PARAMETER_OCTETS) {
      found.push(section);
      section = `${attribute}*${found.length}*=`;
    }
    section += encoded;
  }
  return [...found, section];
}

function percentEncoded(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function textField(name: string, value: string, encode: boolean): string {
  const text = clean(value);
  if (!encode && PRINTABLE_ASCII.test(text)) {
    if (name.length + 2 + text.length <= LINE_OCTETS) return `${name}: ${text}\r\n`;
    // Only single spaces: a run of them might be read as one where a line ends in it.
    const tokens = text.split(/(?<=[^ ]) (?=[^ ])/);
    if (tokens.every((token) => token.length <= TOKEN_OCTETS_MAX)) return fold(name, tokens);
  }
  return fold(name, encodedWords(text, roomBeside(name)));
}

function mailboxPieces(field: string, { name, address }: Mailbox, end: string): string[] {
  const text = name === null ? "" : clean(name);
  if (text === "") return [address.startsWith('"') ? `<${address}>${end}` : address + end];
  const target = `<${address}>${end}`;
  if (text.length > NAME_OCTETS || text.includes(WORD_MARK) || !PRINTABLE_ASCII.test(text)) {
    return [...encodedWords(text, roomBeside(field)), target];
  }
  return [/^[A-Za-z0-9]+(?: [A-Za-z0-9]+)*$/.test(text) ? text : quoted(text), target];
}

function clean(text: string): string {
  const plain = PRINTABLE_ASCII.test(text)
    ? text
    : text.replaceAll(BYTE_ORDER_MARK, "").replace(CONTROLS, " ");
  return plain.trim();
}

function roomBeside(name: string): number {
  return Math.max(WORD_OCTETS_MIN, LINE_OCTETS - name.length - 2);
}

/** The first piece stays beside the name: there are receivers that drop a field whose first line is empty. */
function fold(name: string, pieces: readonly string[]): string {
  const line = `${name}: ${pieces.join(" ")}`;
  if (line.length <= LINE_OCTETS && PRINTABLE_ASCII.test(line)) return `${line}\r\n`;
  let field = `${name}:`;
  let column = field.length;
  pieces.forEach((piece, n) => {
    const octets = Buffer.byteLength(piece);
    if (n > 0 && column + 1 + octets > LINE_OCTETS) {
      field += "\r\n";
      column = 0;
    }
    field += ` ${piece}`;
    column += 1 + octets;
  });
  return `${field}\r\n`;
}

/**
 * Each word holds whole characters, so that each can be decoded alone. The first has less room, beside the
 * name.
 */
function encodedWords(text: string, firstRoom: number): string[] {
  const inQ = shorterInQ(text);
  const words: string[] = [];
  let stretch = "";
  let room = payloadRoom(firstRoom, inQ);
  for (const character of text) {
    const size = payloadSize(character, inQ);
    if (size > room) {
      words.push(inQ ? qWord(stretch) : bWord(stretch));
      stretch = "";
      room = payloadRoom(WORD_OCTETS_MAX, inQ);
    }
    stretch += character;
    room -= size;
  }
  words.push(inQ ? qWord(stretch) : bWord(stretch));
  return words;
}

const Q_PLAIN = /[A-Za-z0-9 ]/;

function shorterInQ(text: string): boolean {
  let plain = 0;
  for (let n = 0; n < text.length; n++) if (Q_PLAIN.test(text.charAt(n))) plain++;
  const octets = Buffer.byteLength(text);
  return plain + 3 * (octets - plain) <= (4 * octets) / 3;
}

/** In octets as written for Q, in octets to be encoded for B. */
function payloadRoom(wordOctets: number, inQ: boolean): number {
  const room = wordOctets - "=?UTF-8?Q??=".length;
  return inQ ? room : Math.floor(room / 4) * 3;
}

function payloadSize(character: string, inQ: boolean): number {
  if (inQ && Q_PLAIN.test(character)) return 1;
  const code = character.codePointAt(0) as number;
  const octets = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  return inQ ? 3 * octets : octets;
}

/** Letters and digits only stand for themselves: the rules for names in addresses allow little more. */
function qWord(text: string): string {
  const payload = text.replace(/[^A-Za-z0-9]/gu, (character) =>
    character === " " ? "_" : Buffer.from(character).toString("hex").toUpperCase().replace(/../g, "=$&"),
  );
  return `=?UTF-8?Q?${payload}?=`;
}

function bWord(text: string): string {
  return `=?UTF-8?B?${Buffer.from(text).toString("base64")}?=`;
}
