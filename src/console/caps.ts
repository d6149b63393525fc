/**
 * Sending caps: where they stand and why, what they will be, what another policy would do, and the simulator.
 */
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import Type, { type Static } from "typebox";
import type { Keyring } from "../admission/keyring.ts";
import type { Reservations } from "../admission/reserve.ts";
import { countsToJudge, overrideOf, setOverride, stateOf } from "../capacity/caps.ts";
import { forecast } from "../capacity/forecast.ts";
import { policyInForce } from "../capacity/inforce.ts";
import { checkPolicy } from "../capacity/policy/check.ts";
import { DEFAULT_POLICY, effective, type Heard, type Override, type Policy } from "../capacity/policy.ts";
import { replayWorkspace } from "../capacity/replayed.ts";
import { scenarioFile, scenarioNames } from "../capacity/scenarios.ts";
import { shadowInForce } from "../capacity/shadow.ts";
import type { Setup, StudyProgress } from "../capacity/study.ts";
import type { StudyNews } from "../capacity/studythread.ts";
import { whyCap } from "../capacity/why.ts";
import { checkScenario } from "../capacity/workload.ts";
import { DAY_MS, whenLate } from "../clock.ts";
import { isUuid } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { findCapacity, findLevelChange, listCapChanges, noteCapUse } from "../record/workspaces/caps.ts";
import { readAccount } from "../record/workspaces/ledgers.ts";
import { countShadowSteps, countSteps, listShadowChanges } from "../record/workspaces/shadow.ts";
import { advance, sum, waitingByStream } from "../rules/ledger.ts";
import { CAP_MIN, OVERRIDE_MAX } from "../rules/plans.ts";
import {
  type ConsoleCall,
  EVERYONE,
  type KnownPerson,
  type KnownWorkspace,
  operatorCall,
  type VisitOf,
  workspaceCall,
} from "./calls.ts";
import { pageIn, pageOfRows, wholeList } from "./pages.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

const HISTORY_SHOWN = 50;
const FORECAST_DAYS = 14;
const REPLAYED_DAYS = 30;
const SIMULATED_DAYS_MAX = 365;
const RUNS_MAX = 50;
const SEED_MAX = 1_000_000;
const SIMULATION_MS_MAX = 60_000;
const SIMULATIONS_MAX = 2;
/** The compiled file, even when this one runs from the sources: a thread has no TypeScript loader. */
const THREAD = new URL("../../dist/capacity/studythread.js", import.meta.url);

const closed = { additionalProperties: false } as const;
const Cap = Type.Optional(Type.Integer({ minimum: CAP_MIN, maximum: OVERRIDE_MAX }));
const PolicyDocument = Type.Record(Type.String(), Type.Unknown());
const Replayed = Type.Object({ policy: PolicyDocument }, closed);
const Simulated = Type.Object(
  {
    scenario: Type.String({ maxLength: 100 }),
    policy: Type.Optional(PolicyDocument),
    days: Type.Optional(Type.Integer({ minimum: 1, maximum: SIMULATED_DAYS_MAX })),
    runs: Type.Optional(Type.Integer({ minimum: 1, maximum: RUNS_MAX })),
    seed: Type.Optional(Type.Integer({ minimum: 0, maximum: SEED_MAX })),
  },
  closed,
);
const SetByHand = Type.Object(
  {
    ...{ minimum: Cap, maximum: Cap, fixed: Cap, fixed_hour: Cap },
    until: Type.Optional(Type.String({ maxLength: 40 })),
    clear: Type.Optional(Type.Boolean()),
    reason: Type.String({ minLength: 1, maxLength: 300 }),
  },
  closed,
);

export type CapParts = {
  sql: Sql;
  lists(): Sql;
  keyring: Keyring;
  reservations: Reservations;
  heard: Heard;
};

export function capCalls(parts: CapParts): ConsoleCall[] {
  const simulations = new Simulations();
  const shared = { roles: EVERYONE } as const;
  return [
    workspaceCall({ ...shared, method: "GET", path: "caps", handle: (visit) => show(parts, visit) }),
    workspaceCall({
      ...{ ...shared, method: "GET", path: "caps/history" },
      async handle({ workspace, query }) {
        const page = pageIn(query);
        const span = { from: null, to: null, after: page.after };
        const rows = await listCapChanges(parts.lists(), workspace.id, page.limit + 1, span);
        return pageOfRows(rows, page, (change) => ({ object: "cap_change", ...change }));
      },
    }),
    workspaceCall({
      ...{ ...shared, method: "POST", path: "caps/replay", body: Replayed, changesNothing: true },
      handle: (visit) => replayed(parts, visit),
    }),
    workspaceCall({ ...shared, method: "GET", path: "caps/policy", handle: (visit) => policy(parts, visit) }),
    workspaceCall({
      ...{ ...shared, method: "GET", path: "caps/scenarios" },
      handle: () => wholeList(scenarioNames().map((name) => ({ name, scenario: scenarioOf(name) }))),
    }),
    workspaceCall({
      ...{ ...shared, method: "POST", path: "caps/simulate", body: Simulated, changesNothing: true },
      handle: (visit) => simulate(parts, simulations, visit),
    }),
    workspaceCall({
      ...{ ...shared, method: "GET", path: "caps/simulate" },
      handle: ({ workspace }) => {
        const share = simulations.shareOf(workspace.id);
        return { status: 200, body: { object: "simulation_progress", share } };
      },
    }),
    operatorCall({
      ...{ method: "POST", path: "operator/caps/{id}", body: SetByHand },
      handle: (visit) => setByHand(parts, visit),
    }),
  ];
}

