/**
 * Settling: what became of e-mails, written in groups.
 *
 * Promises: only the holder of the bag that an e-mail travels in may defer or end it: the e-mail's row names
 * the bag, the bag's row the holder's token. A delivery is noted however late it is, since the receiver has
 * the mail; only a bounce or complaint that comes afterwards changes it. Of a mail to several that holds for
 * each of them, also where the whole has not ended so. What is written twice changes nothing the second time,
 * and counts follow the rows that changed, so a group whose commit got lost is simply written again.
 *
 * A recipient who was erased while the mail was on its way (marked x by then) is not brought back: they are
 * not tried again, their address does not enter the history, and with the last open recipient the contents
 * go.
 */

import { DAY_MS } from "../../clock.ts";
import { type Ending, endingOf, type HistoryEntry, OPEN_MARK } from "../../rules/email.ts";
import { columns, plainArray } from "../db/arrays.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { arrayOf, integer, json, onlyRow, orNull, type RowOf, text, typed } from "../db/rowshape.ts";
import { deleteBags, type HeldBag, lockBags, releaseBags } from "./bagleases.ts";
import { changeLifetimes, type LifetimeChange, stoppedAtOnce } from "./lifetime.ts";
import {
  addPartTallies,
  type MailPart,
  type PartCounts,
  PartTallies,
  type PartTally,
} from "./parttallies.ts";
import { forgetBlocks } from "./searchblocks.ts";
import { addSources, type CountedSource } from "./sources.ts";
import { endingSql } from "./status.ts";
import {
  insertSoftBounces,
  insertSuppressions,
  type NewSuppression,
  type SoftSeries,
} from "./suppressions.ts";

export type Settled = {
  bag: HeldBag;
  emailId: string;
  status: Ending | "deferred";
  /** One letter per recipient. */
  marks: string;
  /** When this attempt began, in ms; null when nothing was tried. */
  attemptedAt: number | null;
  at: number;
  events: HistoryEntry[];
  /** Whom each event is about: the place of their mark. */
  places: number[];
  /** When it is tried again, in ms: deferred mail only. */
  nextAt: number | null;
  /** How the time for which it has been tried goes on; null: as before. */
  lifetime?: LifetimeChange | null;
  domain: string | null;
  reply: string | null;
  /** The suspended destination that it waits for. */
  heldBy?: string | null;
  counts: Partial<TallyCounts>;
  /** Of these, what counts for a stream, a provider and a source address too. */
  parts?: readonly CountedPart[];
  /** The domain of each recipient that is counted as `fblDelivered`. */
  feedbackFrom?: readonly string[];
  /** Who is not there: they are suppressed with the same commit. */
  hardBounces?: readonly Bounced[];
  /** Who may be there: a series of these suppresses as well. */
  softBounces?: readonly Bounced[];
};

export type Bounced = Pick<NewSuppression, "id" | "hash" | "identity" | "email" | "evidence">;

export type CountedPart = MailPart & { counts: Partial<PartCounts> };

export type TallyCounts = {
  attempted: number;
  delivered: number;
  deferred: number;
  hardBounced: number;
  softBounced: number;
  blocked: number;
  failed: number;
  /** At the first attempt deferred for the sender's reputation or rate. */
  throttled: number;
  /** Delivered where complaints are reported. */
  fblDelivered: number;
};
type Tally = TallyCounts & { workspaceId: string; day: number };

/**
 * A bag whose e-mails have all been noted. `isDoubtful`: a note was refused, so there may still be something
 * open in it.
 */
export type Finished = { bag: HeldBag; isDoubtful: boolean };

/**
 * Writes what became of e-mails, ends the bags that are done, and adds to the day's counts, in one
 * transaction. Hands back what was refused: the record knew better, or the bag has another holder.
 */
