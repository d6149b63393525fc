/**
 * Return paths: the envelope sender of each recipient's copy of a mail, to which receivers send their
 * reports.
 *
 *   local part = base32 ( handle of the workspace, id of the e-mail, number of the recipient, day of expiry,
 *   MAC )
 *
 * Promises: 56 characters of lower-case base32, which survive a change of letter case; nobody without the
 * server's secret can write one, and one that a receiver was given says nothing about any other mail,
 * recipient or workspace.
 */
import { hkdfSync, timingSafeEqual } from "node:crypto";
import { ShortHmac } from "./hmac.ts";
import { BASE32 } from "./ids.ts";

/** Which copy of which mail: `place` counts the recipients of the envelope from 0. */
export type Copy = { handle: string; emailId: string; place: number };

export type ReadPath = { kind: "copy"; copy: Copy } | { kind: "expired" } | { kind: "foreign" };

const DAY_MS = 86_400_000;
/** Bounces come within a week, complaints within a month. */
const LIFE_DAYS = 30;
const HANDLE_BYTES = 6;
const ID_BYTES = 16;
const PLACE_AT = HANDLE_BYTES + ID_BYTES;
const EXPIRY_AT = PLACE_AT + 1;
const MAC_AT = EXPIRY_AT + 2;
const MAC_BYTES = 10;
const PATH_BYTES = MAC_AT + MAC_BYTES;
const PATH_CHARS = (PATH_BYTES * 8) / 5;
const PATH = new RegExp(`^[${BASE32}]{${PATH_CHARS}}$`);
const KEY_BYTES = 32;
const PLACE_MAX = 255;

const HANDLE_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HANDLE_CHARS = 8;
/**
 * So that a handle never loses letters on its way: 62 to the power of 8 are fewer than 2 to the power of 48.
 */
const HANDLES = HANDLE_LETTERS.length ** HANDLE_CHARS;

const VALUE_OF = new Map([...BASE32].map((letter, value) => [letter, value]));

export class ReturnPathKey {
  readonly #key: ShortHmac;
  /** Written anew for each path. */
  readonly #bytes = Buffer.alloc(PATH_BYTES);

  constructor(serverSecret: string) {
    this.#key = new ShortHmac(
      new Uint8Array(hkdfSync("sha256", serverSecret, "", "return paths", KEY_BYTES)),
    );
  }

  /** The local part for a copy that is sent at `now`. */
  write({ handle, emailId, place }: Copy, now: number): string {
    if (place > PLACE_MAX) throw new RangeError(`a mail has no recipient ${place}`);
    const bytes = this.#bytes.fill(0);
    bytes.writeUIntBE(numberOf(handle), 0, HANDLE_BYTES);
    bytes.write(emailId.replaceAll("-", ""), HANDLE_BYTES, "hex");
    bytes.writeUInt8(place, PLACE_AT);
    bytes.writeUInt16BE(Math.floor(now / DAY_MS) + LIFE_DAYS, EXPIRY_AT);
    this.#key.sign(bytes, MAC_AT);
    return toBase32(bytes);
  }

  read(localPart: string, now: number): ReadPath {
    const text = localPart.toLowerCase();
    if (!PATH.test(text)) return { kind: "foreign" };
    const bytes = fromBase32(text);
    const signed = Buffer.from(bytes);
    this.#key.sign(signed, MAC_AT);
    if (!timingSafeEqual(signed.subarray(MAC_AT), bytes.subarray(MAC_AT))) return { kind: "foreign" };
    if (bytes.readUInt16BE(EXPIRY_AT) < Math.floor(now / DAY_MS)) return { kind: "expired" };
    return {
      kind: "copy",
      copy: {
        handle: handleOf(bytes.readUIntBE(0, HANDLE_BYTES)),
        emailId: idIn(bytes),
        place: bytes.readUInt8(PLACE_AT),
      },
    };
  }
}

/** What may be the local part of a return path, wherever it stands in a text. */
export function pathsIn(text: string): string[] {
  return text.match(ANYWHERE) ?? [];
}
const ANYWHERE = new RegExp(`(?<![${BASE32}])[${BASE32}]{${PATH_CHARS}}(?=@)`, "gi");

/** Of which mail what looks like a return path claims to be. Nobody vouches for it. */
export function emailIdOf(path: string): string {
  return idIn(fromBase32(path.toLowerCase()));
}

function idIn(bytes: Buffer): string {
  const id = bytes.toString("hex", HANDLE_BYTES, PLACE_AT);
  return id.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function numberOf(handle: string): number {
  let number = 0;
  for (const letter of handle) number = number * HANDLE_LETTERS.length + HANDLE_LETTERS.indexOf(letter);
  if (handle.length !== HANDLE_CHARS || number < 0 || number >= HANDLES)
    throw new RangeError(`${handle} is no handle of a workspace`);
  return number;
}

function handleOf(number: number): string {
  let handle = "";
  for (let left = number, n = 0; n < HANDLE_CHARS; n++, left = Math.floor(left / HANDLE_LETTERS.length))
    handle = HANDLE_LETTERS.charAt(left % HANDLE_LETTERS.length) + handle;
  return handle;
}

const DIGITS = Buffer.from(BASE32, "latin1");
const written = Buffer.alloc(PATH_CHARS);

function toBase32(bytes: Buffer): string {
  let bits = 0;
  let held = 0;
  let at = 0;
  for (let n = 0; n < PATH_BYTES; n++) {
    held = ((held << 8) | (bytes[n] as number)) & 0xfff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      written[at++] = DIGITS[(held >> bits) & 31] as number;
    }
  }
  return written.toString("latin1");
}

function fromBase32(text: string): Buffer {
  const bytes = Buffer.alloc(PATH_BYTES);
  let bits = 0;
  let held = 0;
  let at = 0;
  for (const letter of text) {
    held = ((held << 5) | (VALUE_OF.get(letter) as number)) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at++] = (held >> bits) & 0xff;
  }
  return bytes;
}
