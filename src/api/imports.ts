/**
 * /contacts/imports: contacts from a CSV file, in the background. The file is in this process alone: when the
 * process ends before the import does, the import has failed, and the same file can be sent again, since what
 * it brought stays the same when it is brought twice.
 */
import Type, { type Static } from "typebox";
import { csvRecords } from "../audience/csv.ts";
import { columnsOf, ImportFault, importContacts, type PropertyType } from "../audience/import.ts";
import { firstChars } from "../chars.ts";
import type { Clock } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import { expectHere } from "../record/cells/moving.ts";
import { defaultAudience, findAudience } from "../record/contacts/audiences.ts";
import type { ContactCommit } from "../record/contacts/commit.ts";
import {
  type ContactImport,
  findImport,
  IMPORT_STATUSES,
  type ImportStatus,
  insertImport,
  listImports,
  noteImport,
  type RowCounts,
} from "../record/contacts/imports.ts";
import type { Sql } from "../record/db/connect.ts";
import { turn } from "../turn.ts";
import { unknownAudience, visibleAudience } from "./audiences.ts";
import { checker, missingField } from "./check.ts";
import type { Form } from "./form.ts";
import { parseJson } from "./json.ts";
import { envelope, LIST_QUERY, oneOf, pageOf } from "./page.ts";
import { Refusal, refuse, unavailable } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Count, Id, inner, listOf, shape, orNull as shapeOrNull, Time, told } from "./shapes.ts";
import { iso } from "./time.ts";

const PATH = "/api/v1/contacts/imports";
/** Held in memory until it is their turn, and until they are done. */
const HELD_MAX = 32;
const HELD_OF_ONE_MAX = 10;
/** The rows of one are read in one go. */
const CHUNK_BYTES = 4 * 1024;
/** Of one that runs: it lives. */
const NOTE_MS = 10_000;
const RETRY_SECONDS = 1;
const JSON_BYTES_MAX = 64 * 1024;
const COLUMN_CHARS_SHOWN = 100;
const MAPPED_FIELDS = ["email", "first_name", "last_name", "unsubscribed"] as const;
const FIELDS = [...MAPPED_FIELDS, "tags"];

const Column = Type.Optional(Type.Union([Type.String(), Type.Null()]));
const ColumnMap = Type.Object({
  email: Column,
  first_name: Column,
  last_name: Column,
  unsubscribed: Column,
  properties: Type.Optional(
    Type.Union([
      Type.Null(),
      Type.Record(
        Type.String(),
        Type.Object({
          column: Type.String(),
          type: Type.Optional(Type.Enum(["string", "number", "boolean"])),
        }),
      ),
    ]),
  ),
});
type GivenColumnMap = Static<typeof ColumnMap>;
const Options = Type.Object({
  column_map: Type.Optional(ColumnMap),
  on_conflict: Type.Optional(Type.Enum(["upsert", "skip"])),
  segments: Type.Optional(Type.Array(Type.Object({ id: Type.String() }))),
});
const checkOptions = checker(Options);

/** As it is written in the form: what is no plain text is JSON. */
const ImportContacts = Type.Object(
  {
    file: Type.String({ description: "CSV; its first line names the columns", contentMediaType: "text/csv" }),
    column_map: Type.Optional(
      Type.String({
        description:
          "JSON: the columns of `email`, `first_name`, `last_name` and `unsubscribed`, and `properties`: `{name: {column, type?}}`. Other columns are ignored. Without it columns have these names, and every other column is a property",
      }),
    ),
    on_conflict: Type.Optional(
      Type.Enum(["upsert", "skip"], { description: "`skip` leaves known contacts as they are" }),
    ),
    segments: Type.Optional(
      Type.String({ description: 'JSON: `[{"id": "..."}]`, one audience; default: that of the workspace' }),
    ),
  },
  { $id: "ImportContacts" },
);