export async function settle(
  sql: Sql,
  worker: string,
  settled: readonly Settled[],
  finished: readonly Finished[],
  series: SoftSeries | null = null,
): Promise<Settled[]> {
  const inOrder = [...settled].sort(byKey);
  const refused = await settleHeld(sql, worker, inOrder, finished, series);
  // in a transaction of their own: the first one's e-mails are locked in order, and these would come after
  // them
  const inPart = refused.filter(({ status, marks }) => status !== "delivered" && marks.includes("d"));
  if (inPart.length > 0) await settleDeliveries(sql, worker, inPart);
  return refused;
}

async function settleHeld(
  sql: Sql,
  worker: string,
  inOrder: readonly Settled[],
  finished: readonly Finished[],
  series: SoftSeries | null,
): Promise<Settled[]> {
  return sql.begin(async (tx) => {
    const { changed, unfinished, triedBefore } = await updateEmails(tx, inOrder);
    const [noted, refused] =
      changed === null ? [inOrder, []] : parted(inOrder, ({ emailId }) => changed.has(emailId));
    const again = new Set(triedBefore);
    const kept = again.size === 0 ? noted : noted.map((one) => (again.has(one.emailId) ? asRetry(one) : one));
    const marksOf = new Map(unfinished.map(({ id, marks }) => [id, marks]));
    const redacted = unfinished.filter(({ marks }) => marks.includes("x"));
    if (redacted.length > 0) await endRedacted(tx, redacted);
    const waiting = kept.filter(
      ({ emailId, nextAt }) => nextAt !== null && marksOf.get(emailId)?.includes("o"),
    );
    const { gone, wavering } = await bouncedOf(tx, kept);
    // sent in this order, without waiting in between
    const writes: Statement[] = [];
    if (waiting.length > 0) writes.push(insertDeferred(tx, waiting).execute());
    const changedLives = waiting.flatMap(({ bag, emailId, lifetime }) =>
      lifetime ? { workspaceId: bag.workspaceId, emailId, change: lifetime } : [],
    );
    if (changedLives.length > 0) writes.push(changeLifetimes(tx, changedLives).execute());
    const doubted = new Set(refused.map(({ bag }) => bag));
    const [done, doubtful] = parted(finished, ({ bag, isDoubtful }) => !isDoubtful && !doubted.has(bag));
    // who locks bags twice locks all of them first: the second statement would take its bags out of order
    if (done.length > 0 && doubtful.length > 0) writes.push(lockBags(tx, finished.map(bagOf)).execute());
    if (done.length > 0) writes.push(deleteBags(tx, done.map(bagOf)).execute());
    if (doubtful.length > 0) writes.push(releaseBags(tx, doubtful.map(bagOf)).execute());
    const now = new Date(latest(kept));
    if (wavering.length > 0) writes.push(insertSoftBounces(tx, wavering, now).execute());
    const doubtfully = series && wavering.length > 0 ? { series, who: wavering } : null;
    if (gone.length > 0 || doubtfully) writes.push(insertSuppressions(tx, gone, now, doubtfully).execute());
    const tallies = tallyUp(kept);
    if (tallies.length > 0) writes.push(addTallies(tx, worker, tallies).execute());
    const parts = partsOf(kept);
    if (parts.length > 0) writes.push(addPartTallies(tx, worker, parts).execute());
    const sources = sourcesOf(kept);
    if (sources.length > 0) writes.push(addSources(tx, worker, sources).execute());
    await Promise.all(writes);
    return refused;
  });
}

/**
 * What another holder has noted of it makes this attempt no first one: its recipients are counted as tried
 * already.
 */
function asRetry(note: Settled): Settled {
  const { attempted: _, throttled: __, ...counts } = note.counts;
  const parts = (note.parts ?? []).map(({ counts: { attempted: _, ...counts }, ...part }) => ({
    ...part,
    counts,
  }));
  return { ...note, counts, parts };
}

/**
 * Of notes that were refused, what receivers took: whoever holds the bag by now is not to bring it to them
 * again. Each note is in the order of its key.
 */
