/**
 * The automate role: takes up runs that are due, in sets, and leads each from step to step until it sleeps or ends.
 *
 * Promises: what a step does, it does before the run is moved, and under a name of its own (an e-mail's id), so that a
 * worker that dies in between repeats it without effect. A run of which nothing can be said for certain, because a
 * store did not answer, stays where it is and is tried again. Plain timers: nothing here is needed to be told that a
 * run is due.
 *
 * Refuses: a run that was taken up again and again without a word of what became of it; it stops, and says so.
 */
import type { Links } from "../audience/links.ts";
import type { Clock } from "../clock.ts";
import { readDocuments } from "../record/automations.ts";
import type { Sql } from "../record/connect.ts";
import type { ContactCommit } from "../record/contactcommit.ts";
import type { NewEmail } from "../record/emails.ts";
import {
  type ClaimedRun,
  type ContactOfRun,
  claimRuns,
  moveRuns,
  type RunMove,
  readContacts,
  readEvents,
} from "../record/runs.ts";
import type { SubmitOwn } from "../submit.ts";
import type { Compiled } from "../template/compile.ts";
import { type Shelf, turn } from "../template/shelf.ts";
import { END, type Move, moveFrom } from "./advance.ts";
import { type Automation, checkDocument, type Send, type TagChange } from "./document.ts";
import type { Happening } from "./filters.ts";
import { compileOwn, emailIdOf, writeLetter } from "./letter.ts";

const RUNS_MAX = 500;
/** Sets at work at once: while one waits for Postgres, the other is computed. */
const SETS_MAX = 2;
const IDLE_MS = 250;
const FAULT_MS = 1_000;
/** A worker that holds runs longer is taken for dead. */
const LEASE_MS = 20_000;
/** No new step is begun when so much of the lease has gone. */
const LEASE_USED_MS_MAX = 8_000;
const RETRY_MS = 5_000;
const CLAIMS_MAX = 10;
/** A run that was taken up more often, and of which nothing was heard, is led alone. */
const SHARED_CLAIMS_MAX = 2;
const DOCUMENTS_KEPT_MAX = 100;
const TAG_ENTRY_BYTES = 500;
/** Letters that are written before others get their turn on this thread. */
const LETTERS_PER_TURN = 50;
const DAY_MS = 86_400_000;

export type WorkParts = {
  sql: Sql;
  submitOwn: SubmitOwn;
  contacts: ContactCommit;
  shelf: Shelf;
  links: Links;
  clock: Clock;
  /** E-mail rows live so long: an older step cannot have written one that is still there. */
  retentionDays: number;
  onFault(error: unknown): void;
};

type Plan = { automation: Automation; own: Map<Send, Compiled> };
type Traveller = { run: ClaimedRun; event: Happening; plan: Plan };
/** What a step came to: a note for the history, or null when it has to be tried again. */
type Result = { result: string; detail: string | null } | null;
type Sent = { traveller: Traveller; move: Extract<Move, { kind: "send" }> };

export class Worker {
  readonly #parts: WorkParts;
  readonly #plans = new Map<string, Plan>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #running = new Set<Promise<void>>();
  #isStopped = false;

  constructor(parts: WorkParts) {
    this.#parts = parts;
  }

  start(): void {
    for (let n = 0; n < SETS_MAX; n++) this.#after((n * IDLE_MS) / SETS_MAX);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(this.#running);
  }