const ImportAnswer = shape("ContactImport", {
  object: Type.Literal("contact_import"),
  id: Id,
  status: Type.Enum([...IMPORT_STATUSES]),
  created_at: Time,
  completed_at: shapeOrNull(Time),
  counts: inner({ total: Count, created: Count, updated: Count, skipped: Count, failed: Count }),
});

export function contactImportRoutes(imports: Imports): Route[] {
  return [
    {
      method: "POST",
      path: PATH,
      permissions: ["contacts:write"],
      summary: "Import contacts from a CSV file of up to 1 MB, in the background",
      success: 201,
      request: ImportContacts,
      takesForm: true,
      formJson: Options,
      answer: told("contact_import"),
      handle: (call) => imports.create(call),
    },
    {
      method: "GET",
      path: PATH,
      // how many contacts were there already tells who is in the list
      permissions: ["contacts:read"],
      summary: "List imports of contacts, newest first",
      success: 200,
      query: [...LIST_QUERY, { name: "status", description: `one of ${IMPORT_STATUSES.join(", ")}` }],
      answer: listOf(ImportAnswer),
      handle: (call) => imports.list(call),
    },
    {
      method: "GET",
      path: `${PATH}/{import_id}`,
      permissions: ["contacts:read"],
      summary: "Get an import of contacts: how far it is, and what became of its rows",
      success: 200,
      answer: ImportAnswer,
      handle: (call) => imports.get(call),
    },
  ];
}

type ImportWorkParts = {
  reads: Sql;
  clock: Clock;
  commit: ContactCommit;
  onFault(error: unknown): void;
};
type ImportUnderWay = { status: ImportStatus; counts: RowCounts };
const NO_ROWS: RowCounts = { total: 0, created: 0, updated: 0, skipped: 0, failed: 0 };
type AskedImport = {
  workspaceId: string;
  id: string;
  audienceId: string;
  keyId: string;
  file: Buffer;
  onlyNew: boolean;
  map: GivenColumnMap | null;
};

/** Those of this process: of each workspace one after the other. */
export class Imports {
  readonly #parts: ImportWorkParts;
  readonly #held = new Set<AskedImport>();
  /** The last one of each workspace. */
  readonly #last = new Map<string, Promise<void>>();
  #isStopping = false;

  constructor(parts: ImportWorkParts) {
    this.#parts = parts;
  }