async function show({ sql, heard }: CapParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const { workspace, now } = visit;
  await noteCapUse(sql, [workspace.id]);
  const [row, account, { policy, version }, history] = await Promise.all([
    findCapacity(sql, workspace.id),
    readAccount(sql, workspace.id),
    policyInForce(sql),
    listCapChanges(sql, workspace.id, HISTORY_SHOWN),
  ]);
  if (!row || !account) throw deny("not_found", "The workspace is gone.");
  const { ledger, allowance } = account;
  advance(ledger, now);
  const state = stateOf(row, policy);
  const override = overrideOf(row);
  const [days, levelChange] = await Promise.all([
    countsToJudge(sql, policy, row, now),
    findLevelChange(sql, workspace.id, state.level),
  ]);
  const { dayLimit, monthLimit } = allowance;
  const monthLeft = Math.max(0, monthLimit - ledger.monthUsed);
  const dayLeft = dayLimit === null ? null : Math.max(0, dayLimit - ledger.dayUsed);
  const used = { day: ledger.capDayUsed, hour: sum(ledger.hourUsed) };
  const waiting = { transactional: ledger.waiting, automation: ledger.waitingBulk };
  const ahead = { quota: { monthLeft, monthLimit, dayLimit }, heard };
  return {
    status: 200,
    body: {
      object: "caps",
      level: state.level,
      cap_day: { used: used.day, limit: allowance.capDay, grown: state.capDay },
      cap_hour: { used: used.hour, limit: allowance.capHour, grown: state.capHour },
      waiting,
      only_transactional: effective(policy, row.plan, state, override, now).bulkPaused,
      override,
      evaluated_on: state.evaluatedOn,
      hears_reports: heard.reports,
      policy_version: String(version),
      why: whyCap({
        ...{
          policy,
          policyVersion: version,
          plan: row.plan,
          state,
          override,
          days,
          heard,
          now,
          used,
          waiting,
        },
        waitingIn: waitingByStream(ledger),
        quota: { monthLeft, dayLeft },
        lastChange: history[0] ?? null,
        levelChange,
      }),
      history,
      forecast: forecast(policy, row.plan, state, days, override, now, FORECAST_DAYS, ahead),
      days,
    },
  };
}

/** The last days, and what this policy would have made of them. */
async function replayed(
  { lists, heard }: CapParts,
  visit: VisitOf<KnownWorkspace, Static<typeof Replayed>>,
): Promise<ConsoleAnswer> {
  const { workspace, body, now } = visit;
  const other = readPolicyOf(body.policy);
  const span = { from: now - REPLAYED_DAYS * DAY_MS, to: now };
  const asked = { workspaceId: workspace.id, policy: other, ...span, heard };
  const replayed = await replayWorkspace(lists(), asked);
  if (!replayed) throw deny("not_found", "The workspace is gone.");
  return wholeList(replayed.days);
}

async function policy({ sql }: CapParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const [{ policy, version }, shadow] = await Promise.all([policyInForce(sql), shadowOf(sql, visit)]);
  const body = { object: "policy", version: String(version), policy, default_policy: DEFAULT_POLICY, shadow };
  return { status: 200, body };
}

/**
 * The policy that is tried beside it, and what each of them did to this workspace since; null: there is none.
 */
async function shadowOf(sql: Sql, { workspace: { id }, now }: VisitOf<KnownWorkspace>) {
  const shadow = await shadowInForce(sql);
  if (!shadow) return null;
  const [steps, inForce, changes] = await Promise.all([
    countShadowSteps(sql, [id]),
    countSteps(sql, [id], shadow.since, new Date(now)),
    listShadowChanges(sql, [id], HISTORY_SHOWN),
  ]);
  return {
    policy: shadow.policy,
    since: shadow.since.toISOString(),
    steps: { shadow: steps, in_force: inForce },
    changes: changes.map(({ at, dayBefore, dayAfter, levelBefore, level, reason }) => ({
      ...{ at: at.toISOString(), day_before: dayBefore, day_after: dayAfter },
      ...{ level_before: levelBefore, level, reason },
    })),
  };
}

