/**
 * One simulated life of a workspace, told bin by bin, and the same life on the real path: requests, Redis,
 * the commit, the keeper, the settler, reports. What the simulator says of a bin is done for real; caps,
 * states, and what waits and goes are compared at every step.
 */
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { type Asked, Reservations } from "../../src/admission/reserve.ts";
import { setOverride } from "../../src/capacity/caps.ts";
import { type CapState, type DayCounts, DEFAULT_POLICY, type Override } from "../../src/capacity/policy.ts";
import { BIN_MINUTES, type BinMail, FIRST_MS, simulate } from "../../src/capacity/simulate.ts";
import type { Scenario, ScenarioEvent } from "../../src/capacity/workload.ts";
import { DAY_MS } from "../../src/clock.ts";
import { type AttemptRules, attempted, judged } from "../../src/outcome/attempt.ts";
import { Settler } from "../../src/outcome/settler.ts";
import { makePartitions } from "../../src/record/db/partitions.ts";
import { applyReports, type Told } from "../../src/record/mail/applyreports.ts";
import { claimBag, loadOpen } from "../../src/record/mail/bagleases.ts";
import { recipientsOf } from "../../src/record/mail/emails.ts";
import { BULK, BULK_STREAM, TRANSACTIONAL, TRANSACTIONAL_STREAM } from "../../src/rules/stream.ts";
import { type Reply, replyOf } from "../../src/smtp/reply.ts";
import { MovableClock } from "./clock.ts";
import { type HandKeeper, handKeeper } from "./keeping.ts";
import { openStage, type Stage } from "./stage.ts";
import { emptyRedis } from "./wholeredis.ts";
import { Client, mail, type TestApi, type TestWorkspace, testApi } from "./workspace.ts";

const BIN_MS = BIN_MINUTES * 60_000;
const BATCH_MAX = 100;

/** The state at the look that begins a bin, what came of the mail in it, and what waited at its end. */
export type BinOfLife = {
  bin: number;
  now: number;
  state: CapState;
  isWorthALook: boolean;
  caps: BinMail["caps"];
  arrived: BinMail["arrived"];
  waiting: BinMail["waiting"];
  outcomes: Record<Kind, Outcomes>;
  late: { day: number; kind: Kind; bounced: number; complained: number }[];
};
type Kind = "transactional" | "automation";
const KINDS = ["transactional", "automation"] as const;
type Outcomes = { delivered: number; bounced: number; blocked: number; soft: number; fblDelivered: number };

/** Receivers answer at once: what they defer is the subject of other tests. */
export function lifeOf(scenario: Scenario, seed: number): BinOfLife[] {
  const looks: { bin: number; state: CapState; counts: DayCounts[]; mail: BinMail }[] = [];
  simulate(DEFAULT_POLICY, scenario, scenario.days, seed, (bin, state, counts, seen) => {
    looks.push({ bin, state: structuredClone(state), counts: structuredClone([...counts]), mail: seen });
  });
  return looks.slice(0, -1).map((look, n) => {
    const next = looks[n + 1] as (typeof looks)[number];
    const day = Math.floor(look.bin / (DAY_MS / BIN_MS));
    const grown = (of: number, kind: Kind, name: Counted): number =>
      countOf(next.counts, of, kind, name) - countOf(look.counts, of, kind, name);
    const outcomesOf = (kind: Kind): Outcomes => {
      const delivered = grown(day, kind, "delivered");
      const bounced = grown(day, kind, "bounced") - grown(day, kind, "lateBounced");
      const blocked = grown(day, kind, "blocked");
      // nothing is deferred here
      const soft = grown(day, kind, "attempted") - delivered - bounced - blocked;
      return { delivered, bounced, blocked, soft, fblDelivered: grown(day, kind, "fblDelivered") };
    };
    return {
      bin: look.bin,
      now: FIRST_MS + look.bin * BIN_MS,
      state: look.state,
      isWorthALook: n === 0 || !isDeepStrictEqual(look.state, looks[n - 1]?.state),
      caps: look.mail.caps,
      arrived: next.mail.arrived,
      waiting: next.mail.waiting,
      outcomes: { transactional: outcomesOf("transactional"), automation: outcomesOf("automation") },
      late: Array.from({ length: day + 1 }, (_, of) =>
        KINDS.map((kind) => ({
          ...{ day: of, kind },
          bounced: grown(of, kind, "lateBounced"),
          complained: grown(of, kind, "complained"),
        })),
      )
        .flat()
        .filter(({ bounced, complained }) => bounced + complained > 0),
    };
  });
}