async function settleDeliveries(sql: Sql, worker: string, refused: readonly Settled[]): Promise<void> {
  await sql.begin(async (tx) => {
    const ids = refused.map(({ emailId }) => emailId);
    const open = await typed(tx, { ...unfinishedRow, attempts: integer })`
      select e.workspace_id as "workspaceId", e.id, coalesce(e.marks, repeat('o', e.weight)) as marks,
        e.attempts
      from email e
      join unnest(${refused.map(({ bag }) => bag.workspaceId)}::uuid[], ${ids}::uuid[]) as k(workspace_id, id)
        on e.workspace_id = k.workspace_id and e.id = k.id
      where e.id = any(${ids}::uuid[]) and e.status in ('accepted', 'waiting', 'deferred')
      order by e.workspace_id, e.id for update of e`;
    const known = new Map(open.map((email) => [email.workspaceId + email.id, email]));
    const late = refused.flatMap((note) => {
      const email = known.get(note.bag.workspaceId + note.emailId);
      return email === undefined ? [] : (lateDelivery(note, email.marks, email.attempts === 0) ?? []);
    });
    if (late.length === 0) return;
    await updateDelivered(tx, late);
    const ended = late.filter(({ ending }) => ending !== null);
    const redacted = ended.filter(({ marks }) => marks.includes("x"));
    if (redacted.length > 0) await endRedacted(tx, redacted);
    if (ended.length > 0) await dropDue(tx, ended);
    await addTallies(tx, worker, tallyUp(late));
  });
}

/** A note of which some has become known; `marks` and `ending` are those of the e-mail then. */
type LateDelivery = Pick<Settled, "bag" | "at" | "events" | "counts"> &
  Unfinished & { ending: Ending | null };

/**
 * null: all of it is known. `isFirst`: no attempt has been noted, so all who were open count as tried by this
 * one.
 */
function lateDelivery(note: Settled, marks: string, isFirst: boolean): LateDelivery | null {
  const isLate = (place: number) => note.marks[place] === "d" && marks[place] === OPEN_MARK;
  const merged = [...marks].map((mark, place) => (isLate(place) ? "d" : mark)).join("");
  if (merged === marks) return null;
  const events = note.events.filter((_, n) => isLate(note.places[n] as number));
  return {
    workspaceId: note.bag.workspaceId,
    id: note.emailId,
    bag: note.bag,
    at: note.at,
    marks: merged,
    ending: endingOf(merged),
    events,
    counts: {
      delivered: events.length,
      ...(isFirst && { attempted: marks.split(OPEN_MARK).length - 1 }),
    },
  };
}

async function updateDelivered(tx: Tx, late: readonly LateDelivery[]): Promise<void> {
  const rows = columns<LateDelivery>(tx, late, {
    workspace_id: ["uuid", ({ workspaceId }) => workspaceId],
    id: ["uuid", ({ id }) => id],
    marks: ["word", ({ marks }) => marks],
    ending: ["word", ({ ending }) => ending],
    at_ms: ["float8", ({ at }) => at],
    events: ["text", ({ events }) => JSON.stringify(events)],
  });
  await tx`
    update email e set
      marks = s.marks, status = coalesce(s.ending, e.status), updated_at = greatest(e.updated_at, s.at),
      attempts = greatest(e.attempts, 1),
      sent_at = coalesce(e.sent_at, s.at), bag_id = case when s.ending is null then e.bag_id end,
      lives_from = case when e.sent_at is null then ${stoppedAtOnce(tx)} else e.lives_from end,
      delivered_at = case when s.ending = 'delivered' then s.at else e.delivered_at end,
      bounced_at = case when s.ending = 'bounced' then s.at else e.bounced_at end,
      failed_at = case when s.ending = 'failed' then s.at else e.failed_at end,
      history = coalesce(e.history, '[]') || s.events::jsonb
    from (select *, to_timestamp(at_ms / 1000) as at from (select ${rows}) r) as s
    where e.workspace_id = s.workspace_id and e.id = s.id
      and e.id = any(${plainArray(late.map(({ id }) => id))}::uuid[])`;
}

