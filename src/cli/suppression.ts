/** `postrider suppression`: addresses that a workspace does not write to, with their evidence. */

import { createReadStream } from "node:fs";
import { identity, parseMailbox } from "../address.ts";
import { csvLine, csvRecords } from "../audience/csv.ts";
import { addressHasher } from "../audience/links.ts";
import { sayCount } from "../capacity/report/words.ts";
import { isUuid } from "../ids.ts";
import {
  listSuppressions,
  type Suppression,
  type SuppressionKey,
  undoSuppressions,
} from "../record/mail/suppressions.ts";
import { SUPPRESSION_REASONS, type SuppressionReason } from "../rules/suppression.ts";
import { type Entry, entryOf, readScope, SCOPE_OF_ALL, suppress, type Wish } from "../suppression/entry.ts";
import { type Context, requireSecret } from "./context.ts";
import { expectReadable } from "./files.ts";
import { CommandError, type OutputOptions, print, printJson, say, table } from "./print.ts";

const LINES_SHOWN = 100;
const PAGE_ROWS = 1_000;
const CHUNK_ROWS = 500;
const SKIPPED_SHOWN_MAX = 10;

type SuppressionOf = OutputOptions & { workspace: string; reason?: SuppressionReason };
type AddOptions = SuppressionOf & { scope?: string; evidence?: string };

export async function list({ sql }: Context, options: SuppressionOf): Promise<void> {
  const { workspace, reason } = options;
  const page = { after: null, before: null, limit: LINES_SHOWN };
  const found = await listSuppressions(sql, workspace, reason ?? null, page);
  const rows = found.slice(0, LINES_SHOWN);
  const cells = rows.map((row) => [
    row.email ?? "(erased)",
    row.reason,
    row.scope || "all",
    row.createdAt.toISOString(),
    row.evidence,
  ]);
  const shownAll = table(cells, ["address", "reason", "mail from", "since", "evidence"]);
  const more =
    found.length > rows.length ? `\nThere are more; \`postrider suppression export\` prints all.` : "";
  say(options, rows.map(shown), shownAll + more);
}

export async function add(context: Context, email: string, options: AddOptions): Promise<void> {
  const { workspace } = options;
  const wish = wishOf(email, options);
  const now = context.clock.now();
  const entry = entryOf(addressHasher(await requireSecret(context)), workspace, wish, now);
  if (!entry) throw new CommandError(`${email} is no e-mail address.`);
  const [id] = await suppress(context.sql, [entry], now);
  say(options, { id, email: entry.email, reason: entry.reason }, `${entry.email} is suppressed.`);
}

export async function remove(context: Context, what: string, options: SuppressionOf): Promise<void> {
  const { workspace } = options;
  const { sql, clock } = context;
  const [undone] = await undoSuppressions(sql, workspace, [await keyOf(context, what)], {
    now: new Date(clock.now()),
    by: "operator",
  });
  if (!undone) throw new CommandError(`${what} is not suppressed in this workspace.`);
  say(options, { id: undone.id, deleted: true }, `${what} may be written to again.`);
}

export async function importFile(context: Context, file: string, options: SuppressionOf): Promise<void> {
  const { workspace } = options;
  expectReadable(file);
  const hashOf = addressHasher(await requireSecret(context));
  const counts = { suppressed: 0, skipped: 0 };
  const skippedRows: number[] = [];
  let row = 0;
  let chunk: Entry[] = [];
  const write = async (): Promise<void> => {
    await suppress(context.sql, chunk, context.clock.now());
    counts.suppressed += chunk.length;
    chunk = [];
  };
  for await (const { fields, raw } of csvRecords(createReadStream(file))) {
    row++;
    const wish = fields && wishIn(fields);
    const entry = wish && entryOf(hashOf, workspace, wish, context.clock.now());
    if (entry) chunk.push(entry);
    else if (raw.trim() !== "") {
      counts.skipped++;
      if (skippedRows.length < SKIPPED_SHOWN_MAX) skippedRows.push(row);
    }
    if (chunk.length >= CHUNK_ROWS) await write();
  }
  await write();
  if (counts.suppressed === 0 && counts.skipped > 0)
    throw new CommandError(
      `Nothing is suppressed: no row of ${file} can be read. A row is an e-mail address, and if you like a reason, evidence and a scope, with commas between them.`,
    );
  const which = skippedRows.join(", ") + (counts.skipped > skippedRows.length ? ", ..." : "");
  const skipped =
    counts.skipped === 0 ? "none skipped" : `${sayCount(counts.skipped)} skipped: rows ${which}`;
  say(options, counts, `${sayCount(counts.suppressed)} suppressed, ${skipped}.`);
}

export async function exportAll({ sql }: Context, { workspace, json }: SuppressionOf): Promise<void> {
  const all: Suppression[] = [];
  for (let after: string | null = null; ; ) {
    const rows = await listSuppressions(sql, workspace, null, { after, before: null, limit: PAGE_ROWS });
    all.push(...rows.slice(0, PAGE_ROWS));
    if (rows.length <= PAGE_ROWS) break;
    after = rows[PAGE_ROWS - 1]?.id ?? null;
  }
  if (json) return printJson(all.map(shown));
  for (const { email, reason, evidence, scope } of all)
    if (email) print(csvLine([email, reason, evidence ?? "", scope]).trimEnd());
}

/** An unknown reason or a scope that is no domain makes no suppression. */
function wishIn([email = "", given = "", evidence = "", scope = ""]: readonly string[]): Wish | null {
  const reason = given.trim() === "" ? "manual" : SUPPRESSION_REASONS.find((one) => one === given.trim());
  const readable = readScope(scope);
  if (!reason || readable === null) return null;
  return { email: email.trim(), reason, scope: readable, evidence: evidence || null };
}

function wishOf(
  email: string,
  { reason = "manual", scope = "", evidence = "" }: Omit<AddOptions, "workspace">,
): Wish {
  const readable = readScope(scope);
  if (readable === null) throw new CommandError(`${scope} is no domain, such as \`example.com\`.`);
  return { email, reason, scope: readable, evidence: evidence || null };
}

async function keyOf(context: Context, what: string): Promise<SuppressionKey> {
  if (isUuid(what)) return { id: what.toLowerCase() };
  const mailbox = parseMailbox(what);
  if (!mailbox) throw new CommandError(`${what} is no e-mail address and no id.`);
  return { hash: addressHasher(await requireSecret(context))(identity(mailbox.address)) };
}

function shown({ id, email, reason, scope, evidence, createdAt }: Suppression) {
  return { id, email, reason, scope: scope || SCOPE_OF_ALL, evidence, created_at: createdAt.toISOString() };
}
