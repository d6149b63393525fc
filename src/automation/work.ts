/**
 * The automate role: takes up runs that are due, in sets, and leads each from step to step until it sleeps or
 * ends.
 *
 * Promises: what a step does, it does before the run is moved, and under a name of its own (an e-mail's id),
 * so that a worker that dies in between repeats it without effect. A run of which nothing can be said for
 * certain, because a store did not answer, stays where it is and is tried again. A look at Postgres says when
 * the next run is due: nobody is needed to tell.
 *
 * Refuses: a run that was taken up again and again without a word of what became of it, or whose step
 * Postgres will never keep; it stops, and says so.
 */

import { messageOf } from "../caught.ts";
import { Counter, Histogram, SIZES } from "../meter.ts";
import {
  type ClaimedRun,
  type ContactOfRun,
  claimRuns,
  claimShares,
  type FoundRun,
  moveRuns,
  nextWake,
  type RunMove,
  readContacts,
  readEvents,
  releaseRuns,
  workspacesWithRuns,
} from "../record/automations/runs.ts";
import { isMoving } from "../record/cells/moving.ts";
import type { Sql } from "../record/db/connect.ts";
import { isFaultOfOne } from "../record/db/groupcommit.ts";
import type { Looks } from "../record/db/looks.ts";
import { ComparingBudget } from "../rules/filters.ts";
import { turnIfLate } from "../turn.ts";
import { END, type Move, moveFrom } from "./advance.ts";
import { type EffectParts, type EffectResult, Effects, type RunInHand, type StepToTake } from "./effects.ts";
import { Plans } from "./plans.ts";

const STEPS = new Counter(
  "postrider_automation_steps_total",
  "Steps that runs have taken, by what became of the run",
  ["step", "run"],
);
const TAKEN = new Histogram("postrider_automation_runs_taken", "Runs that were taken up together", SIZES);

const RUNS_MAX = 500;
/** Where more are due, so many of each workspace come along, of some workspaces at a time. */
const SHARE_RUNS_MAX = 5;
const SHARES_MAX = 50;
const WORKSPACE_FIRST = "00000000-0000-0000-0000-000000000000";
/** Looked at for that; most only sleep. */
const WORKSPACES_MAX = 500;
/** Sets at work at once: while one waits for Postgres, the other is computed. */
const SETS_MAX = 2;
/** Of the runs of one workspace in a round, some 100 ms: what is left of them has its step in the next. */
const COMPARING_UNITS_A_ROUND = 50_000_000;
const FAULT_MS = 1_000;
/** A worker that holds runs longer is taken for dead. */
const LEASE_MS = 20_000;
/** No new step is begun when so much of the lease has gone. */
const LEASE_USED_MS_MAX = 8_000;
const RETRY_MS = 5_000;
const LOOK_EVERY_MS = 250;
const CLAIMS_MAX = 10;
/** A run that was taken up more often, and of which nothing was heard, is led alone. */
const SHARED_CLAIMS_MAX = 2;

export type RunWorkerParts = EffectParts & { sql: Sql };

export class Worker {
  readonly #parts: RunWorkerParts;
  readonly #plans: Plans;
  readonly #effects: Effects;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #running = new Set<Promise<void>>();
  /** At work, or waiting until they go on. */
  #sets = 0;
  /** More runs were due than were taken up the last time. */
  #isCrowded = false;
  /** The last workspace that had its share. */
  #sharedTo = WORKSPACE_FIRST;
  #unfollow = () => {};
  #isStopped = false;

  constructor(parts: RunWorkerParts) {
    this.#parts = parts;
    this.#plans = new Plans(parts.sql);
    this.#effects = new Effects(parts);
  }