  /** What runs ends where it is, and says that it has failed. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#last.values());
  }

  async create({ caller, form }: Call): Promise<Answer> {
    const { reads, clock } = this.#parts;
    const { workspaceId, keyId } = caller;
    const { file, onlyNew, map, segment } = readAsked(form);
    await expectColumns(file, map);
    const audienceId = segment ?? (await defaultAudience(reads, workspaceId, new Date(clock.now())));
    if (audienceId === null) throw unknownAudience();
    const found = await findAudience(reads, workspaceId, visibleAudience(caller, audienceId));
    if (!found) throw unknownAudience();
    this.#expectRoom(workspaceId);
    const id = newId(clock.now());
    const asked = { workspaceId, id, audienceId, keyId, file, onlyNew, map };
    this.#held.add(asked);
    try {
      await insertImport(reads, asked, new Date(clock.now()));
    } catch (error) {
      this.#held.delete(asked);
      throw error;
    }
    this.#begin(asked);
    return { status: 201, body: JSON.stringify({ object: "contact_import", id }) };
  }

  #expectRoom(workspaceId: string): void {
    if (this.#isStopping || this.#held.size >= HELD_MAX) throw new Refusal(unavailable("capacity"));
    if ([...this.#held].filter((one) => one.workspaceId === workspaceId).length < HELD_OF_ONE_MAX) return;
    throw refuse(
      "rate_limit_exceeded",
      "Too many imports of this workspace are waiting. Wait until one has ended.",
      {
        details: { retry_after: RETRY_SECONDS },
        headers: { "Retry-After": String(RETRY_SECONDS) },
      },
    );
  }

  #begin(asked: AskedImport): void {
    const { workspaceId } = asked;
    const { reads, clock, onFault } = this.#parts;
    const progress: ImportUnderWay = { status: "queued", counts: { ...NO_ROWS } };
    const note = () =>
      noteImport(reads, asked, progress.status, progress.counts, new Date(clock.now())).catch(onFault);
    // one that cannot be noted is seen to be silent
    const timer = setInterval(() => void note(), NOTE_MS);
    const work = (this.#last.get(workspaceId) ?? Promise.resolve())
      .then(() => this.#run(asked, progress, note))
      .finally(() => {
        clearInterval(timer);
        this.#held.delete(asked);
        if (this.#last.get(workspaceId) === work) this.#last.delete(workspaceId);
      });
    this.#last.set(workspaceId, work);
  }

  async list({ caller, query }: Call): Promise<Answer> {
    const { reads, clock } = this.#parts;
    const page = pageOf(query, ["status"]);
    const status = oneOf(query, "status", IMPORT_STATUSES);
    const now = new Date(clock.now());
    const rows = await listImports(reads, caller.workspaceId, caller.audienceIds, status, page, now);
    if (rows.length === 0) await expectHere(reads, caller.workspaceId);
    return { status: 200, body: envelope(rows, page, show) };
  }

  async get({ caller, params }: Call): Promise<Answer> {
    const { reads, clock } = this.#parts;
    const id = params[0] ?? "";
    if (!isUuid(id)) throw refuse("invalid_parameter", "The `id` of an import must be a UUID.");
    const now = new Date(clock.now());
    const found = await findImport(reads, caller.workspaceId, caller.audienceIds, id.toLowerCase(), now);
    if (!found) throw refuse("not_found", "There is no import with this id.");
    return { status: 200, body: JSON.stringify(show(found)) };
  }

  async #run(asked: AskedImport, progress: ImportUnderWay, note: () => Promise<void>): Promise<void> {
    progress.status = "in_progress";
    await note();
    try {
      await this.#importInto(asked, progress.counts);
      progress.status = "completed";
    } catch (error) {
      progress.status = "failed";
      if (!(error instanceof ImportFault)) this.#parts.onFault(error);
    }
    await note();
  }

  async #importInto({ map, file, keyId, ...about }: AskedImport, counts: RowCounts): Promise<void> {
    const { commit, clock } = this.#parts;
    if (this.#isStopping) throw new ImportFault("the engine is being stopped");
    const { records, columns, types } = await opened(file, map);
    const parts = { ...about, keyId, types, commit, clock, consent: null };
    for await (const { imported, created, known, skipped } of importContacts(
      records,
      columns,
      parts,
      () => {},
    )) {
      const updated = imported - created;
      Object.assign(counts, {
        total: imported + known + skipped,
        created,
        updated,
        skipped: known,
        failed: skipped,
      });
      if (this.#isStopping) throw new ImportFault("the engine is being stopped");
    }
  }
}

function show({
  id,
  status,
  createdAt,
  completedAt,
  total,
  created,
  updated,
  skipped,
  failed,
}: ContactImport) {
  return {
    ...{ object: "contact_import", id, status, created_at: iso(createdAt), completed_at: iso(completedAt) },
    counts: { total, created, updated, skipped, failed },
  };
}

function readAsked(form: Form | null) {
  const file = form?.get("file");
  if (!form || !file) throw missingField("file");
  if ((form.get("topics") ?? "[]").toString() !== "[]")
    throw refuse("validation_error", "The `topics` field is not supported: use audiences or tags.");
  const conflict = form.get("on_conflict");
  const given = checkOptions({
    ...(conflict && { on_conflict: conflict.toString() }),
    ...jsonIn(form, "column_map"),
    ...jsonIn(form, "segments"),
  });
  const segments = given.segments ?? [];
  if (segments.length > 1)
    throw refuse(
      "validation_error",
      "The `segments` field may name only one audience. Import the file once for each.",
    );
  const segment = segments[0]?.id ?? null;
  if (segment !== null && !isUuid(segment))
    throw refuse("validation_error", "The `segments[0].id` field must be a UUID.");
  const map = given.column_map ?? null;
  const taken = Object.keys(map?.properties ?? {}).find((name) => FIELDS.includes(name) || name === "");
  if (taken !== undefined)
    throw refuse("validation_error", `The \`column_map.properties\` field must not name \`${taken}\`.`);
  const columns = map ? mappedColumns(map).map(({ column }) => column) : [];
  const named = new Set<string>();
  const repeated = columns.find((column) => named.size === named.add(column).size);
  if (repeated !== undefined)
    throw refuse(
      "validation_error",
      `The \`column_map\` field must name the column \`${firstChars(repeated, COLUMN_CHARS_SHOWN)}\` only once.`,
    );
  return { file, onlyNew: given.on_conflict === "skip", map, segment: segment?.toLowerCase() ?? null };
}

function jsonIn(form: Form, name: string) {
  const bytes = form.get(name);
  if (!bytes) return {};
  if (bytes.byteLength > JSON_BYTES_MAX)
    throw refuse("validation_error", `The \`${name}\` field has more than ${JSON_BYTES_MAX} bytes.`);
  const read = parseJson(bytes);
  if (read.kind !== "json") throw refuse("validation_error", `The \`${name}\` field must be JSON.`);
  return { [name]: read.value };
}

/** An import that failed has no reason: what is wrong with its first line would be told to nobody. */
async function expectColumns(file: Buffer, map: GivenColumnMap | null): Promise<void> {
  try {
    await opened(file, map);
  } catch (error) {
    if (!(error instanceof ImportFault)) throw error;
    throw refuse("validation_error", `The \`file\` field cannot be imported: ${error.message}.`);
  }
}

/** Up to its first row. */
async function opened(file: Buffer, map: GivenColumnMap | null) {
  const records = csvRecords(chunksOf(file));
  const header = await records.next();
  if (header.done) throw new ImportFault("the file is empty");
  const named = columnsOf(header.value, map?.email || "email");
  return { records, ...(map ? mapped(named, map) : { columns: named, types: new Map() }) };
}

type MappedColumn = { column: string; name: string; type?: PropertyType | "string" };

/** Which column is what; other fields are ignored. */
function mappedColumns({ properties, ...fields }: GivenColumnMap): MappedColumn[] {
  const named = MAPPED_FIELDS.flatMap((name): MappedColumn[] => {
    const column = fields[name] || (name === "email" ? name : null);
    return column ? [{ column, name }] : [];
  });
  const further = Object.entries(properties ?? {}).map(([name, one]) => ({ ...one, name }));
  return [...named, ...further];
}

/** The columns under the names that an import gives them; nameless ones are ignored. */
function mapped(columns: readonly string[], map: GivenColumnMap) {
  const nameOf = new Map<string, string>();
  const types = new Map<string, PropertyType>();
  for (const { column, name, type } of mappedColumns(map)) {
    nameOf.set(column, name);
    if (type === "number" || type === "boolean") types.set(name, type);
  }
  const missing = [...nameOf.keys()].find((column) => !columns.includes(column));
  if (missing !== undefined)
    throw new ImportFault(
      `there is no column \`${firstChars(missing, COLUMN_CHARS_SHOWN)}\`, which \`column_map\` names`,
    );
  return { columns: columns.map((column) => nameOf.get(column) ?? ""), types };
}

/** Others have their turn in between. */
async function* chunksOf(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.byteLength; at += CHUNK_BYTES) {
    yield bytes.subarray(at, at + CHUNK_BYTES);
    await turn();
  }
}
