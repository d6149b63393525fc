/**
 * The caps of real workspaces under the policy: judged every few minutes by the keeper, and set by people.
 * Whoever changes caps writes the ledger, a row of history with the reason, and the next version of the
 * workspace; Redis is told after that and may lag, since the ledger has the last word.
 */

import { isDeepStrictEqual } from "node:util";
import type { Sql } from "../record/db/connect.ts";
import { type NotedState, noteLooks, noteStates } from "../record/workspaces/caplooks.ts";
import {
  type CapacityRow,
  type CapChange,
  capacitiesToJudge,
  type DayRow,
  dailyCounts,
  findCapacity,
  noteCapUse,
  type Saved,
  saveDecision,
} from "../record/workspaces/caps.ts";
import { type PartDay, partDays } from "../record/workspaces/parts.ts";
import { judgedCounts } from "./counts.ts";
import { judgeParts, limitsOf, partsIn, sharesOf } from "./parts.ts";
import { dayOf } from "./policy/evidence.ts";
import {
  type CapState,
  COUNTED_DAYS_MAX,
  type DayCounts,
  effective,
  evaluate,
  type Heard,
  type Override,
  type Policy,
  policyVersion,
  reservedShareOf,
  startState,
  watchAnew,
} from "./policy.ts";
import { type JudgedWorkspace, judgeShadow, shadowInForce } from "./shadow.ts";

const SET_ATTEMPTS_MAX = 5;
const NO_PARTS: NonNullable<CapState["parts"]> = {};
const POLICY = "policy";
const SHARE_ROUNDING = 1e-6;

/** Caps of a workspace that changed: Redis has to hear of it. */
export type CapsChanged = { workspaceId: string; handle: string; version: number };

export type JudgeParts = {
  sql: Sql;
  policy: Policy;
  heard: Heard;
};

/** Said with every change that was decided on less than all evidence. */
const NOT_HEARD = "Bounces and complaints after delivery are not received (BOUNCE_DOMAIN is not set).";
const ONLY_COMPLAINTS_HEARD = "Bounces after delivery are not received (BOUNCE_DOMAIN is not set).";

/** Judges the next workspaces after one; hands back where to go on, or null at the end. */
export async function judgeCaps(
  judging: JudgeParts,
  after: string,
  now: number,
  most: number,
  onChange: (changed: CapsChanged) => Promise<void>,
): Promise<string | null> {
  const { sql } = judging;
  const rows = await capacitiesToJudge(sql, after, now, most);
  const last = rows.at(-1);
  if (!last) return null;
  const ids = rows.map(({ workspaceId }) => workspaceId);
  await noteCapUse(sql, ids);
  const counts = new Map<string, DayRow[]>(ids.map((id) => [id, []]));
  const counted = await dailyCounts(sql, ids, now, COUNTED_DAYS_MAX);
  for (const day of counted) counts.get(day.workspaceId)?.push(day);
  await noteLooks(sql, counted, now);
  await noteStates(sql, statesToNote(judging.policy, rows, now), now);
  const shadow = await shadowInForce(sql);
  const policies = shadow === null ? [judging.policy] : [judging.policy, shadow.policy];
  const parts = new Map<string, PartDay[]>(ids.map((id) => [id, []]));
  for (const day of await partDays(sql, ids, now, COUNTED_DAYS_MAX)) parts.get(day.workspaceId)?.push(day);
  const cases: CaseWithParts[] = [];
  for (const row of rows) {
    const found = await caseOf(sql, policies, row, counts.get(row.workspaceId) ?? [], now);
    const inParts = partsJudged(judging.policy, found, parts.get(row.workspaceId) ?? [], now);
    cases.push({ ...found, hasSteppedInParts: inParts.hasStepped, inParts });
  }
  if (shadow !== null) await judgeShadow(sql, shadow, cases, judging.heard, now);
  for (const one of cases) {
    const { row } = one;
    const saved = await judgeOne(judging, one, now);
    // one that somebody has set meanwhile is judged next time
    if (saved?.kind === "saved" && saved.version !== null)
      await onChange({ workspaceId: row.workspaceId, handle: row.handle, version: saved.version });
  }
  return rows.length < most ? null : last.workspaceId;
}

