/**
 * Runs of automations: rows that sleep until their time. A worker claims those that are due in sets, and
 * moves each by one conditional update per step: the number it read must still be the run's.
 *
 * Promises: a run is moved by one worker at a time; one whose worker died is taken up by another, at the same
 * step and with the same recorded time of that step, so that what the step does has the same name again. Runs
 * are locked before entries, both in the order of their keys.
 */
import type { Value } from "../../rules/filters.ts";
import { fencedNow } from "../cells/moving.ts";
import { plainArray, texts } from "../db/arrays.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { boolean, integer, json, oneOf, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";
import { awaitStarting } from "./automations.ts";
import { personRow } from "./events.ts";

const ID_FIRST = "00000000-0000-0000-0000-000000000000";

const claimedRun = {
  workspaceId: text,
  handle: text,
  id: text,
  automationId: text,
  version: integer,
  audienceId: text,
  contactId: text,
  eventId: text,
  position: text,
  seq: integer,
  /** How often it was taken up since somebody last said what became of it. */
  claims: integer,
  steppedAt: timestamp,
  createdAt: timestamp,
};
export type ClaimedRun = RowOf<typeof claimedRun>;

/** One whose workspace is suspended is not taken up but set aside: its step is not begun. */
export type FoundRun = (ClaimedRun & { isHeld: false }) | { isHeld: true };
/** That of a workspace suspended before its first step has no time of a step. */
const foundRun = { ...claimedRun, steppedAt: orNull(timestamp), isHeld: boolean };

/** When the next run is due, in ms since 1970. */
export function nextWake(sql: Sql) {
  return sql`(select extract(epoch from wake_at)::float8 * 1000 from run
    where wake_at is not null and not is_held order by wake_at limit 1)`;
}

const waitingWorkspace = { workspaceId: text, isDue: boolean };

/** Some workspaces with runs under way, by their ids. An index finds each, and when its first is due. */
export async function workspacesWithRuns(
  sql: Sql,
  { after, now, most }: { after: string; now: number; most: number },
): Promise<RowOf<typeof waitingWorkspace>[]> {
  const next = (before: Statement) => sql`
    select workspace_id, wake_at from run
    where wake_at is not null and not is_held and workspace_id > ${before}
    order by workspace_id, wake_at limit 1`;
  return typed(sql, waitingWorkspace)`
    with recursive place as (
      (${next(sql`${after}`)})
      union all
      select n.workspace_id, n.wake_at from place p cross join lateral (${next(sql`p.workspace_id`)}) n
    )
    select workspace_id as "workspaceId", wake_at <= ${new Date(now)} as "isDue" from place limit ${most}`;
}

export type RunClaim = { now: number; leaseMs: number; most: number };

/** Takes up runs that are due, oldest first. */
export function claimRuns(sql: Sql, { now, leaseMs, most }: RunClaim): Promise<FoundRun[]> {
  const ready = sql`
    select workspace_id, id from run where wake_at <= ${new Date(now)} and not is_held
      order by wake_at limit ${most} for update skip locked`;
  return takeUp(sql, ready, now, leaseMs);
}

/** The same, so many of each of these workspaces, however many others wait before them. */
export function claimShares(
  sql: Sql,
  workspaceIds: readonly string[],
  { now, leaseMs, most }: RunClaim,
): Promise<FoundRun[]> {
  const ready = sql`
    select r.workspace_id, r.id from unnest(${[...workspaceIds]}::uuid[]) as w(id)
    cross join lateral (
      select workspace_id, id from run
      where wake_at is not null and not is_held
        and (workspace_id, wake_at) >= (w.id, '-infinity'::timestamptz)
        and (workspace_id, wake_at) <= (w.id, ${new Date(now)}::timestamptz)
      order by workspace_id, wake_at limit ${most} for update skip locked
    ) r`;
  return sql.begin(async (tx) => {
    // the index in this order alone: others look as cheap, and lead through all runs of a workspace
    for (const other of ["sort", "incremental_sort", "hashjoin", "mergejoin", "seqscan"])
      await tx`select set_config(${`enable_${other}`}, 'off', true)`;
    return takeUp(tx, ready, now, leaseMs);
  });
}

