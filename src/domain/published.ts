/**
 * What DNS has to say of a domain's key (RFC 6376, 3.6.1; RFC 8463), and whether it does. The judgement is a
 * pure function of the records found, in words for whoever keeps the zone.
 */
import { createPublicKey, type KeyObject } from "node:crypto";
import { codeOf } from "../caught.ts";
import type { Algorithm } from "../rules/signing.ts";

/** A character-string of DNS holds no more. */
const STRING_CHARS_MAX = 255;
const TTL_SECONDS = 3_600;
/** What stands before the 32 bytes of an ed25519 key in its SubjectPublicKeyInfo. */
const ED25519_PREFIX_BYTES = 12;

export type Published = { domain: string; selector: string; algorithm: Algorithm; publicKey: Buffer };

export type DnsFinding = {
  /** Receivers that look now find the key. */
  isFound: boolean;
  /** DNS could not be asked: nothing is known. */
  isUnknown: boolean;
  says: string;
};

export type AskTxt = (name: string) => Promise<string[][]>;

export function recordName({ domain, selector }: Published): string {
  return `${selector}._domainkey.${domain}`;
}

export function recordText({ algorithm, publicKey }: Published): string {
  return `v=DKIM1; k=${algorithm}; p=${keyText(algorithm, publicKey)}`;
}

/** The record as a line of a zone file. */
export function zoneLine(key: Published): string {
  const strings = recordText(key).match(new RegExp(`.{1,${STRING_CHARS_MAX}}`, "g")) ?? [];
  const data = strings.map((text) => `"${text}"`).join(" ");
  return `${recordName(key)}. ${TTL_SECONDS} IN TXT ( ${data} )`;
}

export async function lookUp(key: Published, askTxt: AskTxt): Promise<DnsFinding> {
  const asked = await joinedTexts(recordName(key), askTxt);
  return "says" in asked ? asked : judge(key, asked.texts);
}

/** The TXT records at a name, the strings of each joined; or that DNS gave no answer. */
export async function joinedTexts(name: string, askTxt: AskTxt): Promise<{ texts: string[] } | DnsFinding> {
  try {
    return { texts: (await askTxt(name)).map((strings) => strings.join("")) };
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOTFOUND" || code === "ENODATA") return { texts: [] };
    return { isFound: false, isUnknown: true, says: `DNS gave no answer for ${name} (${code ?? error})` };
  }
}

/** `records` are the TXT records at the key's name, the strings of each joined. */
export function judge(key: Published, records: readonly string[]): DnsFinding {
  const found = (says: string): DnsFinding => ({ isFound: true, isUnknown: false, says });
  const missing = (says: string): DnsFinding => ({ isFound: false, isUnknown: false, says });
  const name = recordName(key);
  const [record] = records;
  if (record === undefined) return missing(`there is no TXT record at ${name}`);
  if (records.length > 1)
    return missing(`there are ${records.length} TXT records at ${name}; receivers need exactly one`);
  const tags = tagsOf(record);
  if (tags === null) return missing(`the record at ${name} is no list of tags`);
  const { v = "DKIM1", k = "rsa", p, h, s = "*", t = "" } = tags;
  if (v !== "DKIM1" || (tags.v !== undefined && !/^\s*v\s*=/.test(record)))
    return missing(`the record at ${name} does not begin with v=DKIM1`);
  if (p === undefined) return missing(`the record at ${name} holds no key (p=)`);
  if (p === "") return missing(`the record at ${name} revokes the key (p= is empty)`);
  if (k !== key.algorithm) return missing(`the record at ${name} is for ${k}, the key is ${key.algorithm}`);
  if (!listed(s, "*", "email")) return missing(`the record at ${name} is not for e-mail (s=${s})`);
  if (h !== undefined && !listed(h, "sha256"))
    return missing(`the record at ${name} does not allow sha256 (h=${h})`);
  if (!isSameKey(key, p)) return missing(`the record at ${name} holds another key`);
  if (listed(t, "y"))
    return found(`the record at ${name} holds the key, but in testing mode (t=y): receivers may ignore it`);
  return found(`the record at ${name} holds the key`);
}

function keyText(algorithm: Algorithm, publicKey: Buffer): string {
  const bytes = algorithm === "ed25519" ? publicKey.subarray(ED25519_PREFIX_BYTES) : publicKey;
  return bytes.toString("base64");
}

/** Tags by name, white space around values gone; null when it is no list of tags, or names one twice. */
function tagsOf(record: string): Record<string, string> | null {
  const tags: Record<string, string> = Object.create(null);
  const parts = record.split(";").map((part) => part.trim());
  if (parts.at(-1) === "") parts.pop();
  for (const part of parts) {
    const [, name, value] = /^([a-z]\w*)\s*=\s*(.*)$/is.exec(part) ?? [];
    if (name === undefined || name in tags) return null;
    tags[name] = value as string;
  }
  return tags;
}

function listed(list: string, ...wanted: string[]): boolean {
  return list.split(":").some((one) => wanted.includes(one.trim()));
}

/** RSA keys are published with or without the wrapping of SubjectPublicKeyInfo, and receivers take both. */
function isSameKey({ algorithm, publicKey }: Published, text: string): boolean {
  const bytes = Buffer.from(text.replace(/\s+/g, ""), "base64");
  if (bytes.equals(Buffer.from(keyText(algorithm, publicKey), "base64"))) return true;
  if (algorithm !== "rsa") return false;
  const pkcs1 = publicKeyOf(publicKey).export({ type: "pkcs1", format: "der" });
  return bytes.equals(pkcs1);
}

export function publicKeyOf(publicKey: Buffer): KeyObject {
  return createPublicKey({ key: publicKey, type: "spki", format: "der" });
}