type Case = Omit<JudgedWorkspace, "hasSteppedInParts">;
type CaseWithParts = JudgedWorkspace & { inParts: ReturnType<typeof judgeParts> };

function partsJudged(policy: Policy, { row, state }: Case, partRows: readonly PartDay[], now: number) {
  const about = { policy, plan: row.plan, capDay: row.capDay, now };
  return judgeParts(about, state.parts ?? NO_PARTS, partsIn(partRows, row.streams));
}

/** As they are before the first look of a day: where a replay may begin. */
function statesToNote(policy: Policy, rows: readonly CapacityRow[], now: number): NotedState[] {
  const today = dayOf(now);
  return rows.flatMap((row) => {
    const state = stateOf(row, policy);
    return state.evaluatedOn === today
      ? []
      : [{ workspaceId: row.workspaceId, state, override: row.override }];
  });
}

async function caseOf(
  sql: Sql,
  policies: readonly Policy[],
  row: CapacityRow,
  counted: readonly DayRow[],
  now: number,
): Promise<Case> {
  const state = stateOf(row, policies[0] as Policy);
  const days = await judgedCounts(sql, policies, { workspaceId: row.workspaceId, state }, counted, now);
  return { row, state, override: overrideOf(row), days };
}

/** What a workspace is judged on now. */
export async function countsToJudge(
  sql: Sql,
  policy: Policy,
  row: CapacityRow,
  now: number,
): Promise<readonly DayCounts[]> {
  const counted = await dailyCounts(sql, [row.workspaceId], now, COUNTED_DAYS_MAX);
  return (await caseOf(sql, [policy], row, counted, now)).days;
}

/** Sets what a person wants of the caps, or takes it back; null when there is no such workspace. */
export async function setOverride(
  sql: Sql,
  policy: Policy,
  workspaceId: string,
  override: Override | null,
  by: { name: string; reason: string },
  now: number,
): Promise<CapsChanged | null> {
  const what = override ? wording(override) : "The override is removed";
  const change = { reason: `${what}: ${by.reason}`, by: by.name, counts: null };
  for (let attempt = 0; attempt < SET_ATTEMPTS_MAX; attempt++) {
    const row = await findCapacity(sql, workspaceId);
    if (!row) return null;
    const saved = await decide(sql, policy, row, { state: stateOf(row, policy), override }, [change], now);
    if (saved.kind === "overtaken") continue;
    await noteStates(sql, [{ workspaceId, state: stateOf(row, policy), override }], now);
    return { workspaceId, handle: row.handle, version: saved.version ?? 0 };
  }
  throw new Error("the caps of the workspace keep changing");
}

export function stateOf({ state, plan }: CapacityRow, policy: Policy): CapState {
  return (state as CapState | null) ?? startState(policy, plan);
}

/** What a person set: for the caps, or as a limit of the workspace, which has no end. */
export function overrideOf({ override, limits }: CapacityRow): Override | null {
  const stored = override as Override | null;
  const fixed = limits.cap_day ?? null;
  const fixedHour = limits.cap_hour ?? stored?.fixedHour ?? null;
  if (fixed === null && stored !== null) return { ...stored, fixedHour };
  if (fixed === null && fixedHour === null) return null;
  const reason = "a limit of the workspace";
  return { minimum: null, maximum: null, fixed, fixedHour, until: null, by: "operator", reason };
}

export function daysOf(rows: readonly DayRow[]) {
  return rows.map(({ workspaceId: _, ...counts }) => counts);
}