async function takeUp(sql: Sql | Tx, ready: Statement, now: number, leaseMs: number): Promise<FoundRun[]> {
  const at = new Date(now);
  const rows = await typed(sql, foundRun)`
    with ready as (${ready})
    update run r set seq = r.seq + 1, is_held = w.suspended_at is not null,
      claims = r.claims + case when w.suspended_at is null then 1 else 0 end,
      wake_at = case when w.suspended_at is null then ${new Date(now + leaseMs)} else r.wake_at end,
      stepped_at = case when w.suspended_at is null then coalesce(r.stepped_at, ${at}) else r.stepped_at end
    from ready, workspace w
    where r.workspace_id = ready.workspace_id and r.id = ready.id and w.id = r.workspace_id
    returning r.workspace_id as "workspaceId", w.handle, r.id, r.automation_id as "automationId", r.version,
      r.audience_id as "audienceId", r.contact_id as "contactId", r.event_id as "eventId", r.position, r.seq,
      r.claims,
      r.stepped_at as "steppedAt", r.created_at as "createdAt", r.is_held as "isHeld"`;
  return rows.map(({ isHeld, steppedAt, ...run }) =>
    isHeld || !steppedAt ? { isHeld: true } : { steppedAt, isHeld: false, ...run },
  );
}

/** Not even begun: they are due again, and that they were claimed says nothing about them. */
export async function releaseRuns(sql: Sql, runs: readonly ClaimedRun[], now: number): Promise<void> {
  await sql`
    with held as materialized (
      select r.workspace_id, r.id from run r
      join unnest(${runs.map((run) => run.workspaceId)}::uuid[], ${runs.map((run) => run.id)}::uuid[],
                  ${runs.map((run) => run.seq)}::int[]) as h(workspace_id, id, seq)
        on r.workspace_id = h.workspace_id and r.id = h.id and r.seq = h.seq
      order by r.workspace_id, r.id for update of r
    )
    update run r set seq = r.seq + 1, wake_at = ${new Date(now)}, claims = greatest(r.claims - 1, 0)
    from held where r.workspace_id = held.workspace_id and r.id = held.id`;
}

export type StepNote = { kind: string; result: string; detail: string | null };

/** Where a run goes on; a note says what its step did. */
export type RunMove = {
  run: ClaimedRun;
  note: StepNote | null;
  at: number;
  /** `on`: at once, by the same worker; `sleep`: at a time; `retry`: the same step, at a time. */
  to:
    | { kind: "on"; position: string }
    | { kind: "sleep"; position: string; wakeAt: number }
    | { kind: "retry"; wakeAt: number }
    | { kind: "end"; state: "finished" | "stopped"; reason: string | null };
};

/**
 * Moves the runs that nobody else has moved meanwhile; hands back the ids of these. One that goes on at once
 * keeps its lease as it is: no index holds anything else of it, so that its steps stay heap-only updates.
 */
export async function moveRuns(sql: Sql, moves: readonly RunMove[]): Promise<Set<string>> {
  const rows = moves.map(rowOf);
  const of = (pick: (row: MoveRow) => string | number | boolean | null): string => plainArray(rows.map(pick));
  const textsOf = (pick: (row: MoveRow) => string | null) => texts(sql, rows.map(pick));
  const moved = await typed(sql, { id: text })`
    with given as (
      select * from unnest(${of((m) => m.workspaceId)}::uuid[], ${of((m) => m.id)}::uuid[],
        ${of((m) => m.seq)}::int[],
        ${of((m) => m.at)}::timestamptz[], ${textsOf((m) => m.position)}, ${textsOf((m) => m.next)},
        ${of((m) => m.isOn)}::bool[], ${of((m) => m.wakeAt)}::timestamptz[],
        ${of((m) => m.steppedAt)}::timestamptz[],
        ${of((m) => m.state)}::text[], ${textsOf((m) => m.reason)}, ${of((m) => m.kind)}::text[],
        ${textsOf((m) => m.result)}, ${textsOf((m) => m.detail)}, ${of((m) => m.beganAt)}::timestamptz[])
        as g(workspace_id, id, seq, at, position, next, is_on, wake_at, stepped_at, state, reason, kind,
          result, detail, began_at)
    ), held as (
      select r.workspace_id, r.id from run r join given g on r.workspace_id = g.workspace_id and r.id = g.id
        and r.seq = g.seq
      order by r.workspace_id, r.id for update of r
    ), moved as (
      update run r set seq = r.seq + 1, position = g.next, stepped_at = g.stepped_at,
        wake_at = case when g.is_on then r.wake_at else g.wake_at end, claims = 0, state = g.state,
        reason = g.reason,
        ended_at = case when g.state <> 'active' then g.at end
      from given g, held
      where r.workspace_id = held.workspace_id and r.id = held.id and g.workspace_id = held.workspace_id
        and g.id = held.id
      returning r.workspace_id, r.id, r.automation_id, r.contact_id, r.state
    ), noted as (
      insert into run_step (workspace_id, run_id, seq, position, kind, result, detail, began_at, ended_at)
      select g.workspace_id, g.id, g.seq, g.position, g.kind, g.result, g.detail, g.began_at, g.at
      from given g join moved m on m.workspace_id = g.workspace_id and m.id = g.id where g.kind is not null
    ), ${closing(sql)}
    select id from moved`;
  return new Set(moved.map(({ id }) => id));
}

