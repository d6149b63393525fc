/**
 * API keys as text: `pr_live_`, 8 characters that name the workspace (its handle), 20 of secret, 4 of check
 * value. The check value is an HMAC under the server's secret, so that a guess or a typo is refused without
 * asking any store. Only the SHA-256 of a key is kept anywhere.
 */
import { createHash, createHmac, randomInt } from "node:crypto";

const PREFIX = "pr_live_";
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HANDLE_CHARS = 8;
const SECRET_CHARS = 20;
const CHECK_CHARS = 4;
const SHOWN_CHARS = 12;
const KEY_SHAPE = /^pr_live_[A-Za-z0-9]{32}$/;

export type Bearer = { handle: string; hash: string };

export function newHandle(): string {
  return randomText(HANDLE_CHARS);
}

export function newKey(handle: string, serverSecret: string): string {
  const body = handle + randomText(SECRET_CHARS);
  return PREFIX + body + checkValue(body, serverSecret);
}

/** What lists show of a key. */
export function shownPart(key: string): string {
  return key.slice(0, PREFIX.length + SHOWN_CHARS);
}

export function hashOf(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

const KEYS_KNOWN_MAX = 10_000;

/**
 * The bearer of a well-formed key of ours, else null. The keys met last are kept, since the check value and
 * the hash cost a third of what admission does; a guess is never kept.
 */
export function keyReader(serverSecret: string): (key: string) => Bearer | null {
  const known = new Map<string, Bearer>();
  return (key) => {
    const met = known.get(key);
    if (met) return met;
    const bearer = readKey(key, serverSecret);
    if (!bearer) return null;
    if (known.size >= KEYS_KNOWN_MAX) known.clear();
    known.set(key, bearer);
    return bearer;
  };
}

export function readKey(key: string, serverSecret: string): Bearer | null {
  if (!KEY_SHAPE.test(key)) return null;
  const body = key.slice(PREFIX.length, -CHECK_CHARS);
  if (checkValue(body, serverSecret) !== key.slice(-CHECK_CHARS)) return null;
  return { handle: body.slice(0, HANDLE_CHARS), hash: hashOf(key) };
}

function checkValue(body: string, serverSecret: string): string {
  const mac = createHmac("sha256", serverSecret).update(body).digest();
  let text = "";
  for (let n = 0; n < CHECK_CHARS; n++) text += ALPHABET[mac.readUInt16BE(2 * n) % ALPHABET.length];
  return text;
}

function randomText(length: number): string {
  let text = "";
  for (let n = 0; n < length; n++) text += ALPHABET[randomInt(ALPHABET.length)];
  return text;
}
