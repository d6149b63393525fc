/**
 * The move of a workspace from one record to another. Each record has a row about it, and the one of the
 * record that it leaves decides: `leaving`, it is here; `gone`, it is not, and the other record may let it
 * work. That change is one transaction, which has met every writer before it commits. In both records the
 * fence (fence.ts) obeys these rows.
 *
 * What is copied while nobody may write, the few late rows, waits in the row of the move: nothing in the new
 * record works with them before the workspace has arrived.
 */
import { codeOf } from "../../caught.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { Deadline, within } from "../db/groupcommit.ts";
import { dayNumber, listPartitions, makePartition } from "../db/partitions.ts";
import { boolean, float, integer, json, oneOf, orNull, type RowOf, text, typed } from "../db/rowshape.ts";
import { numberEventsOf } from "../outbox/outbox.ts";
import {
  allRows,
  asReplica,
  deleteAll,
  deleteSome,
  insertTexts,
  replaceRows,
  rowsAfter,
  rowsAt,
} from "./rows.ts";
import type { MovedTable } from "./tables.ts";

/** How long writers may be refused; they try again. */
const PAUSE_MS = 700;
const LOCK_MS_MAX = 250;
/** Of the other record, while this one is paused. */
const LANDING_MS_MAX = 450;
/**
 * Each of its statements has a timeout; after that another run of the command, under another id, must go on.
 */
const LANDING_END_MS_MAX = 10_000;
/** The pause ends by itself, should whoever began it be gone. */
const PAUSE_LAPSES_MS = 1_500;
const DRAIN_LAPSES_MS = 5_000;
const CHANGES_MAX = 5_000;
/** More than this is copied before the pause, and not in it. */
export const LAST_CHANGES_MAX = 1_000;
/** Of up to 128 KB each, that go over in the pause. */
const REPORTS_MAX = 50;
const IMPORT_SILENCE_SECONDS = 60;

export type MoveState = "leaving" | "gone" | "arriving";
const workspaceMoveRow = {
  workspaceId: text,
  /**
   * Of whoever works on it now: a run of the command that was succeeded by another copies nothing any more.
   */
  id: text,
  state: oneOf("leaving", "gone", "arriving"),
  /** The other one. */
  cell: text,
  handle: text,
  copied: orNull(json<Copied>()),
  goneSeconds: orNull(float),
};
export type WorkspaceMove = RowOf<typeof workspaceMoveRow>;
/** How far: all tables before this one, and of it the rows up to this key. null: all of it is to come. */
export type Copied = { table: string; key: string | null } | { isWhole: true };

/** `row`: of the account. */
const movedMemberRow = {
  email: text,
  row: text,
  role: text,
};
type MovedMember = RowOf<typeof movedMemberRow>;
/** What comes with the workspace when it arrives. */
type Luggage = {
  workspace: string;
  late: { table: string; rows: string[] }[];
  people: MovedMember[];
  reports: string[];
};

/** It cannot leave yet, and goes on where it is. */
export class NotYet extends Error {}

/** Each try to let it go is a pause for its callers; the last ends when it has arrived. */
export class Pauses {
  count = 0;
  longestMs = 0;
  #beganAt: number | null = null;

  begin(): void {
    this.count++;
    this.#beganAt = performance.now();
  }

