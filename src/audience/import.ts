/**
 * Contacts from a file of comma-separated values into an audience: upserts, in the group commit that the API
 * uses. A record that cannot be a contact is handed back with its line and the reason, and the others go on.
 *
 * The first record names the columns: `email`, and as wanted `first_name`, `last_name`, `unsubscribed`,
 * `tags` (with semicolons between, or as a JSON array); every other column is a property of its name. An
 * empty field leaves what is known as it is. In a file that `contact export` wrote, `properties` are all of
 * them as JSON, and what belongs to the audience it comes from is passed over: status, id and times. Who is
 * pending there stays out, unless it is said where they agreed.
 */
import { identity, parseMailbox } from "../address.ts";
import { hasMoreChars } from "../chars.ts";
import type { Clock } from "../clock.ts";
import { newId } from "../ids.ts";
import type { ContactCommit, ContactEntry } from "../record/contacts/commit.ts";
import type { ContactFields, GivenConsent } from "../rules/contact.ts";
import type { CsvRecord } from "./csv.ts";

/** In one commit: of more, what is collected outlives young garbage and costs a tenth more. */
const AT_ONCE = 1_000;
/** Of records, also those that are skipped. */
const GROUP_CHARS_MAX = 16 * 1024 * 1024;
const NAME_CHARS_MAX = 200;
const TAG_CHARS_MAX = 100;
/** A record over this is no contact: properties may have 16 KB. */
const ENTRY_BYTES_MAX = 64 * 1024;

const COLUMNS_MAX = 500;
const COLUMN_CHARS_SHOWN = 100;

const JSON_DEPTH_MAX = 32;

/** Of an export; a file that has all of them is taken for one. */
export const EXPORTED_COLUMNS = [
  "email",
  "first_name",
  "last_name",
  "status",
  "unsubscribed",
  "tags",
  "properties",
  "id",
  "created_at",
  "updated_at",
];
const OF_ITS_AUDIENCE = ["status", "id", "created_at", "updated_at"];

export type ImportParts = {
  commit: ContactCommit;
  workspaceId: string;
  audienceId: string;
  /** Stands in for the confirmation of each contact. */
  consent: GivenConsent | null;
  /** Contacts that are there already stay as they are. */
  onlyNew?: boolean;
  /** Of properties that are no text. */
  types?: ReadonlyMap<string, PropertyType>;
  /** Who asked for it. */
  keyId?: string | null;
  clock: Clock;
};

export type PropertyType = "number" | "boolean";
export type Skipped = { record: CsvRecord; reason: string };

/** So far: everything before `end` is committed or skipped; 0 where nothing was read. */
export type ImportProgress = { imported: number; skipped: number; end: number; line: number };

/** Of those imported, `created` were not there before; `known` were, and stayed as they are. */
export type ImportStep = ImportProgress & { created: number; known: number };

/** What whoever has the file can put right. */
export class ImportFault extends Error {}

const OTHER_SEPARATORS = [
  [";", "semicolons"],
  ["\t", "tabs"],
] as const;

/** The names of the columns, or what is wrong with them. `email`: which of them holds the address. */
export function columnsOf(header: CsvRecord, email = "email"): string[] {
  if (header.fields === null)
    throw new ImportFault(
      "the first line cannot be read: it is over 64 KB, its quotes do not match, or it is not UTF-8",
    );
  if (header.raw.includes("\0")) throw new ImportFault("the first line holds a NUL character");
  const names = header.fields.map((name) => name.trim());
  if (names.length > COLUMNS_MAX)
    throw new ImportFault(`the first line names ${names.length} columns; there can be up to ${COLUMNS_MAX}`);
  if (names.some((name) => /\r(?!\n)/.test(name)))
    throw new ImportFault("the lines end with carriage returns alone: save the file with line feeds instead");
  for (const [separator, word] of OTHER_SEPARATORS)
    if (!names.includes(email) && names.some((name) => name.split(separator).includes(email)))
      throw new ImportFault(
        `the first line has ${word} between its cells: save the file with commas instead`,
      );
  if (!names.includes(email))
    throw new ImportFault(
      `the first line must name the columns, one of them \`${email.slice(0, COLUMN_CHARS_SHOWN)}\``,
    );
  const repeated = names.find((name, n) => names.indexOf(name) !== n);
  if (repeated !== undefined)
    throw new ImportFault(`the column \`${repeated.slice(0, COLUMN_CHARS_SHOWN)}\` appears twice`);
  return names;
}

