/**
 * What reports change: an e-mail's marks, status and history, and the counts of the day on which it was first
 * sent.
 *
 * Promises: an outcome only gets worse, and for each recipient once: delivered, then bounced, then
 * complained. Who bounced softly, or was not wanted, may still bounce hard, so that what somebody tells of
 * their own mail hides nothing. A report about a mail of which something is still open waits until that is
 * settled, since whoever sends it would overwrite what is written now. What is said twice, late or against
 * what is known changes nothing. Who bounced hard or complained is suppressed in the same transaction, and
 * who complained leaves every audience; neither waits for other recipients of the mail, to whom it may be
 * tried for days. What was undone meanwhile stays undone, and is not counted.
 */
import { identity, parseMailbox } from "../../address.ts";
import { DAY_MS } from "../../clock.ts";
import { newId } from "../../ids.ts";
import { bounceKept, type Head, type HistoryEntry, isOpen } from "../../rules/email.ts";
import { isMailboxOf } from "../../rules/samemailbox.ts";
import { plainArray } from "../db/arrays.ts";
import type { Statement, Tx } from "../db/connect.ts";
import { json, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import type { HashOf } from "./barred.ts";
import { mailStreamRow } from "./mailstream.ts";
import { addPartTallies, attemptThat, isCounted, PartTallies, partOfAttempt } from "./parttallies.ts";
import { addSources, type CountedSource } from "./sources.ts";
import { endingSql } from "./status.ts";
import {
  insertSoftBounces,
  insertSuppressions,
  type NewSuppression,
  type SoftSeries,
  suppressReported,
  unsubscribeComplainers,
} from "./suppressions.ts";

const HISTORY_MAX = 300;
const UNKNOWN_SOURCE = "unknown";

export type BounceKind = "hard" | "soft" | "block";

/** What a report says about one copy of a mail. */
export type Told = {
  reportId: string;
  workspaceId: string;
  emailId: string;
  /** Which recipient: by their place, by their address, or (both null) the only one. */
  place: number | null;
  recipient: string | null;
  /** Of a report that names whom it is about: these. */
  onlyFor: readonly string[] | null;
  /** It says of others that they live: what it says of strangers says nothing of the recipient. */
  isMixed: boolean;
  what: { kind: "bounced"; category: BounceKind } | { kind: "complained" } | { kind: "delayed" };
  /** The literal reply, or the type of the complaint. */
  detail: string;
  at: number;
};

/**
 * Of one report: what it changed, or why nothing; null: the e-mail cannot be changed yet. `changed`: which
 * mail that was, by its kind and the provider that had taken it (`""`: none that is known).
 */
export type AppliedReport = {
  reportId: string;
  result: string | null;
  changed?: { bulk: boolean; provider: string };
};

const reportedRow = {
  workspaceId: text,
  id: text,
  status: text,
  marks: orNull(text),
  head: json<Head>(),
  history: orNull(json<HistoryEntry[]>()),
  sentAt: orNull(timestamp),
  createdAt: timestamp,
  ...mailStreamRow,
};
type ReportedRow = RowOf<typeof reportedRow>;

/** An e-mail with what the reports of this step make of it. */
type ReportedEmail = ReportedRow & {
  marks: string;
  events: HistoryEntry[];
  bouncedAt: number | null;
  complainedAt: number | null;
};

export type ReportContext = {
  /** Under which name counts are kept. */
  worker: string;
  /** Under which suppressed addresses are kept. */
  hashOf: HashOf;
  /** Of soft bounces, that suppresses as well. */
  series: SoftSeries | null;
  now: number;
};

type Counts = { hardBounced: number; softBounced: number; blocked: number; complained: number };

/** Applies what was told, and says of each report what came of it. */
export async function applyReports(
  tx: Tx,
  context: ReportContext,
  told: readonly Told[],
): Promise<AppliedReport[]> {
  if (told.length === 0) return [];
  await unsubscribe(tx, context, told);
  const rows = await lockReported(tx, told);
  const missing = new Set(told.filter((one) => !rows.has(keyOf(one))).map(keyOf));
  const held =
    missing.size > 0
      ? await stillThere(
          tx,
          told.filter((one) => missing.has(keyOf(one))),
        )
      : new Set();
  const changed = new Map<string, ReportedEmail>();
  const worse: { next: Worsened; suppressed: NewSuppression | null }[] = [];
  const wavering: NewSuppression[] = [];
  const counts = new Map<string, { workspaceId: string; day: number; counts: Counts }>();
  const parts = new PartTallies();
  const sources: CountedSource[] = [];
  const applied = told.map((one): AppliedReport => {
    const key = keyOf(one);
    const row = changed.get(key) ?? rows.get(key);
    if (!row)
      return { reportId: one.reportId, result: held.has(key) ? null : "ignored: there is no such e-mail" };
    const next = worsen(row, one);
    if (next === null || typeof next === "string") return { reportId: one.reportId, result: next };
    const [suppressed = null] = isFinal(next.what) ? rowOf(next, one, context) : [];
    worse.push({ next, suppressed });
    if (!next.isSettled) return { reportId: one.reportId, result: null };
    changed.set(key, next.email);
    if (context.series && isSoft(next)) wavering.push(...rowOf(next, one, context));
    return { reportId: one.reportId, result: one.what.kind, changed: changedOf(next.email) };
  });
  if (changed.size > 0) await updateReported(tx, [...changed.values()]);
  const now = new Date(context.now);
  if (wavering.length > 0) await insertSoftBounces(tx, wavering, now);
  const undone = await suppressReported(
    tx,
    worse.flatMap(({ suppressed }) => suppressed ?? []),
    now,
  );
  if (context.series && wavering.length > 0)
    await insertSuppressions(tx, [], now, { series: context.series, who: wavering });
  for (const { next, suppressed } of worse) {
    if (!next.isSettled || (suppressed && undone.has(suppressed))) continue;
    count(counts, next.email, next.count, 1);
    count(counts, next.email, next.insteadOf, -1);
    countPart(parts, next.email, next.address, next.count, 1);
    countPart(parts, next.email, next.address, next.insteadOf, -1);
    if (next.count === "complained") sources.push(complaintFrom(next.email, next.address));
  }
  if (counts.size > 0) await addReported(tx, context.worker, [...counts.values()]);
  if (parts.all.length > 0) await addPartTallies(tx, context.worker, parts.all);
  if (sources.length > 0) await addSources(tx, context.worker, sources);
  return applied;
}

/**
 * Contacts are locked before e-mails, so this looks at the e-mails as they are: a complaint that changes none
 * is not heeded.
 */
async function unsubscribe(tx: Tx, { now }: ReportContext, told: readonly Told[]): Promise<void> {
  const complaints = told.filter(({ what }) => what.kind === "complained");
  if (complaints.length === 0) return;
  const rows = await findReported(tx, complaints);
  const complainers = complaints.flatMap((one) => {
    const row = rows.get(keyOf(one));
    const next = row && worsen(row, one);
    return next && typeof next === "object" && next.address !== null
      ? { workspaceId: one.workspaceId, identity: identity(next.address), evidence: one.detail }
      : [];
  });
  if (complainers.length > 0) await unsubscribeComplainers(tx, complainers, () => newId(now), new Date(now));
}

/** Nobody writes to them any more. */
function isFinal(what: Told["what"]): boolean {
  return what.kind === "complained" || (what.kind === "bounced" && what.category === "hard");
}

/** Counts for a series, as a refusal in the conversation does; what is said of a list's member does not. */
function isSoft({ what, isBehind }: Worsened): boolean {
  return what.kind === "bounced" && what.category === "soft" && !isBehind;
}

/** None of an erased person, whose address is not known here. */
function rowOf(
  { email, address, what, isSettled }: Worsened,
  { workspaceId, emailId, detail }: Told,
  { hashOf, now }: ReportContext,
): NewSuppression[] {
  if (address === null) return [];
  const whom = identity(address);
  return [
    {
      workspaceId,
      id: newId(now),
      hash: hashOf(whom),
      identity: whom,
      email: address,
      scope: "",
      reason: what.kind === "complained" ? "complaint" : "bounce",
      evidence: detail,
      emailId,
      countedDay: isSettled && isFinal(what) ? dayOf(email) : null,
    },
  ];
}

type Worse = {
  email: ReportedEmail;
  what: Told["what"];
  /** It names addresses behind the recipient's. */
  isBehind: boolean;
  count: keyof Counts | null;
  /** As what it was counted before. */
  insteadOf: keyof Counts | null;
  address: string | null;
};
/** `isSettled`: it can be written. Until then it only suppresses. */
type Worsened = Worse & { isSettled: boolean };

/**
 * The e-mail with the outcome that was told, and what it counts as; or why it stays as it is; null: it is not
 * settled, and nothing follows yet.
 */
function worsen(row: ReportedRow | ReportedEmail, told: Told): Worsened | string | null {
  const { marks, status } = row;
  if (marks === null) return null;
  const isSettled = !marks.includes("o") && !isOpen(status);
  const worse = worseOf(row, marks, told);
  if (typeof worse === "string") return isSettled ? worse : null;
  return { isSettled, ...worse };
}

function worseOf(row: ReportedRow | ReportedEmail, marks: string, told: Told): Worse | string {
  const recipients = [...row.head.to, ...row.head.cc, ...row.head.bcc];
  const place = recipientIndex(told, recipients);
  const mark = place === null ? undefined : marks[place];
  const recipient = place === null ? undefined : recipients[place];
  if (place === null || mark === undefined || recipient === undefined)
    return "ignored: it does not say which recipient it is about";
  const isBehind = told.onlyFor !== null && !told.onlyFor.some((address) => isOf(address, recipient));
  if (isBehind && told.isMixed) return "ignored: it is about addresses behind the recipient's";
  const email: ReportedEmail = {
    bouncedAt: null,
    complainedAt: null,
    events: [],
    ...row,
    marks,
  };
  const at = Math.max(told.at, lastTime(row));
  const what = isBehind ? doubted(told.what) : told.what;
  const event = eventOf({ ...told, what }, at, recipient);
  if (what.kind === "delayed") {
    const isNew = mark === "d" && !isToldAlready(email, event);
    if (!isNew || (row.history?.length ?? 0) >= HISTORY_MAX) return "ignored: it is known, or over";
    return {
      email: { ...email, events: [...email.events, event] },
      what,
      isBehind,
      count: null,
      insteadOf: null,
      address: null,
    };
  }
  const letter = what.kind === "bounced" ? "b" : "c";
  const passing =
    what.kind === "bounced" && isFinal(what) && mark === "b" ? passingBounce(email, event) : null;
  if (passing === null && !WORSE_THAN[letter].includes(mark))
    return `ignored: ${NAME_OF[mark] ?? "nothing"} stands`;
  const next = {
    ...email,
    marks: marks.slice(0, place) + letter + marks.slice(place + 1),
    events: [...email.events, event],
  };
  const worse = { what, isBehind, address: addressOf(recipient) };
  if (what.kind === "complained")
    return { ...worse, email: { ...next, complainedAt: at }, count: "complained", insteadOf: null };
  const insteadOf = passing && COUNT_OF[passing];
  return { ...worse, email: { ...next, bouncedAt: at }, count: COUNT_OF[what.category], insteadOf };
}

/** How the recipient bounced after the mail was taken, if that was not hard; it was told, and once. */
function passingBounce({ history, events }: ReportedEmail, { recipient }: HistoryEntry): BounceKind | null {
  const of = [...(history ?? []), ...events].filter((entry) => entry.recipient === recipient);
  const taken = of.findIndex(({ type }) => type === "delivered");
  if (taken < 0) return null;
  const bounces = of.slice(taken + 1).filter(({ type }) => type === "bounced");
  const [first] = bounces;
  if (bounces.length !== 1 || first?.bounce === undefined || first.bounce === "expired") return null;
  return first.bounce;
}

/**
 * Of an address behind the recipient's: the recipient's took the mail, and may lead to others who are there.
 */
function doubted(what: Told["what"]): Told["what"] {
  return what.kind === "bounced" && what.category === "hard" ? { ...what, category: "soft" } : what;
}

const WORSE_THAN = { b: "d", c: "db" } as const;
const COUNT_OF = { hard: "hardBounced", soft: "softBounced", block: "blocked" } as const;
const NAME_OF: Record<string, string> = {
  b: "bounced",
  c: "complained",
  f: "failed",
  s: "suppressed",
  x: "canceled",
};

function recipientIndex({ place, recipient }: Told, recipients: readonly string[]): number | null {
  if (place !== null) return place;
  if (recipient === null) return recipients.length === 1 ? 0 : null;
  const wanted = identity(recipient);
  const found = recipients.findIndex((text) => identityOf(text) === wanted);
  return found < 0 ? null : found;
}

function identityOf(text: string): string | null {
  const mailbox = parseMailbox(text);
  return mailbox && identity(mailbox.address);
}

/** Systems report the mailbox that an address leads to. Of who was erased nobody knows any more. */
function isOf(reported: string, recipient: string): boolean {
  const wanted = identityOf(recipient);
  if (wanted === null || wanted.endsWith("@erased.invalid")) return true;
  return isMailboxOf(identity(reported), wanted);
}

/** null of an erased person. */
function addressOf(recipient: string): string | null {
  const address = parseMailbox(recipient)?.address ?? null;
  return address?.endsWith("@erased.invalid") ? null : address;
}

/** Of somebody who was erased nothing comes back: a reply may repeat the address. */
function eventOf({ what, detail }: Told, at: number, recipient: string): HistoryEntry {
  const type = what.kind === "delayed" ? "delivery_delayed" : what.kind;
  const address = parseMailbox(recipient)?.address ?? recipient;
  const kept = what.kind === "bounced" ? bounceKept(what.category) : {};
  const said = address.endsWith("@erased.invalid") ? {} : { detail };
  return { type, at: new Date(at).toISOString(), recipient: address, ...kept, ...said };
}

/**
 * A report may be here before the delivery is noted, or say a time of its own: what it reports came
 * afterwards.
 */
function lastTime({ history }: ReportedRow): number {
  return Date.parse(history?.at(-1)?.at ?? "") || 0;
}

/** Told after it was taken: what a worker noted before that is another delay. */
function isToldAlready({ history, events }: ReportedEmail, { recipient }: HistoryEntry): boolean {
  const of = [...(history ?? []), ...events].filter((entry) => entry.recipient === recipient);
  const taken = of.findIndex(({ type }) => type === "delivered");
  return of.slice(taken + 1).some(({ type }) => type === "delivery_delayed");
}

function count(
  counts: Map<string, { workspaceId: string; day: number; counts: Counts }>,
  { workspaceId, sentAt, createdAt }: ReportedEmail,
  name: keyof Counts | null,
  by: 1 | -1,
): void {
  if (name === null) return;
  const day = dayOf({ sentAt, createdAt });
  const key = `${workspaceId} ${day}`;
  const known = counts.get(key) ?? {
    workspaceId,
    day,
    counts: { hardBounced: 0, softBounced: 0, blocked: 0, complained: 0 },
  };
  known.counts[name] += by;
  counts.set(key, known);
}

function changedOf(email: ReportedEmail): { bulk: boolean; provider: string } {
  const recipient = email.events.at(-1)?.recipient ?? null;
  const { provider } = partOfAttempt(email, attemptThat("delivered", email.history, recipient));
  return { bulk: email.bulk, provider };
}

/** For its stream, and for the provider that took it from an address of ours. */
function countPart(
  parts: PartTallies,
  email: ReportedEmail,
  address: string | null,
  name: keyof Counts | null,
  by: 1 | -1,
): void {
  if (name === null || name === "softBounced") return;
  const part = partOfAttempt(email, attemptThat("delivered", email.history, address));
  if (!isCounted(part)) return;
  const isLate = name === "hardBounced";
  parts.add(email.workspaceId, dayOf(email), part, { [name]: by, ...(isLate && { lateBounced: by }) });
}

/** Of the reader's domain, whose provider reports it; of an erased person that is not known. */
function complaintFrom(email: ReportedEmail, address: string | null): CountedSource {
  const source = (address && parseMailbox(address)?.domain) || UNKNOWN_SOURCE;
  return { workspaceId: email.workspaceId, day: dayOf(email), source, complained: 1, fblDelivered: 0 };
}

/** On which it was first sent, in days since 1970. */
function dayOf({ sentAt, createdAt }: Pick<ReportedRow, "sentAt" | "createdAt">): number {
  return Math.floor((sentAt ?? createdAt).getTime() / DAY_MS);
}

function keyOf({ workspaceId, emailId }: Pick<Told, "workspaceId" | "emailId">): string {
  return `${workspaceId} ${emailId}`;
}

/**
 * Those that somebody else holds are left out, since workers lock e-mails of several workspaces in another
 * order.
 */
async function lockReported(tx: Tx, told: readonly Told[]): Promise<Map<string, ReportedRow>> {
  return byKey(
    await typed(tx, reportedRow)`
      select ${columns(tx)} from email e where ${isReported(tx, told)}
      order by e.workspace_id, e.id for update of e skip locked`,
  );
}

async function findReported(tx: Tx, told: readonly Told[]): Promise<Map<string, ReportedRow>> {
  return byKey(
    await typed(tx, reportedRow)`select ${columns(tx)} from email e where ${isReported(tx, told)}`,
  );
}

function byKey(rows: readonly ReportedRow[]): Map<string, ReportedRow> {
  return new Map(rows.map((row) => [keyOf({ workspaceId: row.workspaceId, emailId: row.id }), row]));
}

function columns(tx: Tx): Statement {
  return tx`e.workspace_id as "workspaceId", e.id, e.status, e.marks, e.bulk, e.stream, e.head, e.history, e.sent_at as "sentAt",
    e.created_at as "createdAt"`;
}

function isReported(tx: Tx, told: readonly Told[]): Statement {
  const ids = plainArray(told.map(({ emailId }) => emailId));
  return tx`(e.workspace_id, e.id) in (
      select * from unnest(${plainArray(told.map(({ workspaceId }) => workspaceId))}::uuid[], ${ids}::uuid[]))
    and e.id = any(${ids}::uuid[])`;
}

async function stillThere(tx: Tx, told: readonly Told[]): Promise<Set<string>> {
  const rows = await typed(tx, { workspaceId: text, emailId: text })`
    select e.workspace_id as "workspaceId", e.id as "emailId" from email e where ${isReported(tx, told)}`;
  return new Set(rows.map(keyOf));
}

async function updateReported(tx: Tx, changed: readonly ReportedEmail[]): Promise<void> {
  const of = (pick: (email: ReportedEmail) => string | number | null): string =>
    plainArray(changed.map(pick));
  const ids = of(({ id }) => id);
  await tx`
    update email e set
      marks = c.marks,
      status = ${endingSql(tx, tx`c.marks`)},
      updated_at = now(),
      bounced_at = coalesce(e.bounced_at, to_timestamp(c.bounced_ms / 1000)),
      complained_at = coalesce(e.complained_at, to_timestamp(c.complained_ms / 1000)),
      history = coalesce(e.history, '[]') || c.events
    from (select * from rows from (
        unnest(${of(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[],
          ${of(({ marks }) => marks)}::text[],
          ${of(({ bouncedAt }) => bouncedAt)}::float8[], ${of(({ complainedAt }) => complainedAt)}::float8[]),
        jsonb_array_elements(${JSON.stringify(changed.map(({ events }) => events))}::text::jsonb)
      ) as r(workspace_id, id, marks, bounced_ms, complained_ms, events)) as c
    where e.workspace_id = c.workspace_id and e.id = c.id and e.id = any(${ids}::uuid[])`;
}

async function addReported(
  tx: Tx,
  worker: string,
  counted: readonly { workspaceId: string; day: number; counts: Counts }[],
): Promise<void> {
  const of = (pick: (counts: Counts) => number): string =>
    plainArray(counted.map(({ counts }) => pick(counts)));
  await tx`
    insert into tally as t (workspace_id, day, worker, hard_bounced, late_bounced, soft_bounced, blocked,
      complained)
    select workspace_id, day, ${worker}, hard_bounced, hard_bounced, soft_bounced, blocked, complained
    from unnest(${plainArray(counted.map(({ workspaceId }) => workspaceId))}::uuid[],
      ${plainArray(counted.map(({ day }) => day))}::int[], ${of((c) => c.hardBounced)}::int[],
      ${of((c) => c.softBounced)}::int[], ${of((c) => c.blocked)}::int[], ${of((c) => c.complained)}::int[])
      as n(workspace_id, day, hard_bounced, soft_bounced, blocked, complained)
    order by workspace_id, day
    on conflict (workspace_id, day, worker) do update set
      hard_bounced = t.hard_bounced + excluded.hard_bounced,
      late_bounced = t.late_bounced + excluded.late_bounced,
      soft_bounced = t.soft_bounced + excluded.soft_bounced, blocked = t.blocked + excluded.blocked,
      complained = t.complained + excluded.complained`;
}