type Counted = keyof NonNullable<DayCounts["bulk"]>;

/** What is not of the stream `bulk` is transactional. */
function countOf(counts: readonly DayCounts[], day: number, kind: Kind, name: Counted): number {
  const text = new Date(FIRST_MS + day * DAY_MS).toISOString().slice(0, 10);
  const known = counts.find((one) => one.day === text);
  const ofBulk = known?.bulk?.[name] ?? 0;
  return kind === "automation" ? ofBulk : (known?.[name] ?? 0) - ofBulk;
}

/**
 * Production releases all that waits at once; the simulator lets mail that has just come go before bulk mail
 * that waits. The two differ in a bin in which both find room, and only in their order.
 */
export function isUnordered(life: readonly BinOfLife[]): boolean {
  return life.some(({ arrived, waiting }, n) => {
    const before = life[n - 1]?.waiting;
    return (
      before !== undefined &&
      before.transactional > 0 &&
      before.automation > 0 &&
      arrived.transactional > 0 &&
      waiting.transactional === 0
    );
  });
}

type Processes = { api: TestApi; hand: HandKeeper; settler: Settler };

async function startProcesses(stage: Stage, clock: MovableClock): Promise<Processes> {
  const api = await testApi({ ...stage, clock });
  const settler = new Settler(api.sql, "test", (error) => {
    throw error;
  });
  return { api, hand: handKeeper(stage, clock), settler };
}

/** A workspace of production that lives a life of the simulator. */
export class RealLife {
  readonly #clock: MovableClock;
  readonly #stage: Stage;
  #processes: Processes;
  #ws!: TestWorkspace;
  #client!: Client;
  #waited = { transactional: 0, automation: 0 };
  /**
   * Delivered mail that nobody complained about and that did not come back, by day and kind; first what is
   * heard of.
   */
  readonly #taken = new Map<string, { hearing: string[]; deaf: string[] }>();

  private constructor(stage: Stage, clock: MovableClock, processes: Processes) {
    this.#stage = stage;
    this.#clock = clock;
    this.#processes = processes;
  }

  static async begin(): Promise<RealLife> {
    const [stage, clock] = [await openStage(), new MovableClock(FIRST_MS)];
    const life = new RealLife(stage, clock, await startProcesses(stage, clock));
    await makePartitions(life.#api.sql, clock.now());
    life.#ws = await life.#api.workspace("pro");
    life.#client = life.#ws.client;
    return life;
  }

  get #api(): TestApi {
    return this.#processes.api;
  }