/**
 * Imports record by record; yields after each commit. `onSkip` hears of what is no contact, with the commit
 * of what stood around it. While one group commits the next is read.
 */
export async function* importContacts(
  records: AsyncIterable<CsvRecord>,
  columns: readonly string[],
  parts: ImportParts,
  onSkip: (skipped: Skipped) => void,
): AsyncGenerator<ImportStep> {
  const progress: ImportStep = { imported: 0, created: 0, known: 0, skipped: 0, end: 0, line: 0 };
  const isExported = EXPORTED_COLUMNS.every((name) => columns.includes(name));
  let group = emptyGroup();
  let underWay: Promise<ImportGroup> | null = null;
  const note = ({ imported, created, known, skipped, end, line }: ImportGroup): ImportStep => {
    for (const one of skipped) onSkip(one);
    progress.imported += imported;
    progress.created += created;
    progress.known += known;
    progress.skipped += skipped.length;
    if (end > 0) Object.assign(progress, { end, line });
    return { ...progress };
  };
  for await (const record of records) {
    const entry = entryOf(record, { columns, isExported }, parts);
    if (typeof entry === "string") group.skipped.push({ record, reason: entry });
    else group.entries.push({ record, entry });
    group.end = record.end;
    group.line = record.nextLine;
    group.chars += record.raw.length;
    if (group.entries.length + group.skipped.length < AT_ONCE && group.chars < GROUP_CHARS_MAX) continue;
    const next = commit(group, parts);
    // heard of when its turn comes
    next.catch(() => {});
    if (underWay) yield note(await underWay);
    underWay = next;
    group = emptyGroup();
  }
  if (underWay) yield note(await underWay);
  yield note(await commit(group, parts));
}

type ImportGroup = {
  entries: { record: CsvRecord; entry: ContactEntry }[];
  skipped: Skipped[];
  chars: number;
  imported: number;
  created: number;
  known: number;
  /** Where the file goes on after it. */
  end: number;
  line: number;
};

function emptyGroup(): ImportGroup {
  return { entries: [], skipped: [], chars: 0, imported: 0, created: 0, known: 0, end: 0, line: 0 };
}

async function commit(group: ImportGroup, parts: ImportParts): Promise<ImportGroup> {
  const verdicts = await Promise.all(group.entries.map(({ entry }) => parts.commit.submit(entry)));
  for (const [n, verdict] of verdicts.entries()) {
    const { record, entry } = group.entries[n] as { record: CsvRecord; entry: ContactEntry };
    if (verdict.kind === "changed") {
      group.imported++;
      if (entry.change.kind === "add" && verdict.contact.id === entry.change.id) group.created++;
    } else if (verdict.kind === "known") group.known++;
    else if (verdict.kind === "too much")
      group.skipped.push({ record, reason: `${verdict.field} ${verdict.message}` });
    else if (verdict.kind === "failed" || verdict.kind === "unknown") throw verdict.error;
    else throw new ImportFault("the audience was deleted during the import");
  }
  group.skipped.sort((a, b) => a.record.line - b.record.line);
  return group;
}

type Layout = { columns: readonly string[]; isExported: boolean };

