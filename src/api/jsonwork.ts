/**
 * The work of the thread for large bodies: it refuses a body that is too large before parsing, and returns
 * only the fields that are read, one e-mail at a time, with attachments decoded, so that the main thread has
 * little to do.
 */
import { createHash } from "node:crypto";
import { serialize } from "node:v8";
import { type Decoded, decode, type GivenContent } from "./attachment.ts";
import { type BadItems, findExcess, type Json, type NotJson, parseJson } from "./json.ts";
import { Spelling } from "./misspelt.ts";

/** Of one e-mail, or of a body that is no array, in the fields that are read. */
const VALUES_READ_MAX = 10_000;

const NOTHING = new SharedArrayBuffer(0);

/** What a route reads of a body. */
export type Reading = {
  /** Top-level fields, of the body or of the items of an array; null: all. */
  fields: readonly string[] | null;
  /** Of an array; a longer one is handed back without its items. */
  itemsMax: number;
  /** Text that cannot be stored refuses only the item of an array that holds it. */
  sparesItems?: boolean;
};

export type ParseWork = { chunks: Uint8Array[]; digestPrefix: string; reading: Reading };

/** What the thread says first. */
export type ParseMemory = { kind: "memory"; slabs: SharedArrayBuffer[] };

/** What is handed over of an e-mail, or of a body that is no array. */
export type ReadItem = { value: Json; contents: readonly ContentAt[] };

/**
 * The content of an attachment: where it stands in the bytes of all contents of its item, or why there is
 * none.
 */
export type ContentAt = { attachment: number } & (
  | { kind: "content"; from: number; to: number; hash: string }
  | Exclude<Decoded, { kind: "content" }>
);

/**
 * A `ReadItem`, serialized, since the main thread reads a message at once, whatever it holds. The bytes are
 * in memory that is handed over without a copy, and that its garbage collector does not count.
 */
export type WrittenItem = { item: Uint8Array; bytes: SharedArrayBuffer };

export type Done =
  | {
      kind: "json";
      /** Of an array; null: the body is the one item. */
      length: number | null;
      items: WrittenItem[];
      badItems: BadItems;
      digest: string;
    }
  | NotJson;

type KnownFields = { [name: string]: Json };

export function doWork({ chunks, digestPrefix, reading }: ParseWork): Done {
  const bytes = Buffer.concat(chunks);
  const excess = findExcess(bytes);
  if (excess) return excess;
  const parsed = parseJson(bytes, itemsSparedMax(reading));
  if (parsed.kind !== "json") return parsed;
  const { value, badItems } = parsed;
  const length = Array.isArray(value) ? value.length : null;
  const given = Array.isArray(value) ? (value.length > reading.itemsMax ? [] : value) : [value];
  const spelling = reading.fields && new Spelling(reading.fields);
  const items: WrittenItem[] = [];
  for (const item of given) {
    const read = readFields(item, spelling);
    const { contents, bytes } = takeContents(read);
    if (countValues(read) > VALUES_READ_MAX) return { kind: "too many" };
    items.push({ item: serialize({ value: read, contents } satisfies ReadItem), bytes });
  }
  const digest = createHash("sha256").update(digestPrefix).update(bytes).digest("hex");
  return { kind: "json", length, items, badItems, digest };
}

export function itemsSparedMax({ sparesItems, itemsMax }: Reading): number {
  return sparesItems ? itemsMax : 0;
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
function takeContents(item: Json): { contents: ContentAt[]; bytes: SharedArrayBuffer } {
  const contents: ContentAt[] = [];
  const pieces: Buffer[] = [];
  let to = 0;
  const attachments = isObject(item) && Array.isArray(item.attachments) ? item.attachments : [];
  for (const [attachment, given] of attachments.entries()) {
    if (!isObject(given) || !isContent(given.content)) continue;
    const decoded = decode(given.content);
    given.content = "";
    if (decoded.kind !== "content") {
      contents.push({ attachment, ...decoded });
      continue;
    }
    const { kind, hash, bytes } = decoded;
    const from = to;
    to += bytes.length;
    contents.push({ attachment, kind, hash, from, to });
    pieces.push(bytes);
  }
  return { contents, bytes: together(pieces, to) };
}

function together(pieces: readonly Buffer[], length: number): SharedArrayBuffer {
  if (length === 0) return NOTHING;
  const shared = new SharedArrayBuffer(length);
  const bytes = Buffer.from(shared);
  let at = 0;
  for (const piece of pieces) at += piece.copy(bytes, at);
  return shared;
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
