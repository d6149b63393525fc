/**
 * Reserves quota and caps in Redis: one script call decides and counts. The answer is only advice, so
 * requests that arrive together may share a call. `over` is confirmed with the ledger row before a caller
 * hears it, and a counter that disagrees with the ledger is rebuilt from it.
 */
import { randomBytes } from "node:crypto";
import type { Clock } from "../clock.ts";
import { Counter } from "../meter.ts";
import { expectHere } from "../record/cells/moving.ts";
import type { Sql } from "../record/db/connect.ts";
import { within } from "../record/db/groupcommit.ts";
import { type Account, readAccount } from "../record/workspaces/ledgers.ts";
import { keyspace } from "../redis/keyspace.ts";
import { loadScript, type RedisClient } from "../redis/scripts.ts";
import { advance, HOUR_BUCKETS, sum } from "../rules/ledger.ts";
import type { MailStream } from "../rules/stream.ts";
import { RECORD_MS_MAX, Unavailable } from "./unavailable.ts";

const RESERVATION_LIVES_MS = 60_000;
/**
 * How long a request may hold its idempotency key in Redis without an end: longer than any commit may take.
 */
const CLAIM_RUNS_MS = 10_000;
/** Counters are rebuilt from the ledger now and then, whether anyone doubts them or not. */
const USE_LIVES_MS = 600_000;

export type Asked = MailStream & {
  reservationId: string;
  handle: string;
  workspaceId: string;
  /** Recipients that count for the quota. */
  counted: number;
  countsDay: boolean;
  weights: readonly number[];
  /** Whether these are all e-mails of the request that would go now. */
  isWhole: boolean;
  claim: { scope: string; keyHash: string; digest: string } | null;
};

export type Grant =
  /** `isShared`: counted under one reservation with other requests. */
  | { kind: "granted"; epoch: string; go: number; isShared: boolean }
  /** Redis counts no room; only the ledger may say so to a caller. */
  | { kind: "over"; epoch: string }
  | { kind: "running" }
  | { kind: "conflict" };

type WaitingReservation = {
  asked: Asked;
  reload: () => Promise<unknown>;
  resolve(grant: Grant): void;
  reject(error: unknown): void;
};

const RESERVED = new Counter(
  "postrider_reservations_total",
  "Reservations of quota and caps in Redis, by the answer",
  ["answer"],
);

const reserveScript = loadScript(
  "reserve",
  ["workspace_record", "use", "reservation", "claim"],
  ["now", "lives_ms", "digest", "claim_ms", "counted", "counts_day", "bulk", "stream", "weights"],
);
const refundScript = loadScript("refund", ["use", "reservation", "claim"], ["frees_claim"]);
const restoreScript = loadScript(
  "restore",
  ["use"],
  [
    "doubted",
    "epoch",
    "month",
    "month_used",
    "day",
    "day_used",
    "cap_day_used",
    "cap_day_bulk",
    "bucket",
    "hour_used",
    "hour_bulk",
    "waiting",
    "waiting_bulk",
    "slots",
    "lives_ms",
  ],
);

export class Reservations {
  readonly #redis: RedisClient;
  readonly #reads: Sql;
  readonly #clock: Clock;
  readonly #restores = new Map<string, Promise<void>>();
  /** Requests of this turn of the event loop, by the handle of their workspace and their stream. */
  #arriving = new Map<string, WaitingReservation[]>();

  constructor(redis: RedisClient, reads: Sql, clock: Clock) {
    this.#redis = redis;
    this.#reads = reads;
    this.#clock = clock;
  }

  /** `reload` brings the workspace's record back when Redis lost it since the request was admitted. */
  async reserve(asked: Asked, reload: () => Promise<unknown>): Promise<Grant> {
    const grant = await this.#reserve(asked, reload);
    RESERVED.add(1, grant.kind);
    return grant;
  }