async function judgeOne(
  { sql, policy, heard }: JudgeParts,
  { row, state: known, override, days, inParts }: CaseWithParts,
  now: number,
): Promise<Saved | null> {
  const watched = inParts.hasStepped ? watchAnew(known, days, now) : known;
  const start =
    inParts.states === (known.parts ?? NO_PARTS) ? watched : { ...watched, parts: inParts.states };
  const { state, changed, reason, numbers } = evaluate(policy, row.plan, start, days, override, now, heard);
  const unheard = heard.complaints ? ONLY_COMPLAINTS_HEARD : NOT_HEARD;
  const evidence = heard.reports ? reason : `${reason} ${unheard}`;
  const changes: ChangeReason[] = changed ? [{ reason: evidence, by: POLICY, counts: numbers }] : [];
  for (const step of inParts.steps) changes.push({ reason: step.reason, by: POLICY, counts: step.numbers });
  const stored = row.override as Override | null;
  if (stored?.until && stored.until <= now) {
    changes.push({ reason: `The override by ${stored.by} has ended.`, by: stored.by, counts: null });
    return decide(sql, policy, row, { state, override: null }, changes, now);
  }
  const next = { state, override: stored };
  if (state === known && row.state !== null && !isNew(row, policy, next, now)) return null;
  return decide(sql, policy, row, next, changes, now);
}

type ChangeReason = Pick<CapChange, "reason" | "by" | "counts">;
type Next = { state: CapState; override: Override | null };

async function decide(
  sql: Sql,
  policy: Policy,
  row: CapacityRow,
  next: Next,
  changes: readonly ChangeReason[],
  now: number,
): Promise<Saved> {
  const { dayInForce: _, ...caps } = capsOf(row, policy, next, now);
  const before = { day: row.capDay, hour: row.capHour };
  const version = policyVersion(policy);
  const isChanged = isNew(row, policy, next, now);
  const unexplained = { reason: "The policy or the plan gives other caps.", by: POLICY, counts: null };
  const why = changes.length === 0 && isChanged && row.state !== null ? [unexplained] : changes;
  const decision = {
    workspaceId: row.workspaceId,
    known: row,
    ...next,
    isTroubled: isTroubled(next.state),
    policyVersion: version,
    caps,
    parts: partsOf(row, policy, next, now),
    isNew: isChanged,
    changes: why.map((one) => ({
      ...one,
      before,
      after: { day: caps.day, hour: caps.hour },
      level: next.state.level,
      policyVersion: version,
    })),
  };
  return saveDecision(sql, decision, new Date(now));
}

/** Limits of the workspace stand above these and are not repeated in them, but shares are of the limit. */
function capsOf({ plan, limits }: CapacityRow, policy: Policy, { state, override }: Next, now: number) {
  const caps = effective(policy, plan, state, override, now);
  const dayInForce = limits.cap_day ?? caps.day;
  const reservedShare = reservedShareOf(state, { ...caps, day: dayInForce });
  return { day: caps.day, hour: caps.hour, dayInForce, reservedShare };
}

function isTroubled({ level, parts = NO_PARTS }: CapState): boolean {
  return level !== "normal" || Object.values(parts).some((part) => part.level !== "normal");
}

/** null: no part is judged by itself, now or before. */
function partsOf(row: CapacityRow, policy: Policy, { state, override }: Next, now: number) {
  const known = row.state as CapState | null;
  if (known?.parts === undefined && state.parts === undefined) return null;
  const { dayInForce } = capsOf(row, policy, { state, override }, now);
  const context = { policy, plan: row.plan, capDay: dayInForce, now };
  return {
    shares: sharesOf(state.parts ?? NO_PARTS, context, override),
    limits: limitsOf(state.parts ?? NO_PARTS, context),
  };
}

function isNew(row: CapacityRow, policy: Policy, next: Next, now: number): boolean {
  const caps = capsOf(row, policy, next, now);
  // a real in Postgres, so not the very number
  const isSameShare = Math.abs(caps.reservedShare - row.reservedShare) < SHARE_ROUNDING;
  const parts = partsOf(row, policy, next, now);
  const hasNewShares = parts !== null && !isDeepStrictEqual(parts.shares, row.streamShares);
  return caps.day !== row.capDay || caps.hour !== row.capHour || !isSameShare || hasNewShares;
}

function wording({ minimum, maximum, fixed, fixedHour, until }: Override): string {
  const parts = [
    minimum !== null && `at least ${minimum} a day`,
    maximum !== null && `at most ${maximum} a day`,
    fixed !== null && `${fixed} a day`,
    fixedHour !== null && `${fixedHour} an hour`,
  ].filter(Boolean);
  const end = until === null ? "" : ` until ${new Date(until).toISOString()}`;
  return `Set by hand to ${parts.join(", ")}${end}`;
}
