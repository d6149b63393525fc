/** People of an audience in the hands of its owners: what they agreed to, export, and import of a file. */
import { Readable } from "node:stream";
import Type, { type Static } from "typebox";
import { csvRecords } from "../audience/csv.ts";
import { exportedLines } from "../audience/export.ts";
import { columnsOf, ImportFault, importContacts } from "../audience/import.ts";
import type { Clock } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import { findMembership } from "../record/accounts/sessions.ts";
import { findAudience } from "../record/contacts/audiences.ts";
import type { ContactCommit } from "../record/contacts/commit.ts";
import { listConsents } from "../record/contacts/contacts.ts";
import type { Sql } from "../record/db/connect.ts";
import { turn } from "../turn.ts";
import { type ConsoleCall, EVERYONE, type KnownWorkspace, type VisitOf, workspaceCall } from "./calls.ts";
import { wholeList } from "./pages.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

const CSV_CHARS_MAX = 4 * 1024 * 1024;
/** The same as JSON, in which line feeds and quotes take twice as much. */
/** Each call that carries one adds to them. */
const CONSENTS_SHOWN = 200;
const IMPORT_BODY_BYTES_MAX = 10 * 1024 * 1024;
/** The rows of one are read in one go. */
const CHUNK_BYTES = 4 * 1024;
const IMPORTS_MAX = 5;
/** Finished ones that can still be asked for. */
const IMPORTS_KEPT_MAX = 100;
const REJECTED_SHOWN_MAX = 1_000;
/** Under way at a time: one holds some hundred contacts in memory until its last byte has left. */
const EXPORTS_MAX = 8;
const EXPORTS_OF_ONE_MAX = 2;

const Imported = Type.Object(
  {
    audience_id: Type.String({ maxLength: 36 }),
    csv: Type.String({ minLength: 1, maxLength: CSV_CHARS_MAX }),
    consent: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  },
  { additionalProperties: false },
);

export type ContactCallParts = {
  sql: Sql;
  commit: ContactCommit;
  clock: Clock;
  onFault(error: unknown): void;
};

type ImportState = {
  workspaceId: string;
  state: "running" | "done" | "failed";
  rows: number;
  done: number;
  imported: number;
  skipped: number;
  rejected: { row: number; reason: string }[];
  reason: string | null;
};

export function contactCalls(parts: ContactCallParts): ConsoleCall[] {
  const imports = new Map<string, ImportState>();
  const exports = new Map<string, number>();
  return [
    workspaceCall({
      ...{ method: "GET", path: "contacts/export", roles: EVERYONE },
      handle: (visit) => exportAll(parts, exports, visit),
    }),
    workspaceCall({
      ...{ method: "POST", path: "contacts/import", roles: EVERYONE, body: Imported },
      bodyBytesMax: IMPORT_BODY_BYTES_MAX,
      handle: (visit) => importFile(parts, imports, visit),
    }),
    workspaceCall({
      ...{ method: "GET", path: "contacts/import/{id}", roles: EVERYONE },
      handle: (visit) => progress(imports, visit),
    }),
    workspaceCall({
      ...{ method: "GET", path: "contacts/{id}/consent", roles: EVERYONE },
      handle: (visit) => consents(parts, visit),
    }),
  ];
}

async function consents({ sql }: ContactCallParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const { workspace, params } = visit;
  const [id = ""] = params;
  if (!isUuid(id)) throw deny("invalid_parameter", "The `id` of a contact must be a UUID.");
  const all = await listConsents(sql, workspace.id, id.toLowerCase(), CONSENTS_SHOWN);
  return wholeList(
    all.toReversed().map((one) => ({
      ...{ id: one.id, kind: one.kind, source: one.source, captured_at: one.capturedAt.toISOString() },
      ...{ recorded_at: one.recordedAt.toISOString(), ip_address: one.ipAddress, user_agent: one.userAgent },
      ...{ text: one.wording, text_version: one.textVersion, api_key_id: one.keyId },
    })),
  );
}

/** `exports`: how many of each workspace are under way. */
async function exportAll(
  { sql }: ContactCallParts,
  exports: Map<string, number>,
  visit: VisitOf<KnownWorkspace>,
): Promise<ConsoleAnswer> {
  const { workspace, session, query } = visit;
  const id = await audienceIn(sql, workspace.id, query.get("audience_id") ?? "");
  const all = [...exports.values()].reduce((sum, count) => sum + count, 0);
  if (all >= EXPORTS_MAX || (exports.get(workspace.id) ?? 0) >= EXPORTS_OF_ONE_MAX)
    throw deny("rate_limit_exceeded", "Other exports are running. Wait until one of them has ended.");
  // cells that a spreadsheet would run are text: whoever opens the file did not write it
  const lines = exportedLines(sql, workspace.id, id, true, async () => {
    const still = await findMembership(sql, session.accountId, workspace.id);
    if (!still) throw new Error("whoever reads it is no member any more");
  });
  const headers = {
    "Content-Type": "text/csv; charset=utf-8",
    "Content-Disposition": `attachment; filename="contacts-${id}.csv"`,
  };
  return { status: 200, body: Readable.from(whileCounted(exports, workspace.id, lines)), headers };
}