async function dropDue(tx: Tx, ended: readonly LateDelivery[]): Promise<void> {
  await tx`
    delete from due d
    using unnest(${ended.map(({ workspaceId }) => workspaceId)}::uuid[], ${ended.map(({ id }) => id)}::uuid[])
      as k(workspace_id, id)
    where d.workspace_id = k.workspace_id and d.email_id = k.id`;
}

/** The order in which everyone locks e-mails. */
function byKey(a: Settled, b: Settled): number {
  if (a.bag.workspaceId !== b.bag.workspaceId) return a.bag.workspaceId < b.bag.workspaceId ? -1 : 1;
  return a.emailId < b.emailId ? -1 : a.emailId > b.emailId ? 1 : 0;
}

function parted<T>(all: readonly T[], isFirst: (one: T) => boolean): [T[], T[]] {
  const [first, second]: [T[], T[]] = [[], []];
  for (const one of all) (isFirst(one) ? first : second).push(one);
  return [first, second];
}

function bagOf({ bag }: Finished): HeldBag {
  return bag;
}

/**
 * `changed`: the ids of the rows that changed, null when all did. `unfinished`: those with an open or a
 * redacted recipient. `triedBefore`: those whose note takes its attempt for the first, and another was noted
 * before it.
 */
type Updated = { changed: ReadonlySet<string> | null; unfinished: Unfinished[]; triedBefore: string[] };

/**
 * One row comes back, not one for each e-mail: reading those would cost more than the rest of settling.
 *
 * Locks e-mails in the order of its plan: a statement that locked them first would double what this one costs
 * (22 us per e-mail). With few partitions the plan finds each note's e-mail in the order of the notes, with
 * many it hashes the notes and walks the e-mails by index, partition by partition. For one workspace both are
 * the order of the ids; a bitmap scan would not be, and is off here (connect.ts).
 */
async function updateEmails(tx: Tx, settled: readonly Settled[]): Promise<Updated> {
  if (settled.length === 0) return { changed: null, unfinished: [], triedBefore: [] };
  const ids = plainArray(settled.map(({ emailId }) => emailId));
  const rows = columns<Settled>(tx, settled, {
    workspace_id: ["uuid", ({ bag }) => bag.workspaceId],
    id: ["uuid", ({ emailId }) => emailId],
    status: ["word", ({ status }) => status],
    marks: ["word", ({ marks }) => marks],
    at_ms: ["float8", ({ at }) => at],
    attempted_ms: ["float8", ({ attemptedAt }) => attemptedAt],
    is_first: ["bool", ({ counts }) => counts.attempted !== undefined],
    places: ["word", ({ places }) => `{${places}}`],
    bag_id: ["uuid", ({ bag }) => bag.id],
    token: ["uuid", ({ bag }) => bag.token],
    events_text: ["text", ({ events }) => JSON.stringify(events)],
  });
  const written = await typed(tx, updatedRow)`
    with done as (update email e set
      status = s.status, marks = case when e.marks like '%x%' then ${marksKeptOut(tx)} else s.marks end,
        updated_at = s.at,
      bag_id = null,
      attempts = e.attempts + case when s.attempted_at is null then 0 else 1 end,
      sent_at = coalesce(e.sent_at, s.attempted_at),
      delivered_at = case when s.status = 'delivered' then s.at else e.delivered_at end,
      delayed_at = case when s.status = 'deferred' then coalesce(e.delayed_at, s.at) else e.delayed_at end,
      bounced_at = case when s.status = 'bounced' then s.at else e.bounced_at end,
      failed_at = case when s.status = 'failed' then s.at else e.failed_at end,
      history = coalesce(e.history, '[]') ||
        case when e.marks like '%x%' then ${eventsKeptOut(tx)} else s.events end
    from (select *, to_timestamp(at_ms / 1000) as at, to_timestamp(attempted_ms / 1000) as attempted_at,
        events_text::jsonb as events from (select ${rows}) r) as s
    where e.workspace_id = s.workspace_id and e.id = s.id and e.id = any(${ids}::uuid[])
      and case
        when s.status = 'delivered' then e.status in ('accepted', 'waiting', 'deferred', 'failed', 'canceled',
          'suppressed')
        else e.bag_id = s.bag_id and e.status in ('accepted', 'deferred') and exists (
          select from bag b where b.workspace_id = s.workspace_id and b.id = s.bag_id and b.token = s.token)
          and (e.marks is null or e.marks not like '%d%' or ${keepsDeliveries(tx)})
        end
    returning e.workspace_id, e.id, e.marks, s.is_first and e.attempts > 1 as was_tried)
    select case when count(*) < ${settled.length} then coalesce(array_agg(id), '{}') end as changed,
           coalesce(json_agg(json_build_object('workspaceId', workspace_id, 'id', id, 'marks', marks))
             filter (where marks ~ '[ox]'), '[]') as unfinished,
           coalesce(array_agg(id) filter (where was_tried), '{}') as "triedBefore"
    from done`;
  const { changed, ...found } = onlyRow(written);
  return { changed: changed && new Set(changed), ...found };
}