const STOPPED_MAX = 2_000;
const FORGOTTEN_MAX = 10_000;
/** To stop a run costs as much as to delete so many events. */
const RUN_EVENTS = 5;

/**
 * Ends runs that are under way: one alone, or all of one automation, some at a time so that no lock is held
 * for long. Of an automation that was paused before, none is left: also those of events are among them that
 * were being committed then.
 */
export async function stopRuns(
  sql: Sql,
  workspaceId: string,
  which: { automationId: string; runId?: string },
  reason: string,
  now: Date,
): Promise<number> {
  if (which.runId !== undefined) {
    const those = sql`r.workspace_id = ${workspaceId} and r.automation_id = ${which.automationId}
      and r.id = ${which.runId}`;
    return (await stopThose(sql, those, STOPPED_MAX, reason, now)).length;
  }
  await awaitStarting(sql, workspaceId);
  let stopped = 0;
  for (let after = ID_FIRST; ; ) {
    const some = await typed(sql, { id: text })`
      select id from run
      where workspace_id = ${workspaceId} and automation_id = ${which.automationId} and id > ${after}
        and wake_at is not null
      order by id limit ${STOPPED_MAX}`;
    const ids = some.map(({ id }) => id);
    stopped += await stopSome(sql, workspaceId, ids, reason, now);
    if (ids.length < STOPPED_MAX) return stopped;
    after = ids.at(-1) as string;
  }
}

/** Who entered an automation that was deleted, some at a time; its runs have been stopped. */
export async function dropEntries(sql: Sql, workspaceId: string, automationId: string): Promise<void> {
  for (;;) {
    const dropped = await sql`
      with held as materialized (
        select workspace_id, automation_id, contact_id from entry
        where workspace_id = ${workspaceId} and automation_id = ${automationId}
        order by workspace_id, automation_id, contact_id limit ${FORGOTTEN_MAX} for update
      )
      delete from entry e using held
      where e.workspace_id = held.workspace_id and e.automation_id = held.automation_id
        and e.contact_id = held.contact_id`;
    if (dropped.count < FORGOTTEN_MAX) return;
  }
}

async function stopSome(
  sql: Sql,
  workspaceId: string,
  ids: readonly string[],
  reason: string,
  now: Date,
): Promise<number> {
  const those = sql`r.workspace_id = ${workspaceId} and r.id = any(${[...ids]}::uuid[])`;
  return (await stopThose(sql, those, STOPPED_MAX, reason, now)).length;
}

/**
 * Nothing of what erased contacts did stays: their runs end, their events and entries go. One transaction
 * deletes at most so many events; `isRemembered` says of whom something is left, and the erasure of their
 * mail goes on with that.
 */
export function forgetContacts(
  tx: Sql | Tx,
  contacts: readonly { workspaceId: string; id: string }[],
  now: Date,
  most = FORGOTTEN_MAX,
): Statement[] {
  const gone = () => tx`
    unnest(${contacts.map((c) => c.workspaceId)}::uuid[],
      ${contacts.map((c) => c.id)}::uuid[]) as g(workspace_id, contact_id)`;
  const those = tx`(r.workspace_id, r.contact_id) in (select * from ${gone()})`;
  return [
    stopThose(tx, those, Math.ceil(most / RUN_EVENTS), "contact erased", now),
    tx`
      with held as (
        select e.workspace_id, e.automation_id, e.contact_id
        from ${gone()} join automation a on a.workspace_id = g.workspace_id
        join entry e on e.workspace_id = a.workspace_id and e.automation_id = a.id
          and e.contact_id = g.contact_id
        limit ${most} for update of e skip locked
      )
      delete from entry e using held
      where e.workspace_id = held.workspace_id and e.automation_id = held.automation_id
        and e.contact_id = held.contact_id`,
    tx`
      with held as (
        select e.workspace_id, e.contact_id, e.id from ${gone()}
        join event e on e.workspace_id = g.workspace_id and e.contact_id = g.contact_id
        limit ${most} for update of e skip locked
      )
      delete from event e using held
      where e.workspace_id = held.workspace_id and e.contact_id = held.contact_id and e.id = held.id`,
  ];
}