async function simulate(
  { sql }: CapParts,
  simulations: Simulations,
  visit: VisitOf<KnownWorkspace, Static<typeof Simulated>>,
): Promise<ConsoleAnswer> {
  const asked = visit.body;
  const scenario = scenarioOf(asked.scenario);
  const inForce = (await policyInForce(sql)).policy;
  const policies =
    asked.policy === undefined
      ? [{ name: "in force", value: inForce }]
      : [
          { name: "the policy in force", value: inForce },
          { name: "your policy", value: readPolicyOf(asked.policy) },
        ];
  const { days = scenario.days, runs = 1, seed = 1 } = asked;
  const named = { name: asked.scenario, value: scenario };
  const found = await simulations.run(visit.workspace.id, {
    policies,
    scenario: named,
    days,
    runs,
    seed,
    threads: 1,
  });
  return { status: 200, body: { object: "simulation", ...found } };
}

function scenarioOf(name: string) {
  const file = scenarioFile(name);
  if (file === null)
    throw deny(
      "validation_error",
      `There is no scenario ${name}. The scenarios are ${scenarioNames().join(", ")}.`,
    );
  return checkScenario(JSON.parse(readFileSync(file, "utf8")));
}

function readPolicyOf(document: unknown): Policy {
  try {
    return checkPolicy(document);
  } catch (error) {
    throw deny("validation_error", error instanceof Error ? error.message : "The policy is not valid.");
  }
}

/** On threads, a few at a time and one of a workspace: one takes a core for seconds. */
class Simulations {
  /** How much of each is done, between 0 and 1. */
  readonly #running = new Map<string, { share: number }>();

  async run(workspaceId: string, setup: Setup): Promise<object> {
    if (this.#running.size >= SIMULATIONS_MAX || this.#running.has(workspaceId))
      throw deny("service_unavailable", "Other simulations are running. Try again in some seconds.");
    const done = { share: 0 };
    this.#running.set(workspaceId, done);
    try {
      return await simulatedOn(new Worker(THREAD, { workerData: setup, execArgv: [] }), (share) => {
        done.share = share;
      });
    } finally {
      this.#running.delete(workspaceId);
    }
  }

  /** null: none runs here. */
  shareOf(workspaceId: string): number | null {
    return this.#running.get(workspaceId)?.share ?? null;
  }
}

function simulatedOn(worker: Worker, progress: StudyProgress): Promise<object> {
  return new Promise((resolve, reject) => {
    const inTime = whenLate(SIMULATION_MS_MAX, () => {
      void worker.terminate();
      reject(deny("validation_error", "The simulation takes too long. Ask for fewer days or runs."));
    });
    worker.on("message", (news: StudyNews) => {
      if ("found" in news) resolve(news.found);
      else progress(news.share);
    });
    worker.once("error", reject);
    worker.once("exit", (status) => {
      inTime();
      reject(new Error(`The thread of a simulation ended with ${status}.`));
    });
  });
}

async function setByHand(
  parts: CapParts,
  visit: VisitOf<KnownPerson, AskedOverride>,
): Promise<ConsoleAnswer> {
  const { sql, keyring, reservations } = parts;
  const { params, session, body: asked, now } = visit;
  const id = (params[0] ?? "").toLowerCase();
  const override = asked.clear ? null : overrideIn(asked, session.email, now);
  const by = { name: session.email, reason: asked.reason };
  const { policy } = await policyInForce(sql);
  const changed = isUuid(id) ? await setOverride(sql, policy, id, override, by, now) : null;
  if (!changed) throw deny("not_found", "There is no workspace with this id.");
  if (changed.version > 0) await keyring.forget(changed.handle, changed.version);
  await reservations.forget(changed.handle);
  const account = await readAccount(sql, id);
  const { capDay = 0, capHour = 0 } = account?.allowance ?? {};
  const caps = { cap_day: capDay, cap_hour: capHour, override };
  return { status: 200, body: { object: "caps", ...caps }, detail: caps };
}

type AskedOverride = Static<typeof SetByHand>;

function overrideIn(asked: AskedOverride, by: string, now: number): Override {
  const { minimum = null, maximum = null, fixed = null, fixed_hour: fixedHour = null, reason } = asked;
  if ([minimum, maximum, fixed, fixedHour].every((value) => value === null))
    throw deny("validation_error", "Give `minimum`, `maximum`, `fixed`, `fixed_hour` or `clear`.");
  if (minimum !== null && maximum !== null && minimum > maximum)
    throw deny("validation_error", "`minimum` must not be larger than `maximum`.");
  const until = asked.until === undefined ? null : Date.parse(asked.until);
  if (until !== null && !(until > now))
    throw deny("validation_error", "`until` must be a time in the future.");
  return { minimum, maximum, fixed, fixedHour, until, by, reason };
}