/** The change that a record asks for, or why it is none. */
function entryOf(
  record: CsvRecord,
  { columns, isExported }: Layout,
  parts: ImportParts,
): ContactEntry | string {
  const { fields } = record;
  if (record.raw.length > ENTRY_BYTES_MAX) return "the row is too long, or a quote in it is not closed";
  if (!fields) return "the row cannot be read: quotes do not match, or it is not UTF-8";
  if (fields.length > columns.length)
    return `the row has ${fields.length} fields, but there are ${columns.length} columns`;
  if (record.raw.includes("\0")) return "the row holds a NUL character";
  // spaces that an export wrote are somebody's
  const cell = (n: number) => (isExported ? (fields[n] ?? "") : (fields[n] ?? "").trim());
  // first of all: a row without an address costs no more than it is long
  const email = cell(columns.indexOf("email"));
  const mailbox = parseMailbox(email);
  if (!mailbox || mailbox.name !== null || email.endsWith(">"))
    return `\`${email.slice(0, 100)}\` is not an address`;
  const given = new Map(columns.map((name, n) => [name, cell(n)]));
  if (isExported && given.get("status") === "pending" && !parts.consent)
    return "the contact has not confirmed, and --consent does not say where it gave consent";
  const read = readFields(given, isExported, parts.types);
  if (typeof read === "string") return read;
  const { clock } = parts;
  const who = { identity: identity(mailbox.address) };
  const { consent, workspaceId, audienceId, keyId = null, onlyNew = false } = parts;
  const optIn = { consent, ...(consent && { doubleOptIn: false }) };
  return {
    workspaceId,
    audienceId,
    who,
    change: {
      kind: "add",
      id: newId(clock.now()),
      identity: who.identity,
      email,
      fields: read,
      optIn,
      onlyNew,
    },
    keyId,
    given: clock.given(),
    bytes: record.raw.length,
  };
}

function readFields(
  given: ReadonlyMap<string, string>,
  isExported: boolean,
  types?: ReadonlyMap<string, PropertyType>,
): ContactFields | string {
  const fields: ContactFields = {};
  const properties: [string, unknown][] = [];
  for (const [name, value] of given) {
    if (value === "" || name === "email") continue;
    if (name === "first_name" || name === "last_name") {
      if (hasMoreChars(value, NAME_CHARS_MAX)) return `${name} has more than ${NAME_CHARS_MAX} characters`;
      fields[name === "first_name" ? "firstName" : "lastName"] = value;
    } else if (name === "unsubscribed") {
      if (!/^(true|false|yes|no|1|0)$/i.test(value))
        return `unsubscribed must be true or false, but is \`${value.slice(0, 20)}\``;
      // a list that says `false` of somebody who has unsubscribed here does not undo it
      if (/^(true|yes|1)$/i.test(value)) fields.unsubscribed = true;
    } else if (name === "tags") {
      const tags = tagsOf(value);
      if (tags.some((tag) => hasMoreChars(tag, TAG_CHARS_MAX)))
        return `a tag has more than ${TAG_CHARS_MAX} characters`;
      fields.tags = tags;
    } else if (isExported && name === "properties") {
      const read = storableJson(value);
      if (typeof read !== "object" || read === null || Array.isArray(read))
        return "properties is not a JSON object that can be stored";
      properties.push(...Object.entries(read));
    } else if (isExported && OF_ITS_AUDIENCE.includes(name)) continue;
    else if (name !== "") {
      const type = types?.get(name);
      const typed = type ? typedValue(value, type) : value;
      if (typed === null) return `${name} must be a ${type}, but is \`${value.slice(0, 20)}\``;
      properties.push([name, typed]);
    }
  }
  if (properties.length > 0) fields.properties = Object.fromEntries(properties);
  return fields;
}

/** null: it is no such value. */
function typedValue(text: string, type: PropertyType): number | boolean | null {
  if (type === "boolean") return /^(true|false)$/i.test(text) ? /^true$/i.test(text) : null;
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}

/** Tags in one field: with semicolons between, as JSON where that would not come back as it was. */
export function tagsText(tags: readonly string[]): string {
  const text = tags.join(";");
  const back = tagsOf(text);
  const isSame = back.length === tags.length && back.every((tag, n) => tag === tags[n]);
  return isSame ? text : JSON.stringify(tags);
}

function tagsOf(text: string): string[] {
  const listed = text.trimStart().startsWith("[") ? storableJson(text) : undefined;
  if (Array.isArray(listed) && listed.every((tag) => typeof tag === "string" && tag !== "")) return listed;
  return text
    .split(";")
    .map((tag) => tag.trim())
    .filter((tag) => tag !== "");
}

/** undefined: it is no JSON, or what the record cannot keep. */
function storableJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return isStorable(value, JSON_DEPTH_MAX) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isStorable(value: unknown, depth: number): boolean {
  if (typeof value === "string") return !value.includes("\0") && value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return (
    depth > 0 &&
    Object.entries(value).every(([name, one]) => isStorable(name, 0) && isStorable(one, depth - 1))
  );
}