/** Whether anything is left of what contact `c` did. */
export function isRemembered(sql: Sql | Tx) {
  return sql`(
    exists (select from event e where e.workspace_id = c.workspace_id and e.contact_id = c.id)
    or exists (select from run r where r.workspace_id = c.workspace_id and r.contact_id = c.id
      and r.wake_at is not null)
    or exists (
      select from automation a
      join entry e on e.workspace_id = a.workspace_id and e.automation_id = a.id and e.contact_id = c.id
      where a.workspace_id = c.workspace_id))`;
}

function stopThose(sql: Sql | Tx, those: Statement, most: number, reason: string, now: Date): Statement {
  return sql`
    with found as materialized (
      select r.workspace_id, r.id from run r where r.wake_at is not null and ${those} limit ${most}
    ), held as (
      select r.workspace_id, r.id from run r join found f on r.workspace_id = f.workspace_id and r.id = f.id
      where r.wake_at is not null order by r.workspace_id, r.id for update of r
    ), moved as (
      update run r set seq = r.seq + 1, wake_at = null, state = 'stopped', reason = ${reason},
        ended_at = ${now}
      from held where r.workspace_id = held.workspace_id and r.id = held.id
      returning r.workspace_id, r.id, r.automation_id, r.contact_id, r.state
    ), ${closing(sql)}
    select id from moved`;
}

/** A run that has ended leaves its place to the next, under an entry policy that waits for that. */
function closing(sql: Sql | Tx) {
  return sql`ended as (
      select e.workspace_id, e.automation_id, e.contact_id from entry e
      join moved m on e.workspace_id = m.workspace_id and e.automation_id = m.automation_id
        and e.contact_id = m.contact_id
        and e.run_id = m.id
      where m.state <> 'active' order by 1, 2, 3 for update of e
    ), closed as (
      update entry e set is_open = false from ended
      where e.workspace_id = ended.workspace_id and e.automation_id = ended.automation_id
        and e.contact_id = ended.contact_id
    )`;
}

type MoveRow = {
  workspaceId: string;
  id: string;
  seq: number;
  at: string;
  position: string;
  next: string;
  isOn: boolean;
  wakeAt: string | null;
  steppedAt: string | null;
  state: string;
  reason: string | null;
  kind: string | null;
  result: string | null;
  detail: string | null;
  beganAt: string;
};

function rowOf({ run, note, at, to }: RunMove): MoveRow {
  const { workspaceId, id, seq, position, steppedAt } = run;
  const isOn = to.kind === "on";
  const wakeAt = "wakeAt" in to ? to.wakeAt : null;
  const stepped = isOn ? new Date(at) : to.kind === "retry" ? steppedAt : null;
  return {
    workspaceId,
    id,
    seq,
    at: new Date(at).toISOString(),
    position,
    next: "position" in to ? to.position : position,
    isOn,
    wakeAt: wakeAt === null ? null : new Date(wakeAt).toISOString(),
    steppedAt: stepped?.toISOString() ?? null,
    state: to.kind === "end" ? to.state : "active",
    reason: to.kind === "end" ? to.reason : null,
    kind: note?.kind ?? null,
    result: note?.result ?? null,
    detail: note?.detail ?? null,
    beganAt: steppedAt.toISOString(),
  };
}

const eventOfRunRow = {
  workspaceId: text,
  id: text,
  name: text,
  properties: orNull(json<{ [key: string]: Value }>()),
};
export type EventOfRun = RowOf<typeof eventOfRunRow>;

export async function readEvents(sql: Sql, runs: readonly ClaimedRun[]): Promise<EventOfRun[]> {
  return typed(sql, eventOfRunRow)`
    select e.workspace_id as "workspaceId", e.id, e.name, e.properties from event e
    join unnest(${runs.map((r) => r.workspaceId)}::uuid[], ${runs.map((r) => r.contactId)}::uuid[],
                ${runs.map((r) => r.eventId)}::text[]) as r(workspace_id, contact_id, id)
      using (workspace_id, contact_id, id)`;
}