  async #reserve(asked: Asked, reload: () => Promise<unknown>): Promise<Grant> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const reply = await this.#ask(asked);
      if (reply[0] === "ok")
        return { kind: "granted", epoch: reply[1] as string, go: reply[2] as number, isShared: false };
      if (reply[0] === "over") return { kind: "over", epoch: reply[1] as string };
      if (reply[0] === "running" || reply[0] === "conflict") return { kind: reply[0] };
      if (reply[0] === "miss") await reload();
      if (reply[0] === "cold") await this.#restoreFromLedger(asked.handle, asked.workspaceId);
    }
    await within(expectHere(this.#reads, asked.workspaceId), RECORD_MS_MAX);
    throw new Unavailable("memory", "Redis keeps losing what it is told");
  }

  /**
   * As `reserve`, for a caller's request. Those of one workspace and stream that come in the same turn of the
   * event loop share one script call and one reservation. A request with an idempotency key asks alone, and
   * so does each of a group that is not granted as a whole.
   */
  reserveInTurn(asked: Asked, reload: () => Promise<unknown>): Promise<Grant> {
    if (asked.claim) return this.reserve(asked, reload);
    return new Promise((resolve, reject) => {
      const one = { asked, reload, resolve, reject };
      const together = `${asked.handle} ${asked.bulk} ${asked.stream}`;
      const others = this.#arriving.get(together);
      if (others) {
        others.push(one);
        return;
      }
      if (this.#arriving.size === 0) setImmediate(() => this.#reserveAll());
      this.#arriving.set(together, [one]);
    });
  }

  /** Undoes the reservation: nothing was written under it. A failure only leaves Redis counting too much. */
  async refund({ handle, reservationId, claim }: Asked, { isShared }: { isShared: boolean }): Promise<void> {
    // a part of a reservation cannot be given back; without counters the next request has them from the
    // ledger
    if (isShared) return this.forget(handle);
    await refundScript.run(
      this.#redis,
      {
        use: keyspace.use(handle),
        reservation: keyspace.reservation(handle, reservationId),
        claim: this.#claimKey(handle, claim),
      },
      { frees_claim: claim ? 1 : 0 },
    );
  }

  /** The answer to an idempotency key is in Postgres now: repeated requests are answered from there. */
  async endClaim({ handle, claim }: Asked): Promise<void> {
    if (claim) await this.#redis.del(this.#claimKey(handle, claim));
  }

  /** The counters of `epoch` disagreed with the ledger: replace them with what it says. */
  async restore(account: Account, doubted: string): Promise<void> {
    const { ledger, handle } = account;
    advance(ledger, this.#clock.now());
    const slots: string[] = [];
    for (let slot = 0; slot < HOUR_BUCKETS; slot++) {
      if (ledger.hourUsed[slot]) slots.push(`u${slot}=${ledger.hourUsed[slot]}`);
      if (ledger.hourBulk[slot]) slots.push(`b${slot}=${ledger.hourBulk[slot]}`);
    }
    for (const [name, { day, hour, waiting }] of Object.entries(ledger.streams)) {
      slots.push(`d:${name}=${day}`, `w:${name}=${waiting}`);
      for (const [slot, used] of hour.entries()) if (used > 0) slots.push(`n${slot}:${name}=${used}`);
    }
    await restoreScript.run(
      this.#redis,
      { use: keyspace.use(handle) },
      {
        doubted,
        epoch: randomBytes(9).toString("base64url"),
        month: ledger.month,
        month_used: ledger.monthUsed,
        day: ledger.day,
        day_used: ledger.dayUsed,
        cap_day_used: ledger.capDayUsed,
        cap_day_bulk: ledger.capDayBulk,
        bucket: ledger.bucket,
        hour_used: sum(ledger.hourUsed),
        hour_bulk: sum(ledger.hourBulk),
        waiting: waitingOf(account, false),
        waiting_bulk: waitingOf(account, true),
        slots: slots.join(" "),
        lives_ms: USE_LIVES_MS,
      },
    );
  }

  /** Caps or waiting mail changed in Postgres only: the next request rebuilds the counters. */
  async forget(handle: string): Promise<void> {
    await this.#redis.del(keyspace.use(handle));
  }

  #reserveAll(): void {
    const arrived = this.#arriving;
    this.#arriving = new Map();
    for (const group of arrived.values())
      this.#reserveTogether(group).then(
        (grants) => {
          for (const [place, { resolve }] of group.entries()) resolve(grants[place] as Grant);
        },
        (error: unknown) => {
          for (const { reject } of group) reject(error);
        },
      );
  }

  async #reserveTogether(group: readonly WaitingReservation[]): Promise<Grant[]> {
    const [{ asked: first, reload }] = group as [WaitingReservation];
    if (group.length > 1) {
      const counted = group.reduce((sum, { asked }) => sum + asked.counted, 0);
      const weights = group.flatMap(({ asked }) => asked.weights);
      const grant = await this.reserve({ ...first, counted, weights }, reload);
      if (grant.kind === "granted") return shareOut(grant, group);
    }
    return Promise.all(group.map((one) => this.reserve(one.asked, one.reload)));
  }

  async #ask(asked: Asked): Promise<readonly (string | number)[]> {
    const { handle, claim } = asked;
    try {
      return (await reserveScript.run(
        this.#redis,
        {
          workspace_record: keyspace.workspace(handle),
          use: keyspace.use(handle),
          reservation: keyspace.reservation(handle, asked.reservationId),
          claim: this.#claimKey(handle, claim),
        },
        {
          now: this.#clock.given(),
          lives_ms: RESERVATION_LIVES_MS,
          digest: claim?.digest ?? "",
          claim_ms: CLAIM_RUNS_MS,
          counted: asked.counted,
          counts_day: asked.countsDay ? 1 : 0,
          bulk: asked.bulk ? 1 : 0,
          stream: asked.stream,
          weights: asked.weights.join(" "),
        },
      )) as (string | number)[];
    } catch (error) {
      throw new Unavailable("redis", "Redis did not answer", error);
    }
  }

  #restoreFromLedger(handle: string, workspaceId: string): Promise<void> {
    const running = this.#restores.get(handle);
    if (running) return running;
    const restore = this.#readAndRestore(workspaceId).finally(() => this.#restores.delete(handle));
    this.#restores.set(handle, restore);
    return restore;
  }

  async #readAndRestore(workspaceId: string): Promise<void> {
    try {
      const account = await within(readAccount(this.#reads, workspaceId), RECORD_MS_MAX);
      if (account) await this.restore(account, "");
    } catch (error) {
      throw new Unavailable("stores", "the counters could not be rebuilt", error);
    }
  }

  #claimKey(handle: string, claim: Asked["claim"]): string {
    return claim ? keyspace.claim(handle, claim.scope, claim.keyHash) : keyspace.claim(handle, "none", "");
  }
}

/** What goes now are the first e-mails of them all, in the order of the requests. */
function shareOut(
  { epoch, go }: { epoch: string; go: number },
  group: readonly WaitingReservation[],
): Grant[] {
  let left = go;
  return group.map(({ asked: { weights } }) => {
    const own = Math.min(left, weights.length);
    left -= own;
    return { kind: "granted", epoch, go: own, isShared: true };
  });
}

/**
 * Of a kind, without what waits in deleted streams: reserve.lua does not know these, and would let the others
 * wait.
 */
function waitingOf({ ledger, allowance }: Account, bulk: boolean): number {
  let waiting = bulk ? ledger.waitingBulk : ledger.waiting;
  for (const [name, use] of Object.entries(ledger.streams))
    if (use.bulk === bulk && allowance.streams?.[name] === undefined) waiting -= use.waiting;
  return Math.max(0, waiting);
}
