/**
 * Identifiers made here: UUIDv7, so that rows sort and partition by the time they were made, and event ids.
 * Within a process ids only rise, also when one millisecond yields thousands or the clock steps back, up to a
 * day: after more they follow it, as no partition may be made for days that are still far away.
 */
import { createHash, createHmac, hkdfSync, randomFillSync } from "node:crypto";
import { DAY_MS } from "./clock.ts";

const RANDOM_POOL_BYTES = 8192;
const pool = Buffer.alloc(RANDOM_POOL_BYTES);
let poolAt = RANDOM_POOL_BYTES;
let lastMs = 0;
let sequence = 0;

/** Of the text of an id: 48 bits of time. */
const TIME_CHARS = "01234567-89ab-".length;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** A UUIDv7 for the millisecond `now`; later calls yield no smaller one. */
export function newId(now: number): string {
  if (now > lastMs || now < lastMs - DAY_MS) {
    lastMs = now;
    sequence = randomByte() << 2; // below a quarter of the 12 bits, to leave room to count upwards
  } else if (++sequence > 0xfff) {
    lastMs += 1;
    sequence = 0;
  }
  return format(lastMs, sequence, () => randomByte());
}

/** The id of what `cause` brings about at a recorded time: whoever does it again makes the same id. */
export function derivedId(ms: number, cause: string): string {
  const digest = createHash("sha256").update(cause).digest();
  let at = 2;
  return format(ms, digest.readUInt16BE(0) & 0xfff, () => digest[at++] as number);
}

/** The same id at another time: what it was derived from still tells it from all others. */
export function redatedId(id: string, ms: number): string {
  return floorId(ms).slice(0, TIME_CHARS) + id.slice(TIME_CHARS);
}

/** The smallest UUIDv7 of a millisecond: where a partition or a range of ids begins. */
export function floorId(ms: number): string {
  const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
}

/** The greatest UUID that is smaller; the least one stays as it is. */
export function idBefore(id: string): string {
  const number = BigInt(`0x${id.replaceAll("-", "")}`);
  const hex = (number === 0n ? number : number - 1n).toString(16).padStart(32, "0");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** When the id was made, in ms. */
export function timeOfId(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function isUuid(text: string): boolean {
  return UUID.test(text);
}

export const BASE32 = "0123456789abcdefghjkmnpqrstvwxyz";

/** `evt_` and 26 base32 characters: 48 bits of time and 80 of chance. */
export function newEventId(now: number): string {
  let time = "";
  for (let left = now, n = 0; n < 10; n++, left = Math.floor(left / 32)) time = BASE32[left % 32] + time;
  let chance = "";
  for (let n = 0; n < 16; n++) chance += BASE32[randomByte() & 31];
  return `evt_${time}${chance}`;
}

const MARK_CHARS = 26;
const SECRET_DIGEST_BYTES = 32;
const MARK_KEY_BYTES = 32;
const MARK = new RegExp(`^[${BASE32}]{${MARK_CHARS}}$`);

/**
 * What mail says of the workspace it comes from: always the same, and nothing to anybody without the server's
 * secret.
 */
export function workspaceMarker(serverSecret: string): (workspaceId: string) => string {
  const key = Buffer.from(hkdfSync("sha256", serverSecret, "", "marks of workspaces", MARK_KEY_BYTES));
  return (workspaceId) => {
    const digest = createHmac("sha256", key).update(workspaceId).digest();
    return Array.from(digest.subarray(0, MARK_CHARS), (byte) => BASE32[byte & 31]).join("");
  };
}

/** By which processes find out whether they have the same secret; it tells nothing about it. */
export function secretDigest(serverSecret: string): Buffer {
  return Buffer.from(hkdfSync("sha256", serverSecret, "", "the same secret everywhere", SECRET_DIGEST_BYTES));
}

export function isMark(text: string): boolean {
  return MARK.test(text);
}

function randomByte(): number {
  if (poolAt >= RANDOM_POOL_BYTES) {
    randomFillSync(pool);
    poolAt = 0;
  }
  return pool[poolAt++] as number;
}

function format(ms: number, seq: number, byte: () => number): string {
  const time = ms.toString(16).padStart(12, "0");
  const a = HEX[0x70 | (seq >> 8)] as string;
  const b = HEX[seq & 0xff] as string;
  const c = HEX[0x80 | (byte() & 0x3f)] as string;
  let rest = "";
  for (let n = 0; n < 7; n++) rest += HEX[byte()];
  return `${time.slice(0, 8)}-${time.slice(8)}-${a}${b}-${c}${rest.slice(0, 2)}-${rest.slice(2)}`;
}
