/**
 * Request bodies as JSON: UTF-8, at most 32 levels deep, no U+0000 and no lone surrogate in any string
 * (neither can be stored), at most 200,000 values. What the main thread parses is so small that it cannot be
 * held up; the rest is for jsonthread.ts.
 */
import { isUtf8 } from "node:buffer";

export const JSON_DEPTH_MAX = 32;
export const JSON_VALUES_MAX = 200_000;
/** The main thread takes up to 20 ms for the worst of so many bytes. */
export const MAIN_THREAD_BYTES_MAX = 128 * 1024;
/** Of numbers up to 999, in which older clients send attachments. */
const OCTETS_MAX = 10 * 1024 * 1024;

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type NotJson =
  | { kind: "not json" }
  | { kind: "not utf-8" }
  | { kind: "byte order mark" }
  | { kind: "too deep" }
  | { kind: "too many" }
  /** `path`: where, by names and places in arrays; a bad name counts as of its object. */
  | { kind: "bad text"; path: string[] };
/** Items of an array with text that cannot be stored, and where it stands. */
export type BadItems = ReadonlyMap<number, string[]>;
export type Parsed = { kind: "json"; value: Json; badItems: BadItems } | NotJson;

/** `itemsSparedMax`: bad text refuses only its item of an array that has no more than so many. */
export function parseJson(bytes: Buffer, itemsSparedMax = 0): Parsed {
  if (!isUtf8(bytes)) return { kind: "not utf-8" };
  const text = bytes.toString("utf8");
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: text.startsWith("\ufeff") ? "byte order mark" : "not json" };
  }
  const badItems = new Map<number, string[]>();
  // a string can only hold what is looked for when it was written as an escape
  const checkText = text.includes("\\u");
  const sparesItems = checkText && Array.isArray(value) && value.length <= itemsSparedMax;
  const found = sparesItems ? inspectItems(value as Json[], badItems) : inspect(value, checkText);
  return found ?? { kind: "json", value, badItems };
}

function inspectItems(items: readonly Json[], badItems: Map<number, string[]>): NotJson | null {
  for (const [n, item] of items.entries()) {
    const found = inspect(item, true, 2);
    if (found?.kind === "bad text") badItems.set(n, [String(n), ...found.path]);
    else if (found) return found;
  }
  return null;
}

/** `checkText`: whether a string may hold what cannot be stored. */
export function inspect(value: Json, checkText: boolean, depth = 1): NotJson | null {
  if (typeof value === "string")
    return checkText && !isStorable(value) ? { kind: "bad text", path: [] } : null;
  if (value === null || typeof value !== "object") return null;
  if (depth > JSON_DEPTH_MAX) return { kind: "too deep" };
  if (Array.isArray(value)) {
    for (let n = 0; n < value.length; n++) {
      const found = inspect(value[n] as Json, checkText, depth + 1);
      if (found) return below(String(n), found);
    }
    return null;
  }
  for (const name of Object.keys(value)) {
    if (checkText && !isStorable(name)) return { kind: "bad text", path: [] };
    const found = inspect(value[name] as Json, checkText, depth + 1);
    if (found) return below(name, found);
  }
  return null;
}

function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

function below(name: string, found: NotJson): NotJson {
  return found.kind === "bad text" ? { ...found, path: [name, ...found.path] } : found;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const ZERO = 0x30;
const NINE = 0x39;
const BACKSLASH = 0x5c;
/** Of a bracket and of a brace. */
const OPENING = [0x5b, 0x7b] as const;
const CLOSING = [0x5d, 0x7d] as const;

/**
 * What would make parsing expensive, found in one look at the bytes: a value of two bytes takes fifty when it
 * is parsed. Says nothing of bytes that are no JSON.
 */
export function findExcess(bytes: Uint8Array): NotJson | null {
  let depth = 0;
  let values = 1;
  let octets = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (byte === QUOTE) {
      i = endOfString(bytes, i);
    } else if (byte === COMMA) {
      if (isOctet(bytes, i + 1)) octets++;
      else values++;
    } else if (byte === OPENING[0] || byte === OPENING[1]) {
      values++;
      if (++depth > JSON_DEPTH_MAX) return { kind: "too deep" };
    } else if (byte === CLOSING[0] || byte === CLOSING[1]) {
      depth--;
    }
    if (values > JSON_VALUES_MAX || octets > OCTETS_MAX) return { kind: "too many" };
  }
  return null;
}

function endOfString(bytes: Uint8Array, start: number): number {
  for (let i = start + 1; i < bytes.length; i++) {
    if (bytes[i] === BACKSLASH) i++;
    else if (bytes[i] === QUOTE) return i;
  }
  return bytes.length;
}

/** A number up to 999 and a comma: an element of an array of bytes. Many writers put a blank before it. */
function isOctet(bytes: Uint8Array, start: number): boolean {
  let from = start;
  while (isBlank(bytes[from])) from++;
  let i = from;
  while (i < from + 3 && isDigit(bytes[i])) i++;
  return i > from && bytes[i] === COMMA;
}

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}