  /** Leads the runs that are due as far as they go now; says whether there may be more. */
  async tick(): Promise<boolean> {
    const { sql, clock, retentionDays } = this.#parts;
    const now = clock.now();
    const staleAt = now - retentionDays * DAY_MS;
    const claimed = await claimRuns(sql, { now, leaseMs: LEASE_MS, staleAt, most: RUNS_MAX });
    const until = performance.now() + LEASE_USED_MS_MAX;
    await this.#lead(
      claimed.filter(({ claims }) => claims <= SHARED_CLAIMS_MAX),
      until,
    );
    // one of these may bring down whoever takes it up, and the others with it
    for (const run of claimed.filter(({ claims }) => claims > SHARED_CLAIMS_MAX))
      await this.#lead([run], until);
    return claimed.length === RUNS_MAX;
  }

  async #lead(runs: readonly ClaimedRun[], until: number): Promise<void> {
    if (runs.length === 0) return;
    let left = [...runs];
    try {
      let travellers = await this.#travellers(runs);
      while (travellers.length > 0 && performance.now() < until) {
        travellers = await this.#step(travellers);
        left = travellers.map(({ run }) => run);
      }
      if (left.length > 0) await this.#putOff(left, 0);
    } catch (error) {
      this.#parts.onFault(error);
      await this.#putOff(left, RETRY_MS);
    }
  }

  async #putOff(runs: readonly ClaimedRun[], ms: number): Promise<void> {
    const at = this.#parts.clock.now();
    await this.#move(runs.map((run) => ({ run, note: null, at, to: { kind: "retry", wakeAt: at + ms } })));
  }

  /** With the event that started it and the document it follows. */
  async #travellers(runs: readonly ClaimedRun[]): Promise<Traveller[]> {
    const [events, plans] = await Promise.all([readEvents(this.#parts.sql, runs), this.#load(runs)]);
    const byId = new Map(events.map((event) => [event.workspaceId + event.id, event]));
    return runs.map((run) => {
      const event = byId.get(run.workspaceId + run.eventId);
      const happening = { name: event?.name ?? "", properties: event?.properties ?? {} };
      return { run, event: happening, plan: plans.get(keyOf(run)) as Plan };
    });
  }

  /** One step of each run; hands back those that go on at once. */
  async #step(travellers: readonly Traveller[]): Promise<Traveller[]> {
    const { clock, sql } = this.#parts;
    const now = clock.now();
    const runs = travellers.map(({ run }) => run);
    const contacts = await readContacts(sql, runs);
    const contactOf = new Map(contacts.map((contact) => [contact.workspaceId + contact.id, contact]));
    const steps = travellers.map((traveller) => ({
      traveller,
      move: this.#decide(traveller, contactOf.get(traveller.run.workspaceId + traveller.run.contactId), now),
    }));
    const results = new Map<ClaimedRun, Result>();
    const sends = steps.flatMap(({ traveller, move }) => (move.kind === "send" ? [{ traveller, move }] : []));
    const tags = steps.flatMap(({ traveller, move }) =>
      move.kind === "tag" ? [{ run: traveller.run, tag: move.tag }] : [],
    );
    await Promise.all([this.#send(sends, results), this.#tag(tags, results)]);
    const at = clock.now();
    const moves = steps.map(({ traveller: { run }, move }) =>
      moveOf(run, move, results.get(run) ?? null, at),
    );
    const moved = await this.#move(moves);
    return travellers.flatMap(({ run, ...rest }, n) => {
      const { to } = moves[n] as RunMove;
      if (to.kind !== "on" || !moved.has(run.id)) return [];
      const next = { ...run, position: to.position, seq: run.seq + 1, claims: 0, steppedAt: new Date(at) };
      return [{ run: next, ...rest }];
    });
  }

  #decide({ run, event, plan }: Traveller, contact: ContactOfRun | undefined, now: number): Move {
    const { automationId, createdAt, claims } = run;
    if (claims > CLAIMS_MAX) return { kind: "stop", reason: "given up" };
    const traveller = { automationId, startedAt: createdAt.getTime(), contact: contact ?? null, event };
    return moveFrom(plan.automation, run.position, traveller, now);
  }

  /** Those of one workspace are submitted together. */
  async #send(sends: readonly Sent[], results: Map<ClaimedRun, Result>): Promise<void> {
    const byWorkspace = new Map<string, Sent[]>();
    for (const one of sends) {
      const { workspaceId } = one.traveller.run;
      const some = byWorkspace.get(workspaceId);
      if (some) some.push(one);
      else byWorkspace.set(workspaceId, [one]);
    }
    await Promise.all(
      [...byWorkspace].map(([workspaceId, some]) =>
        this.#sendOf(workspaceId, some, results).catch(this.#parts.onFault),
      ),
    );
  }

  async #sendOf(
    workspaceId: string,
    sends: readonly Sent[],
    results: Map<ClaimedRun, Result>,
  ): Promise<void> {
    const refs = sends.flatMap(({ move }) => move.send.template ?? []);
    const saved =
      refs.length === 0 ? new Map<string, Compiled>() : await this.#parts.shelf.fetch(workspaceId, refs);
    const emails: NewEmail[] = [];
    const written: ClaimedRun[] = [];
    for (const [n, one] of sends.entries()) {
      if (n > 0 && n % LETTERS_PER_TURN === 0) await turn();
      const { run } = one.traveller;
      const letter = this.#write(one, saved);
      if ("reason" in letter) {
        results.set(run, { result: "skipped", detail: letter.reason });
        continue;
      }
      emails.push(letter);
      written.push(run);
    }
    if (emails.length === 0) return;
    const handle = (written[0] as ClaimedRun).handle;
    await this.#parts.submitOwn({ workspaceId, handle, bulk: true, emails });
    for (const run of written) results.set(run, { result: "done", detail: emailIdOf(run) });
  }

  #write({ traveller: { run, event, plan }, move }: Sent, saved: ReadonlyMap<string, Compiled>) {
    const { links, clock } = this.#parts;
    const { send, contact } = move;
    const template = send.template === undefined ? plan.own.get(send) : saved.get(send.template);
    return writeLetter(run, send, { contact, event }, template ?? null, links, clock.now());
  }

  async #tag(
    tags: readonly { run: ClaimedRun; tag: TagChange }[],
    results: Map<ClaimedRun, Result>,
  ): Promise<void> {
    const { contacts, clock, onFault } = this.#parts;
    await Promise.all(
      tags.map(async ({ run, tag }) => {
        const { workspaceId, audienceId, contactId } = run;
        const verdict = await contacts.submit({
          workspaceId,
          audienceId,
          who: { id: contactId },
          change: { kind: "tag", ...tag },
          keyId: null,
          now: clock.now(),
          bytes: TAG_ENTRY_BYTES,
        });
        switch (verdict.kind) {
          case "changed":
            results.set(run, { result: "done", detail: null });
            return;
          case "too much":
            results.set(run, { result: "skipped", detail: `${verdict.field} ${verdict.message}` });
            return;
          case "no contact":
          case "no audience":
          case "not open":
            // archived or erased between reading and writing: found so when the step is tried again
            return;
          case "failed":
          case "unknown":
            onFault(verdict.error);
        }
      }),
    );
  }

  #move(moves: readonly RunMove[]): Promise<Set<string>> {
    return moveRuns(this.#parts.sql, moves);
  }

  /** The versions of these runs: parsed once, and those used last are kept. */
  async #load(runs: readonly ClaimedRun[]): Promise<Map<string, Plan>> {
    const wanted = new Map(runs.map((run) => [keyOf(run), run]));
    const plans = new Map([...this.#plans].filter(([key]) => wanted.has(key)));
    const missing = [...wanted.values()].filter((run) => !plans.has(keyOf(run)));
    if (missing.length > 0)
      for (const { document, ...version } of await readDocuments(this.#parts.sql, missing)) {
        const automation = checkDocument(document);
        plans.set(keyOf(version), { automation, own: compileOwn(automation) });
        await turn();
      }
    for (const [key, plan] of plans) {
      this.#plans.delete(key);
      this.#plans.set(key, plan);
    }
    for (const key of this.#plans.keys()) {
      if (this.#plans.size <= DOCUMENTS_KEPT_MAX) break;
      this.#plans.delete(key);
    }
    return plans;
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
      ms = (await this.tick()) ? 0 : IDLE_MS;
    } catch (error) {
      this.#parts.onFault(error);
    }
    this.#after(ms);
  }
}

const FINISHED = { kind: "end", state: "finished", reason: null } as const;

/** A step that came to nothing for now stays where it is. */
function moveOf(run: ClaimedRun, move: Move, result: Result, at: number): RunMove {
  const on = (kind: string, done: NonNullable<Result>, position: string): RunMove => ({
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

function keyOf({
  workspaceId,
  automationId,
  version,
}: Pick<ClaimedRun, "workspaceId" | "automationId" | "version">) {
  return `${workspaceId} ${automationId} ${version}`;
}