  start(looks: Looks): void {
    this.#unfollow = looks.ask(LOOK_EVERY_MS, nextWake, (wakeAt: number | null) => {
      if (wakeAt === null || this.#sets === SETS_MAX) return;
      const ms = wakeAt - this.#parts.clock.now();
      if (ms < LOOK_EVERY_MS) this.#begin(Math.max(0, ms));
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#unfollow();
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(this.#running);
  }

  /** Leads the runs that are due as far as they go now; says when to go on, or that nothing is left. */
  async tick(): Promise<"at once" | "later" | "done"> {
    const { sql, clock } = this.#parts;
    const found = await this.#claim();
    const claimed = found.filter((run) => !run.isHeld);
    if (claimed.length > 0) TAKEN.note(claimed.length);
    const until = performance.now() + LEASE_USED_MS_MAX;
    // one of these may bring down whoever takes it up, and so may a new run: the others are in nobody's hands
    // then
    const [suspect, ...others] = claimed
      .filter(({ claims }) => claims > SHARED_CLAIMS_MAX)
      .sort((a, b) => a.claims - b.claims);
    if (others.length > 0) await releaseRuns(sql, others, clock.now());
    const isRefused = await this.#lead(
      claimed.filter(({ claims }) => claims <= SHARED_CLAIMS_MAX),
      until,
    );
    const isLate = performance.now() >= until;
    if (suspect && isLate) await releaseRuns(sql, [suspect], clock.now());
    else if (suspect) await this.#lead([suspect], until);
    if (isRefused) return "later";
    return found.length >= RUNS_MAX || others.length > 0 || (suspect && isLate) ? "at once" : "done";
  }

  /** The oldest that are due, and where these are many, some of others that wait behind them. */
  async #claim(): Promise<FoundRun[]> {
    const { sql, clock } = this.#parts;
    const now = clock.now();
    const workspaceIds = this.#isCrowded ? await this.#nextShares(now) : [];
    const claim = { now, leaseMs: LEASE_MS };
    const shared =
      workspaceIds.length > 0 ? await claimShares(sql, workspaceIds, { most: SHARE_RUNS_MAX, ...claim }) : [];
    const oldest = await claimRuns(sql, { most: RUNS_MAX, ...claim });
    this.#isCrowded = oldest.length === RUNS_MAX;
    return [...shared, ...oldest];
  }

  /** Whose turn it is to have a share, round and round. */
  async #nextShares(now: number): Promise<string[]> {
    const asked = { after: this.#sharedTo, now, most: WORKSPACES_MAX };
    const seen = await workspacesWithRuns(this.#parts.sql, asked);
    const due = seen.filter(({ isDue }) => isDue).slice(0, SHARES_MAX);
    const last = due.length === SHARES_MAX ? due.at(-1) : seen[WORKSPACES_MAX - 1];
    this.#sharedTo = last?.workspaceId ?? WORKSPACE_FIRST;
    return due.map(({ workspaceId }) => workspaceId);
  }

  /** Says whether mail was refused. */
  async #lead(runs: readonly ClaimedRun[], until: number): Promise<boolean> {
    if (runs.length === 0) return false;
    let left = [...runs];
    let isRefused = false;
    try {
      let runsInHand = await this.#runsInHand(runs);
      left = runsInHand.map(({ run }) => run);
      const putOff = runs.filter((run) => !left.includes(run));
      if (putOff.length > 0) await releaseRuns(this.#parts.sql, putOff, this.#parts.clock.now());
      while (runsInHand.length > 0 && performance.now() < until && !this.#isStopped) {
        const stepped = await this.#step(runsInHand);
        runsInHand = stepped.runsInHand;
        isRefused ||= stepped.isRefused;
        left = runsInHand.map(({ run }) => run);
      }
      if (left.length > 0) await this.#postpone(left, 0);
    } catch (error) {
      this.#parts.onFault(error);
      if (!isFaultOfOne(error)) await this.#postpone(left, RETRY_MS);
      else if (left.length > 1)
        for (const run of left) isRefused = (await this.#lead([run], until)) || isRefused;
      // else its lease ends, and it is taken up where its workspace is then
      else if (!isMoving(error)) await this.#giveUp(left[0] as ClaimedRun, error);
    }
    return isRefused;
  }

  /**
   * With the event that started it and the version it follows. Those whose versions have no room now are left
   * out.
   */
  async #runsInHand(runs: readonly ClaimedRun[]): Promise<RunInHand[]> {
    const [events, planOf] = await Promise.all([readEvents(this.#parts.sql, runs), this.#plans.of(runs)]);
    const byId = new Map(events.map((event) => [event.workspaceId + event.id, event]));
    return runs.flatMap((run) => {
      const plan = planOf(run);
      if (!plan) return [];
      const event = byId.get(run.workspaceId + run.eventId);
      const happening = { name: event?.name ?? "", properties: event?.properties ?? {} };
      return [{ run, event: happening, plan }];
    });
  }

  /**
   * One step of each run, but of a workspace whose runs compare too much for one round; hands back those that
   * go on at once.
   */
  async #step(runsInHand: readonly RunInHand[]): Promise<{ runsInHand: RunInHand[]; isRefused: boolean }> {
    const { clock, sql } = this.#parts;
    const contacts = await readContacts(
      sql,
      runsInHand.map(({ run }) => run),
    );
    const contactOf = new Map(contacts.map((contact) => [contact.workspaceId + contact.id, contact]));
    const now = clock.now();
    const steps: StepToTake[] = [];
    const leftOut: RunInHand[] = [];
    const compared = new Map<string, number>();
    for (const runInHand of runsInHand) {
      const late = turnIfLate();
      if (late) await late;
      const { workspaceId, contactId } = runInHand.run;
      const before = compared.get(workspaceId) ?? 0;
      if (before > COMPARING_UNITS_A_ROUND) {
        leftOut.push(runInHand);
        continue;
      }
      const contact = contactOf.get(workspaceId + contactId) ?? null;
      const budget = new ComparingBudget();
      steps.push({ runInHand, move: decide(runInHand, contact, now, budget) });
      compared.set(workspaceId, before + budget.used);
    }
    const { results, isRefused } = await this.#effects.happen(steps);
    const at = clock.now();
    const moves = steps.map(({ runInHand: { run }, move }) =>
      moveOf(run, move, results.get(run) ?? null, at),
    );
    const moved = await moveRuns(sql, moves);
    for (const [n, { to }] of moves.entries()) STEPS.add(1, steps[n]?.move.kind ?? "none", to.kind);
    const going = steps.flatMap(({ runInHand: { run, ...rest } }, n) => {
      const { to } = moves[n] as RunMove;
      if (to.kind !== "on" || !moved.has(run.id)) return [];
      const next = { ...run, position: to.position, seq: run.seq + 1, claims: 0, steppedAt: new Date(at) };
      return [{ run: next, ...rest }];
    });
    return { runsInHand: [...leftOut, ...going], isRefused };
  }

  async #postpone(runs: readonly ClaimedRun[], ms: number): Promise<void> {
    const at = this.#parts.clock.now();
    await moveRuns(
      this.#parts.sql,
      runs.map((run) => ({ run, note: null, at, to: { kind: "retry", wakeAt: at + ms } })),
    );
  }

  async #giveUp(run: ClaimedRun, error: unknown): Promise<void> {
    const reason = `its step cannot be kept: ${messageOf(error)}`;
    const at = this.#parts.clock.now();
    await moveRuns(this.#parts.sql, [{ run, note: null, at, to: { kind: "end", state: "stopped", reason } }]);
  }

  #begin(ms: number): void {
    this.#sets++;
    this.#after(ms);
  }

  #after(ms: number): void {
    if (this.#isStopped) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      const run = this.#run().finally(() => this.#running.delete(run));
      this.#running.add(run);
    }, ms);
    this.#timers.add(timer);
  }

  async #run(): Promise<void> {
    let ms = FAULT_MS;
    try {
      const next = await this.tick();
      if (next === "done") {
        this.#sets--;
        return;
      }
      ms = next === "at once" ? 0 : RETRY_MS;
    } catch (error) {
      this.#parts.onFault(error);
    }
    this.#after(ms);
  }
}

