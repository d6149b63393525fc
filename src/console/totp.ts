/** Codes of an authenticator: RFC 6238 with SHA-1, six digits and 30 seconds, as all of them support. */
import { createHmac, randomBytes } from "node:crypto";

const SECRET_BYTES = 20;
const STEP_MS = 30_000;
const DIGITS = 6;
/** Clocks differ: the code before and the one behind are taken, too. */
const STEPS_AROUND = 1;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

export function newTotpSecret(): string {
  return base32(randomBytes(SECRET_BYTES));
}

export function totpUri(secret: string, email: string): string {
  return `otpauth://totp/Postrider:${encodeURIComponent(email)}?secret=${secret}&issuer=Postrider`;
}

/** The step whose code it is; null: of none that would be taken now. */
export function stepOfCode(secret: string, code: string, now: number): number | null {
  const step = Math.floor(now / STEP_MS);
  const typed = code.replaceAll(" ", "");
  for (let at = step - STEPS_AROUND; at <= step + STEPS_AROUND; at++)
    if (codeAt(secret, at) === typed) return at;
  return null;
}

export function codeAt(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const digest = createHmac("sha1", fromBase32(secret)).update(counter).digest();
  const offset = (digest.at(-1) as number) & 0xf;
  const number = (digest.readUInt32BE(offset) & 0x7fffffff) % 10 ** DIGITS;
  return String(number).padStart(DIGITS, "0");
}

function base32(bytes: Buffer): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{5}/g) ?? []).map((five) => ALPHABET[Number.parseInt(five, 2)]).join("");
}

function fromBase32(text: string): Buffer {
  const bits = [...text].map((char) => ALPHABET.indexOf(char).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((eight) => Number.parseInt(eight, 2)));
}