  end(): void {
    if (this.#beganAt === null) return;
    this.longestMs = Math.max(this.longestMs, performance.now() - this.#beganAt);
    this.#beganAt = null;
  }
}

export async function findMove(sql: Sql, workspaceId: string): Promise<WorkspaceMove | null> {
  const [move] = await typed(sql, workspaceMoveRow)`
    select workspace_id as "workspaceId", id, state, cell, handle, copied,
      date_part('epoch', clock_timestamp() - gone_at) as "goneSeconds"
    from workspace_move where workspace_id = ${workspaceId}`;
  return move ?? null;
}

type NewMove = Pick<WorkspaceMove, "workspaceId" | "id" | "cell" | "handle">;

/** From now on this run moves it. False: it is not here, has been let go, or is moving to another cell. */
export async function noteLeaving(sql: Sql, { workspaceId, id, cell, handle }: NewMove): Promise<boolean> {
  const rows = await sql`
    insert into workspace_move as known (workspace_id, id, state, cell, handle)
    select id, ${id}, 'leaving', ${cell}, handle from workspace where id = ${workspaceId}
      and handle = ${handle}
    on conflict (workspace_id) do update set id = excluded.id
      where known.state = 'leaving' and known.cell = excluded.cell returning 1`;
  return rows.length > 0;
}

/** From now on no other run works on it. */
export async function takeOver(sql: Sql, move: WorkspaceMove, id: string): Promise<WorkspaceMove> {
  const { workspaceId, state } = move;
  await sql.begin(async (tx) => {
    await expectOurs(tx, move, state);
    await tx`update workspace_move set id = ${id} where workspace_id = ${workspaceId}`;
  });
  return { ...move, id };
}

/**
 * A workspace that is suspended, and that nobody finds by its handle. Nobody lets it go meanwhile: it may be
 * here already, by another run, and would be taken away.
 */
export async function noteArriving(target: Sql, move: NewMove, source: Sql): Promise<void> {
  const { workspaceId, id, cell, handle } = move;
  await source.begin(async (held) => {
    await expectOurs(held, { workspaceId, id }, "leaving");
    const [row] = await typed(held, {
      row: text,
    })`select w::text as row from workspace w where id = ${workspaceId}`;
    await target.begin(async (tx) => {
      await asReplica(tx);
      await tx`
        insert into workspace_move (workspace_id, id, state, cell, handle)
        values (${workspaceId}, ${id}, 'arriving', ${cell}, ${handle})
        on conflict (workspace_id) do update set id = excluded.id`;
      await tx`delete from workspace where id = ${workspaceId}`;
      await insertWorkspaceRow(tx, row?.row ?? "", {
        handle: `arriving ${workspaceId}`,
        suspendedFor: `arriving from ${cell}`,
      });
    });
  });
}

/** Events of a workspace that is told of them are written by triggers, which are off where nobody is. */
export async function beginToTell(sql: Sql, workspaceId: string): Promise<void> {
  const [telling] = await sql`select from workspace where id = ${workspaceId} and tells`;
  if (telling) await sql`update workspace set logs_events = logs_events where false`;
}

/** `away`: nobody finds it here, and nothing works on it; null: as the row has it. */
async function insertWorkspaceRow(
  tx: Tx,
  row: string,
  away: { handle: string; suspendedFor: string } | null,
): Promise<void> {
  const names = await columnsOf(tx, "workspace");
  const values = names.map((name) => {
    if (away && name === "handle") return "q.handle";
    if (away && name === "suspended_at") return "now()";
    if (away && name === "suspended_for") return "q.suspended_for";
    return `(q.r).${name}`;
  });
  await tx`
    insert into workspace (${tx.unsafe(names.join(", "))}) select ${tx.unsafe(values.join(", "))}
    from (select ${row}::text::workspace as r, ${away?.handle ?? null}::text as handle,
      ${away?.suspendedFor ?? null}::text as suspended_for offset 0) q`;
}

/** Copying begins anew: something may have been written unseen. */
export async function forgetCopied(sql: Sql, { workspaceId, id }: MovingRun): Promise<void> {
  await sql`update workspace_move set copied = null where workspace_id = ${workspaceId} and id = ${id}`;
}

/** The days of mail that the other record has. */
export async function makeSamePartitions(source: Sql, target: Sql): Promise<void> {
  const known = new Set((await listPartitions(target)).map(({ name }) => name));
  for (const { name, table, day, state } of await listPartitions(source))
    if (state === "attached" && !known.has(name)) await makePartition(target, table, dayNumber(day));
}

/** Somebody else has taken the move over. */
export class Succeeded extends Error {}

/** One run of the command. */
export type MovingRun = Pick<WorkspaceMove, "workspaceId" | "id">;

async function expectOurs(tx: Tx, { workspaceId, id }: MovingRun, state: MoveState): Promise<void> {
  const found = await tx`
    select from workspace_move where workspace_id = ${workspaceId} and id = ${id}
      and state = ${state} for update`;
  if (found.length === 0) throw succeeded();
}

/** Until the transaction ends nobody takes the move over. Writers who meet the fence do not wait for it. */
export async function expectOursStill(tx: Tx, { workspaceId, id }: MovingRun): Promise<void> {
  const found = await tx`
    select from workspace_move where workspace_id = ${workspaceId} and id = ${id} for share`;
  if (found.length === 0) throw succeeded();
}

function succeeded(): Succeeded {
  return new Succeeded(
    "Another command is moving this workspace, or has undone the move. Run this one again to go on.",
  );
}

/** One step of copying; says whether there is more. */
export async function copyStep(
  source: Sql,
  target: Sql,
  tables: readonly MovedTable[],
  { workspaceId, id, copied }: MovingRun & Pick<WorkspaceMove, "copied">,
): Promise<Copied> {
  if (copied && "isWhole" in copied) return copied;
  const early = tables.filter(({ mode }) => mode === "early");
  const at = copied ? early.findIndex(({ name }) => name === copied.table) : 0;
  const table = early[at] as MovedTable;
  const rows = await source.begin(async (tx) => {
    await asReplica(tx);
    return rowsAfter(tx, table, workspaceId, copied?.key ?? null);
  });
  const last = rows.at(-1);
  const following = early[at + 1];
  const now: Copied = last
    ? { table: table.name, key: last.key }
    : following
      ? { table: following.name, key: null }
      : { isWhole: true };
  await target.begin(async (tx) => {
    await asReplica(tx);
    await expectOurs(tx, { workspaceId, id }, "arriving");
    await replaceRows(tx, table, keysOf(rows), rows);
    await tx`update workspace_move set copied = ${tx.json(now)} where workspace_id = ${workspaceId}`;
  });
  return now;
}

function keysOf(rows: readonly { key: string }[]): string[] {
  return rows.map(({ key }) => key);
}

type Changes = { numbers: string[]; keys: Map<string, string[]> };

/** Copies again what was written since; says how many changes there were. */
export async function catchUp(
  source: Sql,
  target: Sql,
  tables: readonly MovedTable[],
  { workspaceId, id }: MovingRun,
): Promise<number> {
  const { numbers, found } = await source.begin(async (tx) => {
    await asReplica(tx);
    const changes = await changesOf(tx, workspaceId, CHANGES_MAX);
    return { numbers: changes.numbers, found: await rowsOfChanges(tx, tables, changes) };
  });
  if (numbers.length === 0) return 0;
  await target.begin(async (tx) => {
    await asReplica(tx);
    await expectOurs(tx, { workspaceId, id }, "arriving");
    for (const { table, keys, rows } of found) await replaceRows(tx, table, keys, rows);
  });
  await source`
    delete from workspace_change where workspace_id = ${workspaceId} and number = any(${numbers}::bigint[])`;
  return numbers.length;
}

async function changesOf(tx: Tx, workspaceId: string, most: number): Promise<Changes> {
  const rows = await typed(tx, { number: text, table: text, key: text })`
    select number::text, table_name as table, key::text from workspace_change
    where workspace_id = ${workspaceId} order by number limit ${most}`;
  const keys = new Map<string, Set<string>>();
  for (const { table, key } of rows) keys.set(table, (keys.get(table) ?? new Set()).add(key));
  return {
    numbers: rows.map(({ number }) => number),
    keys: new Map([...keys].map(([table, some]) => [table, [...some]])),
  };
}

async function rowsOfChanges(tx: Tx, tables: readonly MovedTable[], { keys }: Changes) {
  const found: { table: MovedTable; keys: string[]; rows: { key: string; row: string }[] }[] = [];
  for (const table of tables) {
    const some = keys.get(table.name);
    if (some) found.push({ table, keys: some, rows: await rowsAt(tx, table, some) });
  }
  return found;
}

/** No bag is claimed from now on, for some seconds; says how many are with workers. */
export async function drain(sql: Sql, workspaceId: string): Promise<number> {
  await sql`
    update workspace_move set drains_until = clock_timestamp() + ${DRAIN_LAPSES_MS} * interval '1 ms'
    where workspace_id = ${workspaceId}`;
  return held(sql, workspaceId);
}

export async function endDrain(sql: Sql, workspaceId: string): Promise<void> {
  await sql`update workspace_move set drains_until = null, paused_until = null where workspace_id = ${workspaceId}`;
}

async function held(sql: Sql | Tx, workspaceId: string): Promise<number> {
  const [row] = await typed(sql, { count: integer })`
    select count(*)::int from bag where workspace_id = ${workspaceId} and token is not null`;
  return row?.count ?? 0;
}

/** What keeps it where it is; null: nothing. */
export async function obstacle(sql: Sql | Tx, workspaceId: string): Promise<string | null> {
  const [row] = await typed(sql, { erasures: boolean, audiences: boolean, imports: boolean })`
    select exists (select from erasure where workspace_id = ${workspaceId}) as erasures,
      exists (select from audience where workspace_id = ${workspaceId}
        and deleted_at is not null) as audiences,
      exists (select from contact_import where workspace_id = ${workspaceId} and completed_at is null
        and seen_at > now() - ${IMPORT_SILENCE_SECONDS} * interval '1 s') as imports`;
  if (row?.erasures) return "some of its contacts are being erased";
  if (row?.audiences) return "one of its audiences is being deleted";
  return row?.imports ? "a file of contacts is being imported" : null;
}

/**
 * The switch. Writers are refused, those under way are waited for, the last changes and the late rows go
 * over, and the row of the move says that the workspace is gone. Throws NotYet, and nothing has changed, when
 * this takes too long: then the pause is over, and so is what was written to the other record, which would
 * else replace later rows by earlier ones. When it succeeds, the pause goes on until `arrive`.
 */
export async function handOver(
  source: Sql,
  target: Sql,
  tables: readonly MovedTable[],
  { workspaceId, id, cell }: MovingRun & Pick<WorkspaceMove, "cell">,
  pauses = new Pauses(),
): Promise<void> {
  const began = performance.now();
  pauses.begin();
  const spent = () => performance.now() - began;
  await source`
    update workspace_move set paused_until = clock_timestamp() + ${PAUSE_LAPSES_MS} * interval '1 ms'
    where workspace_id = ${workspaceId}`;
  let landing: Promise<unknown> = Promise.resolve();
  const leaving = source.begin(async (tx) => {
    await asReplica(tx);
    await tx`
      select set_config('lock_timeout', ${String(LOCK_MS_MAX)}, true),
        set_config('idle_in_transaction_session_timeout', ${String(PAUSE_LAPSES_MS)}, true)`;
    await meetWriters(tx, { workspaceId, id });
    if ((await held(tx, workspaceId)) > 0) throw new NotYet("workers still have some of its mail");
    const why = await obstacle(tx, workspaceId);
    if (why !== null) throw new NotYet(why);
    await numberLastEvents(tx, workspaceId);
    const changes = await changesOf(tx, workspaceId, LAST_CHANGES_MAX + 1);
    if (changes.numbers.length > LAST_CHANGES_MAX) throw new NotYet("its rows change too fast");
    const found = await rowsOfChanges(tx, tables, changes);
    const luggage = await pack(tx, tables, workspaceId);
    landing = land(target, { workspaceId, id }, found, luggage);
    await within(landing, LANDING_MS_MAX).catch((error: unknown) => {
      throw isTooSlow(error)
        ? new NotYet("Postgres of the other cell was too slow", { cause: error })
        : error;
    });
    await leave(tx, tables, workspaceId, cell);
    if (spent() > PAUSE_MS) throw new NotYet("the pause would have been too long");
  });
  try {
    await leaving;
  } catch (error) {
    await endDrain(source, workspaceId).catch(() => {}); // it lapses
    pauses.end();
    await within(
      landing.catch(() => {}),
      LANDING_END_MS_MAX,
    );
    throw error;
  }
}

/** Whoever has written and not yet committed holds the last of these rows; nobody gets them after us. */
async function meetWriters(tx: Tx, { workspaceId, id }: MovingRun): Promise<void> {
  await tx`select from ledger where workspace_id = ${workspaceId} for update`;
  await tx`select from workspace where id = ${workspaceId} for update`;
  await expectOurs(tx, { workspaceId, id }, "leaving");
}

/** As the keeper does it: what is not numbered here would be numbered there, behind what happens then. */
async function numberLastEvents(tx: Tx, workspaceId: string): Promise<void> {
  const sequences = await numberEventsOf(tx, workspaceId, LAST_CHANGES_MAX);
  if (sequences === null) throw new NotYet("its last events are not numbered yet");
  await tx`
    insert into workspace_change (workspace_id, table_name, key)
    select ${workspaceId}, 'outbox', jsonb_build_array(${workspaceId}::text, sequence)
    from unnest(${sequences}::float8[]) as s(sequence)`;
}

async function pack(tx: Tx, tables: readonly MovedTable[], workspaceId: string): Promise<Luggage> {
  const late: Luggage["late"] = [];
  for (const table of tables)
    if (table.mode === "late")
      late.push({ table: table.name, rows: (await allRows(tx, table, workspaceId)).map(({ row }) => row) });
  const [workspace] = await typed(tx, {
    row: text,
  })`select w::text as row from workspace w where id = ${workspaceId}`;
  const people = await typed(tx, movedMemberRow)`
    select a.email, a::text as row, m.role from member m join account a on a.id = m.account_id
    where m.workspace_id = ${workspaceId}`;
  const reports = await typed(tx, { row: text })`
    select r::text as row from report r
    where due_at is not null and (workspace_id = ${workspaceId}
      or handle = (select handle from workspace where id = ${workspaceId}))
    limit ${REPORTS_MAX + 1}`;
  if (reports.length > REPORTS_MAX)
    throw new NotYet(`over ${REPORTS_MAX} reports about its mail are not processed yet`);
  return {
    workspace: workspace?.row ?? "",
    late,
    people: [...people],
    reports: reports.map(({ row }) => row),
  };
}

const STATEMENT_TIMEOUT = "57014";

function isTooSlow(error: unknown): boolean {
  return error instanceof Deadline || codeOf(error) === STATEMENT_TIMEOUT;
}

async function land(
  target: Sql,
  { workspaceId, id }: MovingRun,
  found: Awaited<ReturnType<typeof rowsOfChanges>>,
  luggage: Luggage,
): Promise<void> {
  await target.begin(async (tx) => {
    await asReplica(tx);
    await tx`select set_config('statement_timeout', ${String(LANDING_MS_MAX)}, true)`;
    await expectOurs(tx, { workspaceId, id }, "arriving");
    for (const { table, keys, rows } of found) await replaceRows(tx, table, keys, rows);
    await tx`
      update workspace_move set copied = ${tx.json({ isWhole: true, luggage })}
        where workspace_id = ${workspaceId}`;
  });
}

/**
 * From its commit on the workspace is not here: its keys and its return paths are unknown, and nothing works
 * on it.
 */
async function leave(
  tx: Tx,
  tables: readonly MovedTable[],
  workspaceId: string,
  cell: string,
): Promise<void> {
  for (const { name, mode } of tables) if (mode === "late") await deleteAll(tx, name, workspaceId);
  await tx`
    delete from report r using workspace w
    where w.id = ${workspaceId} and r.due_at is not null and (r.workspace_id = w.id or r.handle = w.handle)`;
  await tx`delete from workspace_change where workspace_id = ${workspaceId}`;
  await tx`
    update workspace set handle = ${`gone ${workspaceId}`}, suspended_at = coalesce(suspended_at, now()),
      suspended_for = ${`gone to ${cell}`}, version = version + 1, changed_at = now()
    where id = ${workspaceId}`;
  await tx`
    update workspace_move set state = 'gone', gone_at = clock_timestamp(), paused_until = null,
      drains_until = null
    where workspace_id = ${workspaceId}`;
}

/** The other record has let it go: from the commit on it works here. Done twice it changes nothing. */
export async function arrive(target: Sql, workspaceId: string): Promise<void> {
  await target.begin(async (tx) => {
    await asReplica(tx);
    const [move] = await typed(tx, { luggage: orNull(json<Luggage>()) })`
      select copied -> 'luggage' as luggage from workspace_move
      where workspace_id = ${workspaceId} and state = 'arriving' for update`;
    if (!move) return;
    const { luggage } = move;
    if (!luggage) throw new Error(`the workspace ${workspaceId} was let go before all of it was here`);
    for (const { table: name, rows } of luggage.late) {
      await deleteAll(tx, name, workspaceId);
      if (name === "domain") await insertDomains(tx, rows);
      else await insertTexts(tx, name, rows);
    }
    await tx`delete from search_block where workspace_id = ${workspaceId}`;
    await tx`delete from workspace where id = ${workspaceId}`;
    await insertWorkspaceRow(tx, luggage.workspace, null);
    await tx`update workspace set version = version + 1, changed_at = now() where id = ${workspaceId}`;
    await tx`
      update ledger set next_release_at = now() where workspace_id = ${workspaceId}
        and waiting + waiting_bulk > 0`;
    await joinPeople(tx, workspaceId, luggage.people);
    await insertTexts(tx, "report", luggage.reports);
    await tx`delete from workspace_move where workspace_id = ${workspaceId}`;
  });
}

/**
 * Accounts are of the cell: who has one here keeps it as it is, and nobody is an operator because they were
 * one there.
 */
async function joinPeople(tx: Tx, workspaceId: string, people: readonly MovedMember[]): Promise<void> {
  for (const { email, row, role } of people)
    await tx`
      with made as (
        insert into account (id, email, password_hash, created_at, totp_secret, totp_step)
        select (q.r).id, (q.r).email, (q.r).password_hash, (q.r).created_at, (q.r).totp_secret,
          (q.r).totp_step
        from (select ${row}::text::account as r offset 0) q on conflict (email) do nothing returning id
      )
      insert into member (workspace_id, account_id, role)
      select ${workspaceId}, id, ${role} from (select id from made union all select id from account
        where email = ${email}) a
      on conflict do nothing`;
}

/** Of the domains that it has verified there, one that somebody else has verified here. */
export async function takenDomain(source: Sql, target: Sql, workspaceId: string): Promise<string | null> {
  const own = await typed(source, { domain: text })`
    select domain from domain where workspace_id = ${workspaceId} and verified_at is not null`;
  const [taken] = await typed(target, { domain: text })`
    select domain from domain where domain = any(${own.map(({ domain }) => domain)}::text[])
      and verified_at is not null and workspace_id <> ${workspaceId} limit 1`;
  return taken?.domain ?? null;
}

/** One that somebody has verified here meanwhile is theirs: its TXT record shows who came last. */
async function insertDomains(tx: Tx, rows: readonly string[]): Promise<void> {
  const columns = await columnsOf(tx, "domain");
  const values = columns.map((name) =>
    name === "verified_at"
      ? `case when not exists (select from domain o where o.domain = (q.r).domain and o.verified_at is not null)
           then (q.r).verified_at end`
      : `(q.r).${name}`,
  );
  await tx`
    insert into domain (${tx.unsafe(columns.join(", "))}) select ${tx.unsafe(values.join(", "))}
    from (select one::domain as r
      from jsonb_array_elements_text(${JSON.stringify(rows)}::text::jsonb) as one offset 0) q`;
}

/** Those that may be written. */
async function columnsOf(tx: Tx, table: string): Promise<string[]> {
  const columns = await typed(tx, { name: text })`
    select attname::text as name from pg_attribute
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped and attgenerated = ''
      order by attnum`;
  return columns.map(({ name }) => name);
}

/** Removes rows of a workspace that is not here, a step at a time; says whether there are more. */
export async function removeStep(
  sql: Sql,
  tables: readonly MovedTable[],
  { workspaceId, id, state }: MovingRun & { state: "gone" | "arriving" },
): Promise<boolean> {
  for (const { name } of tables) {
    if (name === "workspace_move") continue;
    const removed = await sql.begin(async (tx) => {
      await asReplica(tx);
      await expectOurs(tx, { workspaceId, id }, state);
      return deleteSome(tx, name, workspaceId);
    });
    if (removed > 0) return true;
  }
  return false;
}

/** The last of it. */
export async function forgetMove(sql: Sql, { workspaceId, id, state }: WorkspaceMove): Promise<void> {
  await sql.begin(async (tx) => {
    await asReplica(tx);
    await expectOurs(tx, { workspaceId, id }, state);
    if (state !== "leaving") await tx`delete from workspace where id = ${workspaceId}`;
    await tx`delete from workspace_change where workspace_id = ${workspaceId}`;
    await tx`delete from workspace_move where workspace_id = ${workspaceId}`;
  });
}