function decide(
  { run, event, plan }: RunInHand,
  contact: ContactOfRun | null,
  now: number,
  budget: ComparingBudget,
): Move {
  const { automationId, createdAt, claims, position } = run;
  if (claims > CLAIMS_MAX) return { kind: "stop", reason: `given up after ${CLAIMS_MAX} tries` };
  if ("fault" in plan) return { kind: "stop", reason: plan.fault };
  const runInHand = { automationId, startedAt: createdAt.getTime(), contact, event };
  return moveFrom(plan.automation, position, runInHand, now, budget);
}

const FINISHED = { kind: "end", state: "finished", reason: null } as const;

/** A step without a result stays where it is for now. */
function moveOf(run: ClaimedRun, move: Move, result: EffectResult | null, at: number): RunMove {
  const on = (kind: string, done: EffectResult, position: string): RunMove => ({
    run,
    at,
    note: { kind, ...done },
    to: position === END ? FINISHED : { kind: "on", position },
  });
  switch (move.kind) {
    case "wait":
      return {
        run,
        at,
        note: { kind: "wait", result: "done", detail: new Date(move.until).toISOString() },
        to: { kind: "sleep", position: move.next, wakeAt: move.until },
      };
    case "send":
    case "tag":
      if (!result) return { run, at, note: null, to: { kind: "retry", wakeAt: at + RETRY_MS } };
      return on(move.kind, result, move.next);
    case "skip":
      return on(move.step, { result: "skipped", detail: move.reason }, move.next);
    case "branch":
      return on("split", { result: move.label ?? "none", detail: null }, move.next);
    case "finish":
      return { run, at, note: null, to: FINISHED };
    case "stop":
      return { run, at, note: null, to: { kind: "end", state: "stopped", reason: move.reason } };
  }
}