const contactOfRunRow = { ...personRow, workspaceId: text, isArchived: boolean };
export type ContactOfRun = RowOf<typeof contactOfRunRow>;

/** The contacts as they are now, archived ones too; erased ones are missing. */
export async function readContacts(
  sql: Sql,
  wanted: readonly { workspaceId: string; contactId: string }[],
): Promise<ContactOfRun[]> {
  return typed(sql, contactOfRunRow)`
    select c.workspace_id as "workspaceId", c.id, c.email, c.first_name, c.last_name, c.status, c.tags,
      c.properties,
           c.archived_at is not null as "isArchived"
    from contact c
    join unnest(${wanted.map((r) => r.workspaceId)}::uuid[],
      ${wanted.map((r) => r.contactId)}::uuid[]) as r(workspace_id, id)
      using (workspace_id, id)
    join audience a on a.workspace_id = c.workspace_id and a.id = c.audience_id and a.deleted_at is null`;
}

const runRow = {
  id: text,
  automationId: text,
  version: integer,
  contactId: text,
  /** null: the contact is gone. */
  contactEmail: orNull(text),
  eventId: text,
  state: oneOf("active", "finished", "stopped"),
  reason: orNull(text),
  position: text,
  wakeAt: orNull(timestamp),
  createdAt: timestamp,
  endedAt: orNull(timestamp),
};
export type RunRow = RowOf<typeof runRow>;