/** From the first line that is asked for until nobody asks for more. */
async function* whileCounted(
  counts: Map<string, number>,
  name: string,
  lines: AsyncIterable<string>,
): AsyncGenerator<string> {
  counts.set(name, (counts.get(name) ?? 0) + 1);
  try {
    yield* lines;
  } finally {
    const left = (counts.get(name) ?? 1) - 1;
    if (left > 0) counts.set(name, left);
    else counts.delete(name);
  }
}

async function importFile(
  parts: ContactCallParts,
  imports: Map<string, ImportState>,
  visit: VisitOf<KnownWorkspace, Static<typeof Imported>>,
): Promise<ConsoleAnswer> {
  const { workspace, body, now } = visit;
  const { audience_id, csv, consent } = body;
  if (workspace.isSuspended)
    throw deny("workspace_suspended", "This workspace is suspended. Ask its operator.");
  const audienceId = await audienceIn(parts.sql, workspace.id, audience_id);
  const running = [...imports.values()].filter(({ state }) => state === "running");
  if (running.length >= IMPORTS_MAX || running.some((one) => one.workspaceId === workspace.id))
    throw deny("rate_limit_exceeded", "Another import is running. Wait until it has ended.");
  const bytes = Buffer.from(csv);
  const id = newId(now);
  const state: ImportState = {
    ...{ workspaceId: workspace.id, state: "running", rows: linesIn(bytes), done: 0 },
    ...{ imported: 0, skipped: 0, rejected: [], reason: null },
  };
  imports.set(id, state);
  for (const [oldest, { state: its }] of imports)
    if (imports.size > IMPORTS_KEPT_MAX && its !== "running") imports.delete(oldest);
  const given = consent === undefined ? null : { source: consent, capturedAt: new Date(now), ...NO_DETAILS };
  void run(parts, state, bytes, { workspaceId: workspace.id, audienceId, consent: given });
  return {
    status: 202,
    body: { object: "import", id },
    detail: { audience_id: audienceId, rows: state.rows },
  };
}

const NO_DETAILS = { ipAddress: null, userAgent: null, wording: null, textVersion: null };

/**
 * Goes on when the tab is closed; a process that ends takes it along, and the file can be imported once more.
 */
async function run(
  { commit, clock, onFault }: ContactCallParts,
  state: ImportState,
  bytes: Buffer,
  about: Omit<Parameters<typeof importContacts>[2], "commit" | "clock">,
): Promise<void> {
  try {
    const records = csvRecords(chunksOf(bytes));
    const header = await records.next();
    if (header.done) throw new ImportFault("the file is empty");
    const columns = columnsOf(header.value);
    const steps = importContacts(records, columns, { ...about, commit, clock }, ({ record, reason }) => {
      if (state.rejected.length < REJECTED_SHOWN_MAX) state.rejected.push({ row: record.line, reason });
    });
    for await (const { imported, skipped } of steps)
      Object.assign(state, { imported, skipped, done: imported + skipped });
    Object.assign(state, { state: "done", rows: state.done });
  } catch (error) {
    const isOfFile = error instanceof ImportFault;
    if (!isOfFile) onFault(error);
    const reason = isOfFile ? error.message : "the import was interrupted: import the file again";
    Object.assign(state, { state: "failed", reason });
  }
}

function progress(imports: Map<string, ImportState>, visit: VisitOf<KnownWorkspace>): ConsoleAnswer {
  const [id = ""] = visit.params;
  const found = imports.get(id);
  if (!found || found.workspaceId !== visit.workspace.id)
    throw deny(
      "not_found",
      "This console process knows no such import: it was restarted, or another console process runs it. Look at the contacts before you import the file again.",
    );
  const { workspaceId: _, ...shown } = found;
  return { status: 200, body: { object: "import", id, ...shown } };
}

async function audienceIn(sql: Sql, workspaceId: string, id: string): Promise<string> {
  const audience = isUuid(id) ? await findAudience(sql, workspaceId, id.toLowerCase()) : null;
  if (!audience) throw deny("not_found", "There is no audience with this id.");
  return audience.id;
}

/** Others have their turn in between. */
async function* chunksOf(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.byteLength; at += CHUNK_BYTES) {
    yield bytes.subarray(at, at + CHUNK_BYTES);
    await turn();
  }
}

/** Below the line of names, as far as can be said before they are read. */
function linesIn(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) lines++;
  return bytes.at(-1) === 10 ? lines - 1 : lines;
}
