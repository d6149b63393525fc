/**
 * The caps of real workspaces under the policy: judged every few minutes by the keeper, and set by people. Whoever
 * changes caps writes the ledger, a row of history with the reason, and the next version of the workspace; Redis is
 * told after that and may lag, since the ledger has the last word.
 */
import { RESERVED_SHARE } from "../plans.ts";
import {
  type CapacityRow,
  type CapChange,
  capacitiesToJudge,
  type DayRow,
  dailyCounts,
  findCapacity,
  noteCapUse,
  saveDecision,
} from "../record/capacity.ts";
import type { Sql } from "../record/connect.ts";
import {
  type CapState,
  COUNTED_DAYS_MAX,
  effective,
  evaluate,
  type Override,
  type Policy,
  policyVersion,
  startState,
} from "./policy.ts";

const PAGE = 200;
const POLICY = "policy";

/** Caps of a workspace that changed: Redis has to hear of it. */
export type CapsChanged = { handle: string; version: number };

/** Judges the next workspaces after one; hands back where to go on, or null at the end. */
export async function judgeCaps(
  sql: Sql,
  policy: Policy,
  after: string,
  now: number,
  onChange: (changed: CapsChanged) => Promise<void>,
): Promise<string | null> {
  const rows = await capacitiesToJudge(sql, after, now, PAGE);
  const last = rows.at(-1);
  if (!last) return null;
  const ids = rows.map(({ workspaceId }) => workspaceId);
  await noteCapUse(sql, ids);
  const counts = new Map<string, DayRow[]>(ids.map((id) => [id, []]));
  for (const day of await dailyCounts(sql, ids, now, COUNTED_DAYS_MAX))
    counts.get(day.workspaceId)?.push(day);
  for (const row of rows) {
    const version = await judgeOne(sql, policy, row, counts.get(row.workspaceId) ?? [], now);
    if (version !== null) await onChange({ handle: row.handle, version });
  }
  return rows.length < PAGE ? null : last.workspaceId;
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
  const row = await findCapacity(sql, workspaceId);
  if (!row) return null;
  const state = stateOf(row, policy);
  const what = override ? wording(override) : "What was set is taken back";
  const change = { reason: `${what}: ${by.reason}`, by: by.name, counts: null };
  const version = await decide(sql, policy, { ...row, override }, state, [change], now);
  return { handle: row.handle, version: version ?? 0 };
}

export function stateOf({ state, plan }: CapacityRow, policy: Policy): CapState {
  return (state as CapState | null) ?? startState(policy, plan);
}

/** What a person set: for the caps, or as a limit of the workspace, which has no end. */
export function overrideOf({ override, limits }: CapacityRow): Override | null {
  const fixed = limits.cap_day ?? null;
  const fixedHour = limits.cap_hour ?? null;
  if (fixed === null && fixedHour === null) return override as Override | null;
  const reason = "a limit of the workspace";
  return { minimum: null, maximum: null, fixed, fixedHour, until: null, by: "operator", reason };
}

export function daysOf(rows: readonly DayRow[]) {
  return rows.map(({ workspaceId: _, ...counts }) => counts);
}

async function judgeOne(
  sql: Sql,
  policy: Policy,
  row: CapacityRow,
  rows: readonly DayRow[],
  now: number,
): Promise<number | null> {
  const known = stateOf(row, policy);
  const override = overrideOf(row);
  const days = daysOf(rows);
  const { state, changed, reason } = evaluate(policy, row.plan, known, days, override, now);
  const changes = changed ? [{ reason, by: POLICY, counts: days.at(-1) ?? null }] : [];
  const stored = row.override as Override | null;
  if (stored?.until && stored.until <= now) {
    changes.push({ reason: `What ${stored.by} had set ran out.`, by: stored.by, counts: null });
    return decide(sql, policy, { ...row, override: null }, state, changes, now);
  }
  if (state === known && row.state !== null && !isNew(row, policy, state, now)) return null;
  return decide(sql, policy, row, state, changes, now);
}

type Why = Pick<CapChange, "reason" | "by" | "counts">;

async function decide(
  sql: Sql,
  policy: Policy,
  row: CapacityRow,
  state: CapState,
  changes: readonly Why[],
  now: number,
): Promise<number | null> {
  const { workspaceId, override } = row;
  const caps = capsOf(row, policy, state, now);
  const before = { day: row.capDay, hour: row.capHour };
  const version = policyVersion(policy);
  const isChanged = isNew(row, policy, state, now);
  const unexplained = { reason: "The policy or the plan gives other caps.", by: POLICY, counts: null };
  const why = changes.length === 0 && isChanged && row.state !== null ? [unexplained] : changes;
  return saveDecision(
    sql,
    {
      workspaceId,
      state,
      override,
      isTroubled: state.level !== "normal",
      policyVersion: version,
      caps,
      isNew: isChanged,
      changes: why.map((one) => ({
        ...one,
        before,
        after: { day: caps.day, hour: caps.hour },
        level: state.level,
        policyVersion: version,
      })),
    },
    new Date(now),
  );
}

/** Limits of the workspace stand above these and are not repeated in them. */
function capsOf({ plan, override }: CapacityRow, policy: Policy, state: CapState, now: number) {
  const { day, hour, bulkPaused } = effective(policy, plan, state, override as Override | null, now);
  return { day, hour, reservedShare: bulkPaused ? 1 : RESERVED_SHARE };
}

function isNew(row: CapacityRow, policy: Policy, state: CapState, now: number): boolean {
  const caps = capsOf(row, policy, state, now);
  // a real in Postgres, so not the very number
  const isSameShare = Math.abs(caps.reservedShare - row.reservedShare) < 0.001;
  return caps.day !== row.capDay || caps.hour !== row.capHour || !isSameShare;
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