/** Of one automation, newest first: a page and one more row; of all states, of one or of several. */
export async function listRuns(
  sql: Sql,
  workspaceId: string,
  automationId: string,
  {
    after,
    before = null,
    limit,
    state,
  }: Pick<Page, "after" | "limit"> & { before?: string | null; state: string | readonly string[] | null },
): Promise<RunRow[]> {
  const states = typeof state === "string" ? [state] : state;
  return typed(sql, runRow)`
    select ${runColumns(sql)} from run r
    where r.workspace_id = ${workspaceId} and r.automation_id = ${automationId}
      ${after === null ? sql`` : sql`and r.id < ${after}`} ${before === null ? sql`` : sql`and r.id > ${before}`}
      ${states === null ? sql`` : sql`and r.state = any(${[...states]}::text[])`}
    order by r.id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

const stepRow = {
  position: text,
  kind: text,
  result: text,
  detail: orNull(text),
  beganAt: timestamp,
  endedAt: timestamp,
};
export type StepRow = RowOf<typeof stepRow>;

/** A run with what each of its steps did, in order. */
export async function findRun(
  sql: Sql,
  workspaceId: string,
  id: string,
): Promise<(RunRow & { steps: StepRow[] }) | null> {
  const [row] = await typed(sql, runRow)`
    select ${runColumns(sql)} from run r where r.workspace_id = ${workspaceId} and r.id = ${id}`;
  if (!row) return null;
  const steps = await typed(sql, stepRow)`
    select position, kind, result, detail, began_at as "beganAt", ended_at as "endedAt" from run_step
    where workspace_id = ${workspaceId} and run_id = ${id} order by seq`;
  return { ...row, steps };
}

/** How many runs of an automation are in each state. */
export async function countRuns(
  sql: Sql,
  workspaceId: string,
  automationId: string,
): Promise<Record<RunRow["state"], number>> {
  const rows = await typed(sql, { state: oneOf("active", "finished", "stopped"), n: integer })`
    select state, count(*)::int as n from run
    where workspace_id = ${workspaceId} and automation_id = ${automationId} group by state`;
  return {
    active: 0,
    finished: 0,
    stopped: 0,
    ...Object.fromEntries(rows.map(({ state, n }) => [state, n])),
  };
}

const stepCountRow = {
  position: text,
  kind: text,
  result: text,
  count: integer,
};
export type StepCount = RowOf<typeof stepCountRow>;

/** What the steps of a version's runs did, and how often. */
export async function countSteps(
  sql: Sql,
  workspaceId: string,
  automationId: string,
  version: number,
): Promise<StepCount[]> {
  return typed(sql, stepCountRow)`
    select s.position, s.kind, s.result, count(*)::int from run r
    join run_step s on s.workspace_id = r.workspace_id and s.run_id = r.id
    where r.workspace_id = ${workspaceId} and r.automation_id = ${automationId} and r.version = ${version}
    group by 1, 2, 3 order by 1, 2, 3`;
}

const placeCountRow = {
  position: text,
  done: integer,
  skipped: integer,
  standing: integer,
};
export type PlaceCount = RowOf<typeof placeCountRow>;
const versionRunsRow = {
  version: integer,
  createdAt: timestamp,
  runs: integer,
};
export type VersionRuns = RowOf<typeof versionRunsRow>;

/**
 * Of an automation with many runs only the newest `most` are counted: what each place of a version did, and
 * who stands there.
 */
export async function countPlaces(
  sql: Sql,
  workspaceId: string,
  automationId: string,
  version: number,
  most: number,
): Promise<PlaceCount[]> {
  return typed(sql, placeCountRow)`
    with newest as materialized (${newestRuns(sql, workspaceId, automationId, most)}), counted as (
      select s.position, (s.result <> 'skipped')::int as done, (s.result = 'skipped')::int as skipped,
        0 as standing
      from newest n join run_step s on s.workspace_id = ${workspaceId} and s.run_id = n.id
        where n.version = ${version}
      union all
      select position, 0, 0, 1 from newest where version = ${version} and state = 'active'
    )
    select position, sum(done)::int as done, sum(skipped)::int as skipped, sum(standing)::int as standing
    from counted group by position order by position`;
}

/** The newest first. */
export async function listVersionRuns(
  sql: Sql,
  workspaceId: string,
  automationId: string,
  most: { runs: number; versions: number },
): Promise<VersionRuns[]> {
  return typed(sql, versionRunsRow)`
    with newest as materialized (${newestRuns(sql, workspaceId, automationId, most.runs)})
    select v.version, v.created_at as "createdAt", (select count(*)::int from newest n
      where n.version = v.version) as runs
    from automation_version v where v.workspace_id = ${workspaceId} and v.automation_id = ${automationId}
    order by v.version desc limit ${most.versions}`;
}

function newestRuns(sql: Sql, workspaceId: string, automationId: string, most: number) {
  return sql`select id, version, position, state from run
    where workspace_id = ${workspaceId} and automation_id = ${automationId} order by id desc limit ${most}`;
}

/** Runs that have ended and events that no run needs, older than `before`; says how many rows went. */
export async function dropOldRuns(sql: Sql | Tx, before: Date, most: number): Promise<number> {
  const fenced = await fencedNow(sql);
  const runs = await sql`
    with old as (
      delete from run where (workspace_id, id) in (
        select workspace_id, id from run
        where ended_at < ${before} and workspace_id <> all(${fenced}::uuid[])
        order by ended_at limit ${most} for update skip locked)
      returning workspace_id, id
    ), steps as (
      delete from run_step s using old where s.workspace_id = old.workspace_id and s.run_id = old.id
    )
    select 1 from old`;
  const events = await sql`
    delete from event where (workspace_id, contact_id, id) in (
      select e.workspace_id, e.contact_id, e.id from event e
      where e.created_at < ${before} and e.workspace_id <> all(${fenced}::uuid[]) and not exists (
        select from run r where r.workspace_id = e.workspace_id and r.contact_id = e.contact_id
          and r.event_id = e.id
          and r.wake_at is not null)
      limit ${most} for update of e skip locked) returning 1`;
  return Math.max(runs.length, events.length);
}

function runColumns(sql: Sql) {
  return sql`r.id, r.automation_id as "automationId", r.version, r.contact_id as "contactId", r.event_id as "eventId",
    (select email from contact c where c.workspace_id = r.workspace_id
      and c.id = r.contact_id) as "contactEmail",
    r.state, r.reason, r.position, r.wake_at as "wakeAt", r.created_at as "createdAt",
    r.ended_at as "endedAt"`;
}

/**
 * How many runs are overdue, up to a bound, and since when the first of them is: what tells that workers lag.
 */
export async function overdueRuns(
  sql: Sql,
  now: Date,
  most: number,
): Promise<{ count: number; since: Date | null }> {
  const [row] = await typed(sql, { count: integer, since: orNull(timestamp) })`
    select count(*)::int, min(wake_at) as since
    from (select wake_at from run where wake_at <= ${now} and not is_held
      order by wake_at limit ${most}) as due`;
  return row ?? { count: 0, since: null };
}
