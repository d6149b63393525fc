/**
 * The work of the thread for large bodies: it refuses a body that is too large before parsing, and returns
 * only the fields that are read, one e-mail at a time, with attachments decoded, so that the main thread has
 * little to do.
 */
import { createHash } from "node:crypto";
import { serialize } from "node:v8";
import { type Decoded, decode, type GivenContent } from "./attachment.ts";
import { findExcess, type Json, type NotJson, parseJson } from "./json.ts";
import { Spelling } from "./misspelt.ts";

/** Of one e-mail, or of a body that is no array, in the fields that are read. */
const VALUES_READ_MAX = 10_000;

/** What a route reads of a body. */
export type Reading = {
  /** Top-level fields, of the body or of the items of an array; null: all. */
  fields: readonly string[] | null;
  /** Of an array; a longer one is handed back without its items. */
  itemsMax: number;
};

export type ParseWork = { chunks: Uint8Array[]; digestPrefix: string; reading: Reading };

/** What the thread says first. */
export type ParseMemory = { kind: "memory"; slabs: SharedArrayBuffer[] };

/** Where a decoded attachment belongs. */
export type DecodedAt = { item: number; attachment: number; decoded: Decoded };

export type Done =
  | {
      kind: "json";
      /** Of an array; null: the body is the one item. */
      length: number | null;
      /** Serialized, one by one. */
      items: Uint8Array[];
      decoded: DecodedAt[];
      digest: string;
    }
  | NotJson;

type KnownFields = { [name: string]: Json };

export function doWork({ chunks, digestPrefix, reading }: ParseWork): Done {
  const bytes = Buffer.concat(chunks);
  const excess = findExcess(bytes);
  if (excess) return excess;
  const parsed = parseJson(bytes);
  if (parsed.kind !== "json") return parsed;
  const { value } = parsed;
  const length = Array.isArray(value) ? value.length : null;
  const given = Array.isArray(value) ? (value.length > reading.itemsMax ? [] : value) : [value];
  const spelling = reading.fields && new Spelling(reading.fields);
  const decoded: DecodedAt[] = [];
  const items: Uint8Array[] = [];
  for (const [n, item] of given.entries()) {
    const read = readFields(item, spelling);
    decoded.push(...takeContents(read, n));
    if (countValues(read) > VALUES_READ_MAX) return { kind: "too many" };
    items.push(serialize(read));
  }
  const digest = createHash("sha256").update(digestPrefix).update(bytes).digest("hex");
  return { kind: "json", length, items, decoded, digest };
}

/** Of a misspelt field the name stays, for the warning in the answer. */
function readFields(item: Json, spelling: Spelling | null): Json {
  if (spelling === null || !isObject(item)) return item;
  const read: [string, Json][] = [];
  for (const name of Object.keys(item)) {
    if (spelling.isKnown(name)) read.push([name, item[name] as Json]);
    else if (spelling.nearest(name) !== null) read.push([name, null]);
  }
  return Object.fromEntries(read);
}

/** Each is replaced by an empty string. */
function takeContents(item: Json, n: number): DecodedAt[] {
  if (!isObject(item) || !Array.isArray(item.attachments)) return [];
  return item.attachments.flatMap((attachment, at) => {
    if (!isObject(attachment) || !isContent(attachment.content)) return [];
    const decoded = shared(decode(attachment.content));
    attachment.content = "";
    return [{ item: n, attachment: at, decoded }];
  });
}

/**
 * In memory that is transferred without a copy, and that the main thread's garbage collector does not count.
 */
function shared(decoded: Decoded): Decoded {
  if (decoded.kind !== "content") return decoded;
  const bytes = Buffer.from(new SharedArrayBuffer(decoded.bytes.length));
  decoded.bytes.copy(bytes);
  return { ...decoded, bytes };
}

function isContent(value: Json | undefined): value is GivenContent {
  if (typeof value === "string") return true;
  if (isObject(value)) return value.type === "Buffer" && isContent(value.data) && Array.isArray(value.data);
  return (
    Array.isArray(value) &&
    value.every((one) => Number.isInteger(one) && Number(one) >= 0 && Number(one) <= 255)
  );
}

function isObject(value: Json | undefined): value is KnownFields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function countValues(value: Json): number {
  if (typeof value !== "object" || value === null) return 1;
  let count = 1;
  for (const one of Array.isArray(value) ? value : Object.values(value)) count += countValues(one);
  return count;
}