/**
 * A delivery that became known meanwhile is not undone: the note is refused, and the others are asked again.
 */
function keepsDeliveries(tx: Tx) {
  return tx`not exists (
    select from unnest(string_to_array(e.marks, null), string_to_array(s.marks, null)) as m(was, became)
    where was = 'd' and became <> 'd')`;
}

type NewlyBounced = { gone: NewSuppression[]; wavering: NewSuppression[] };

/**
 * Nobody is written to again who is not there. Of a mail whose people were erased meanwhile only hashes are
 * kept.
 */
async function bouncedOf(tx: Tx, kept: readonly Settled[]): Promise<NewlyBounced> {
  const bounced = kept.filter(
    ({ hardBounces = [], softBounces = [] }) => hardBounces.length + softBounces.length > 0,
  );
  if (bounced.length === 0) return { gone: [], wavering: [] };
  const ids = bounced.map(({ emailId }) => emailId);
  const rows = await typed(tx, { id: text })`
    select e.id from email e
    where e.workspace_id = any(${[...new Set(bounced.map(({ bag }) => bag.workspaceId))]}::uuid[])
      and e.id = any(${ids}::uuid[]) and ${isErased(tx)}`;
  const erased = new Set(rows.map(({ id }) => id));
  const rowsOf = ({ bag, emailId, at }: Settled, who: readonly Bounced[] = [], isCounted: boolean) =>
    who.map(
      ({ id, hash, identity, email, evidence }): NewSuppression => ({
        workspaceId: bag.workspaceId,
        id,
        hash,
        scope: "",
        reason: "bounce",
        countedDay: isCounted ? Math.floor(at / DAY_MS) : null,
        ...(erased.has(emailId)
          ? { identity: null, email: null, evidence: null, emailId: null }
          : { identity, email, evidence, emailId }),
      }),
    );
  return {
    gone: bounced.flatMap((one) => rowsOf(one, one.hardBounces, true)),
    wavering: bounced.flatMap((one) => rowsOf(one, one.softBounces, false)),
  };
}

function latest(settled: readonly Settled[]): number {
  return settled.reduce((latest, { at }) => Math.max(latest, at), 0);
}

const erasedRecipientRow = {
  workspaceId: text,
  id: text,
};
type ErasedRecipientRow = RowOf<typeof erasedRecipientRow>;
const unfinishedRow = { ...erasedRecipientRow, marks: text };
type Unfinished = RowOf<typeof unfinishedRow>;
const updatedRow = {
  /** Which were; null: all. */
  changed: orNull(arrayOf(text)),
  unfinished: json<Unfinished[]>(),
  triedBefore: arrayOf(text),
};