  /** Other processes, and a Redis that has forgotten everything. */
  async restart(): Promise<void> {
    await emptyRedis(this.#api.redis);
    await this.#end();
    this.#processes = await startProcesses(this.#stage, this.#clock);
    this.#client = new Client(this.#api.url, this.#client.key);
  }

  async live(bin: BinOfLife, events: readonly ScenarioEvent[]): Promise<void> {
    const where = `bin ${bin.bin}, ${new Date(bin.now).toISOString()}`;
    this.#clock.set(bin.now);
    if (bin.bin % (DAY_MS / BIN_MS) === 0) await this.#beginDay(bin, events);
    if (bin.isWorthALook) await this.#look(bin, where);
    await this.#sendAll(bin, where);
    await this.#settle(bin, where);
    await this.#hear(bin);
    expect(await this.#waiting(), `${where}: what waits`).toEqual(bin.waiting);
    this.#waited = bin.waiting;
  }

  async #beginDay({ bin }: BinOfLife, events: readonly ScenarioEvent[]): Promise<void> {
    await makePartitions(this.#api.sql, this.#clock.now());
    const day = bin / (DAY_MS / BIN_MS);
    // the simulator begins each day with counts of nothing, production with those of its first mail: it means
    // the same
    await this.#api.sql`
      insert into cap_use (workspace_id, day, used, delayed)
      values (${this.#ws.id}, ${FIRST_MS / DAY_MS + day}, 0, 0) on conflict do nothing`;
    for (const event of events)
      if (event.kind === "override" && event.from_day === day) {
        const override: Override = {
          minimum: event.minimum ?? null,
          maximum: event.maximum ?? null,
          fixed: event.fixed ?? null,
          fixedHour: event.fixed_hour ?? null,
          until: FIRST_MS + event.to_day * DAY_MS,
          by: "test",
          reason: "test",
        };
        const by = { name: "test", reason: "test" };
        await setOverride(this.#api.sql, DEFAULT_POLICY, this.#ws.id, override, by, this.#clock.now());
      }
  }

  async #look({ state, caps }: BinOfLife, where: string): Promise<void> {
    while (await this.#processes.hand.keeper.caps()) {}
    const [row] = await this.#api.sql<{ state: CapState; capDay: number; capHour: number; share: number }[]>`
      select c.state, l.cap_day as "capDay", l.cap_hour as "capHour", l.reserved_share as share
      from capacity c join ledger l using (workspace_id) where workspace_id = ${this.#ws.id}`;
    expect(row?.state, `${where}: the state of the policy`).toEqual(state);
    expect(row, `${where}: the caps`).toMatchObject({ capDay: caps.capDay, capHour: caps.capHour });
    expect(row?.share, `${where}: the reserved share`).toBeCloseTo(caps.reservedShare, 5);
  }

  /**
   * In the order in which the simulator gives room: transactional mail, then bulk mail, each oldest first.
   */
  async #sendAll({ arrived }: BinOfLife, where: string): Promise<void> {
    const isReleased = this.#waited.transactional > 0;
    if (isReleased) await this.#processes.hand.keeper.release();
    await this.#send(TRANSACTIONAL, arrived.transactional, where);
    if (!isReleased && this.#waited.automation > 0) await this.#processes.hand.keeper.release();
    await this.#send(BULK, arrived.automation, where);
  }

  async #send(stream: typeof TRANSACTIONAL | typeof BULK, count: number, where: string): Promise<void> {
    for (let left = count; left > 0; left -= BATCH_MAX) {
      const many = Math.min(BATCH_MAX, left);
      const advised = await this.#advice(stream, many);
      const emails = Array.from({ length: many }, () => ({
        ...mail({ to: `${randomUUID()}@example.net` }),
        stream,
      }));
      const { status, body } = await this.#client.post<{ data: { id: string }[] }>("/emails/batch", emails);
      expect(status, `${where}: the answer to a send`).toBe(200);
      const ids = body.data.map(({ id }) => id);
      const [row] = await this.#api.sql<{ went: number }[]>`
        select count(*) filter (where status = 'accepted')::int as went from email
        where workspace_id = ${this.#ws.id} and id = any(${ids}::uuid[])`;
      expect(advised, `${where}: what Redis would grant of ${many} in ${stream}`).toBe(row?.went);
    }
  }

  /** What Redis grants before the ledger decides; given back at once. */
  async #advice(stream: typeof TRANSACTIONAL | typeof BULK, many: number): Promise<number> {
    const { redis, sql } = this.#api;
    const reservations = new Reservations(redis, sql, this.#clock);
    const { id: workspaceId, handle } = this.#ws;
    const asked: Asked = {
      ...(stream === BULK ? BULK_STREAM : TRANSACTIONAL_STREAM),
      ...{ reservationId: randomUUID(), handle, workspaceId, counted: many, countsDay: true },
      ...{ weights: Array<number>(many).fill(1), isWhole: true, claim: null },
    };
    const grant = await reservations.reserve(asked, () => this.#client.get("/emails?limit=1"));
    if (grant.kind !== "granted") throw new Error(`Redis says ${grant.kind}`);
    await reservations.refund(asked, grant);
    return grant.go;
  }

  async #settle({ outcomes, now }: BinOfLife, where: string): Promise<void> {
    const { sql } = this.#api;
    const replies = {
      transactional: repliesOf(outcomes.transactional),
      automation: repliesOf(outcomes.automation),
    };
    const expected = replies.transactional.length + replies.automation.length;
    const bags = await sql<{ id: string; generation: number }[]>`
      select id, generation from bag where workspace_id = ${this.#ws.id} and token is null order by id`;
    let went = 0;
    for (const { id, generation } of bags) {
      const bag = { workspaceId: this.#ws.id, id, generation, token: randomUUID() };
      const claimed = await claimBag(sql, bag, now);
      if (!claimed) throw new Error("a bag that nobody holds cannot be taken");
      for (const email of await loadOpen(sql, bag, claimed.emailIds)) {
        went++;
        const kind = email.bulk ? "automation" : "transactional";
        const next = replies[kind].pop();
        if (!next) continue;
        const time = { beganAt: now, at: now, shown: new Date(now).toISOString() };
        const recipients = recipientsOf(email.head);
        const rules = rulesFor(next.isHeard);
        const answers = [judged(next.reply, email, now, rules)];
        this.#processes.settler.note(attempted(bag, email, recipients, answers, time, rules).note);
        if (next.reply.code === 250) this.#note(email.id, kind, next.isHeard, now);
      }
      this.#processes.settler.finish(bag, () => {});
    }
    await this.#processes.settler.written();
    expect(went, `${where}: what went`).toBe(expected);
  }

  #note(id: string, kind: Kind, isHeard: boolean, now: number): void {
    const name = `${Math.floor((now - FIRST_MS) / DAY_MS)} ${kind}`;
    const taken = this.#taken.get(name) ?? { hearing: [], deaf: [] };
    (isHeard ? taken.hearing : taken.deaf).push(id);
    this.#taken.set(name, taken);
  }

  async #hear({ late, now }: BinOfLife): Promise<void> {
    const told = late.flatMap(({ day, kind, bounced, complained }): Told[] => {
      const taken = this.#taken.get(`${day} ${kind}`) ?? { hearing: [], deaf: [] };
      const bounces = Array.from({ length: bounced }, () => taken.deaf.pop() ?? taken.hearing.pop());
      const complaints = Array.from({ length: complained }, () => taken.hearing.pop());
      return [
        ...bounces.map((id) => this.#told(id, { kind: "bounced", category: "hard" }, now)),
        ...complaints.map((id) => this.#told(id, { kind: "complained" }, now)),
      ];
    });
    if (told.length === 0) return;
    const context = { worker: "test", hashOf: Buffer.from, series: null, now };
    const applied = await this.#api.sql.begin((tx) => applyReports(tx, context, told));
    expect(applied.map(({ result }) => result)).toEqual(told.map(({ what }) => what.kind));
  }

  #told(emailId: string | undefined, what: Told["what"], at: number): Told {
    if (emailId === undefined) throw new Error("there is no mail left that this could be about");
    const about = { workspaceId: this.#ws.id, emailId, place: 0, recipient: null };
    return { reportId: randomUUID(), ...about, onlyFor: null, isMixed: false, what, detail: "told", at };
  }

  async #waiting(): Promise<BinMail["waiting"]> {
    const [row] = await this.#api.sql<BinMail["waiting"][]>`
      select waiting as transactional, waiting_bulk as automation from ledger where workspace_id = ${this.#ws.id}`;
    return row as BinMail["waiting"];
  }

  async #end(): Promise<void> {
    expect(this.#api.faults).toEqual([]);
    await this.#processes.settler.close(1_000, 1_000);
    await this.#api.stop();
    await this.#processes.hand.close();
  }

  async close(): Promise<void> {
    await this.#end();
    await this.#stage.close();
  }
}

type Answered = { reply: Reply; isHeard: boolean };

function repliesOf({ delivered, bounced, blocked, soft, fblDelivered }: Outcomes): Answered[] {
  const many = (count: number, code: number, text: string, isHeard = false): Answered[] =>
    Array.from({ length: count }, () => ({
      reply: replyOf(code === 250 ? "dot" : "rcpt", code, text),
      isHeard,
    }));
  return [
    ...many(fblDelivered, 250, "250 taken", true),
    ...many(delivered - fblDelivered, 250, "250 taken"),
    ...many(bounced, 550, "550 5.1.1 user unknown"),
    ...many(blocked, 550, "550 5.7.1 blocked because of the reputation of your address"),
    ...many(soft, 552, "552 5.2.2 mailbox full"),
  ];
}

function rulesFor(isHeard: boolean): AttemptRules {
  return {
    carriesTo: "receivers",
    retrySchedule: [60],
    lifetimeMs: DAY_MS,
    hasFeedback: () => isHeard,
    hashOf: Buffer.from,
    countsSoft: false,
    onOutcome: () => {},
    providerOf: () => "",
    random: () => 0,
  };
}