/** Who was open and is not to be tried again; what came of the others, and of them, stands. */
function marksKeptOut(tx: Tx) {
  return tx`(
    select string_agg(case when was = 'x' and became = 'o' then 'x' else became end, '' order by place)
    from unnest(string_to_array(e.marks, null), string_to_array(s.marks, null)) with ordinality as m(was,
      became, place))`;
}

/**
 * The address goes, and where it was tried: a host may be the person's own. So do all replies, since one
 * about another recipient may repeat the address. An operator's cancellation marks x too, and erases nobody.
 */
function eventsKeptOut(tx: Tx) {
  return tx`(
    select coalesce(jsonb_agg(
      case when not ${isErased(tx)} then event
        when substr(e.marks, (s.places::int[])[n] + 1, 1) = 'x'
          then (event - 'detail') || '{"recipient": "erased@erased.invalid"}' ||
            case when event ? 'attempt' then jsonb_build_object('attempt', ${withoutConnectionSql(tx)})
              else '{}' end
        else event - 'detail' end order by n), '[]')
    from jsonb_array_elements(s.events) with ordinality as v(event, n))`;
}

/** As rules/connection.ts does. */
function withoutConnectionSql(tx: Tx) {
  return tx`substring(event ->> 'attempt' from '^[^ ]* ?[^ ]*')`;
}

function isErased(tx: Tx) {
  return tx`e.head::text like '%@erased.invalid%'`;
}

/** As an erasure ends a mail that is not on its way: when nobody is open any more its contents go. */
async function endRedacted(tx: Tx, redacted: readonly ErasedRecipientRow[]): Promise<void> {
  const ids = redacted.map(({ id }) => id);
  const over = await typed(tx, erasedRecipientRow)`
    update email e set
      status = case
        when e.status <> 'deferred' then e.status
        else ${endingSql(tx, tx`e.marks`)} end,
      delivered_at = case when e.marks like '%d%' then coalesce(e.delivered_at, e.updated_at) end,
      bounced_at = case when e.marks like '%b%' then coalesce(e.bounced_at, e.updated_at) end,
      head = jsonb_set(e.head::jsonb, '{subject}', '""')::json
    where (e.workspace_id, e.id) in (
        select * from unnest(${redacted.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[]))
      and e.id = any(${ids}::uuid[]) and e.marks not like '%o%' and ${isErased(tx)}
    returning e.workspace_id as "workspaceId", e.id`;
  const overIds = over.map(({ id }) => id);
  if (over.length > 0) await forgetBlocks(tx, over);
  await tx`
    update body set html = null, plain = null, extra = null
    where (workspace_id, id) in (
        select * from unnest(${over.map(({ workspaceId }) => workspaceId)}::uuid[], ${overIds}::uuid[]))
      and id = any(${overIds}::uuid[])`;
}

/** The place in the caps stays the one it had: the keeper asks for another when that has lapsed. */
function insertDeferred(tx: Tx, deferred: readonly Settled[]) {
  const of = <T>(pick: (one: Settled) => T): T[] => deferred.map(pick);
  return tx`
    insert into due (workspace_id, email_id, at, why, bulk, stream, weight, bytes, domain, reply, held_by,
      granted_at)
    select d.workspace_id, d.email_id, to_timestamp(d.at_ms / 1000), 'deferred', e.bulk, e.stream,
           length(e.marks) - length(replace(e.marks, 'o', '')), e.bytes, d.domain,
           case when e.marks not like '%x%' then d.reply end, d.held_by, b.granted_at
    from unnest(
      ${of((s) => s.bag.workspaceId)}::uuid[], ${of((s) => s.emailId)}::uuid[],
      ${of((s) => s.nextAt as number)}::float8[], ${of((s) => s.domain)}::text[],
      ${of((s) => s.reply)}::text[],
      ${of((s) => s.heldBy ?? null)}::text[], ${of((s) => s.bag.id)}::uuid[]
    ) as d(workspace_id, email_id, at_ms, domain, reply, held_by, bag_id)
    join email e on e.workspace_id = d.workspace_id and e.id = d.email_id
      and e.id = any(${of((s) => s.emailId)}::uuid[])
    join bag b on b.workspace_id = d.workspace_id and b.id = d.bag_id`;
}

function addTallies(tx: Tx, worker: string, tallies: readonly Tally[]) {
  const of = (pick: (tally: Tally) => number): number[] => tallies.map(pick);
  return tx`
    insert into tally as t (workspace_id, day, worker, attempted, delivered, deferred, hard_bounced,
      soft_bounced, blocked, failed, throttled, fbl_delivered)
    select workspace_id, day, ${worker}, attempted, delivered, deferred, hard_bounced, soft_bounced, blocked,
      failed,
           throttled, fbl_delivered
    from unnest(${tallies.map((tally) => tally.workspaceId)}::uuid[], ${of((t) => t.day)}::int[],
      ${of((t) => t.attempted)}::int[], ${of((t) => t.delivered)}::int[], ${of((t) => t.deferred)}::int[],
      ${of((t) => t.hardBounced)}::int[], ${of((t) => t.softBounced)}::int[], ${of((t) => t.blocked)}::int[],
      ${of((t) => t.failed)}::int[], ${of((t) => t.throttled)}::int[], ${of((t) => t.fblDelivered)}::int[])
      as n(workspace_id, day, attempted, delivered, deferred, hard_bounced, soft_bounced, blocked, failed,
        throttled, fbl_delivered)
    on conflict (workspace_id, day, worker) do update set
      attempted = t.attempted + excluded.attempted, delivered = t.delivered + excluded.delivered,
      deferred = t.deferred + excluded.deferred, hard_bounced = t.hard_bounced + excluded.hard_bounced,
      soft_bounced = t.soft_bounced + excluded.soft_bounced, blocked = t.blocked + excluded.blocked,
      failed = t.failed + excluded.failed, throttled = t.throttled + excluded.throttled,
      fbl_delivered = t.fbl_delivered + excluded.fbl_delivered`;
}

function partsOf(settled: readonly Settled[]): PartTally[] {
  let tallies: PartTallies | null = null;
  for (const { bag, at, parts = [] } of settled)
    for (const { counts, ...part } of parts) {
      tallies ??= new PartTallies();
      tallies.add(bag.workspaceId, Math.floor(at / DAY_MS), part, counts);
    }
  return tallies?.all ?? [];
}

function tallyUp(settled: readonly Pick<Settled, "bag" | "at" | "counts">[]): Tally[] {
  const tallies = new Map<string, Tally>();
  for (const { bag, at, counts } of settled) {
    const day = Math.floor(at / DAY_MS);
    const name = `${bag.workspaceId} ${day}`;
    let tally = tallies.get(name);
    if (!tally) {
      tally = { workspaceId: bag.workspaceId, day, ...NO_COUNTS };
      tallies.set(name, tally);
    }
    for (const count in counts) tally[count as keyof TallyCounts] += counts[count as keyof TallyCounts] ?? 0;
  }
  return [...tallies.values()].sort((a, b) =>
    a.workspaceId === b.workspaceId ? a.day - b.day : a.workspaceId < b.workspaceId ? -1 : 1,
  );
}

function sourcesOf(settled: readonly Settled[]): CountedSource[] {
  const counted: CountedSource[] = [];
  for (const { bag, at, feedbackFrom = [] } of settled)
    for (const source of feedbackFrom)
      counted.push({
        workspaceId: bag.workspaceId,
        day: Math.floor(at / DAY_MS),
        source,
        complained: 0,
        fblDelivered: 1,
      });
  return counted;
}

const NO_COUNTS: TallyCounts = {
  attempted: 0,
  delivered: 0,
  deferred: 0,
  hardBounced: 0,
  softBounced: 0,
  blocked: 0,
  failed: 0,
  throttled: 0,
  fblDelivered: 0,
};
