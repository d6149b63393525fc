/**
 * Group commit: many requests, one transaction.
 *
 * No timer: while one transaction is in flight the next group gathers, so an idle engine commits at once and a busy
 * one writes thousands of rows per statement. A transaction is two round trips: lock the ledgers and take the
 * idempotency claims; then, decided, write everything and commit.
 *
 * Promises: `accepted` is said only after the commit. The ledger row, locked, has the last word on quota and caps. One
 * request that is refused, already answered or broken never fails its neighbours: a group that aborts is halved and
 * tried again, down to single requests. Whoever locks several workspaces does so in the order of their ids.
 *
 * When a connection dies, what matters is whether the commit had been sent: before it, nothing was written; after it,
 * Postgres is asked for the fate of exactly that transaction. If that cannot be learnt in time the answer is `unknown`.
 *
 * Refuses: more than its rows and bytes in hand at once (`takeRoom`), before anything is reserved.
 */
import { newId } from "../ids.ts";
import { type Bag, insertBags, pack } from "./bags.ts";
import { type Claim, dropClaims, takeClaims } from "./claims.ts";
import type { Sql, Statement } from "./connect.ts";
import { type Due, insertDue } from "./due.ts";
import {
  type AcceptedEmail,
  insertBodies,
  insertEmails,
  keepAttachments,
  type NewAttachment,
  type NewEmail,
} from "./emails.ts";
import { advance, judge, nextTurn } from "./ledger.ts";
import { type Account, expectRelease, lockAccounts, saveLedgers } from "./ledgers.ts";
import { shardOf } from "./shards.ts";

const GROUP_ROWS_MAX = 4_000;
const GROUP_BYTES_MAX = 4 * 1024 * 1024;
const HELD_ROWS_MAX = 40_000;
const HELD_BYTES_MAX = 256 * 1024 * 1024;
const FATE_POLL_MS = 50;

export type Submission = {
  workspaceId: string;
  /** The workspace's version under which the caller was admitted; null: not a caller's request. */
  version: number | null;
  now: number;
  bulk: boolean;
  /** Recipients that count for the quota. */
  counted: number;
  claim: Claim | null;
  emails: NewEmail[];
  attachments: NewAttachment[];
};

export type Committed =
  | { kind: "accepted"; go: number; account: Account }
  | { kind: "over"; period: "day" | "month"; limit: number; used: number; account: Account }
  /** The idempotency key was used before: with what digest, and what was answered. */
  | { kind: "claimed"; claim: Claim }
  /** The workspace has changed since the caller was admitted. */
  | { kind: "stale" }
  /** Certainly not written. */
  | { kind: "failed"; error: unknown }
  /** Nobody can say. */
  | { kind: "unknown"; error: unknown };

export type Room = { release(): void };

type Waiting = { submission: Submission; bytes: number; settle(committed: Committed): void };

export type GroupCommitOptions = {
  connect(): Sql;
  timeoutMs: number;
  /** Called after each commit with what may travel now. */
  onBags(bags: Bag[]): void;
};

class Deadline extends Error {}

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  #sql: Sql;
  #queue: Waiting[] = [];
  #running: Promise<void> | null = null;
  #heldRows = 0;
  #heldBytes = 0;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
    this.#sql = options.connect();
  }

  /** Room for a request that will be committed soon; null when the commit is overloaded. */
  takeRoom(rows: number, bytes: number): Room | null {
    const isIdle = this.#heldRows === 0;
    if (!isIdle && (this.#heldRows + rows > HELD_ROWS_MAX || this.#heldBytes + bytes > HELD_BYTES_MAX))
      return null;
    this.#heldRows += rows;
    this.#heldBytes += bytes;
    let held = true;
    return {
      release: () => {
        if (!held) return;
        held = false;
        this.#heldRows -= rows;
        this.#heldBytes -= bytes;
      },
    };
  }

  get heldRows(): number {
    return this.#heldRows;
  }

  submit(submission: Submission): Promise<Committed> {
    return new Promise((settle) => {
      let bytes = 0;
      for (const email of submission.emails) bytes += email.bytes;
      this.#queue.push({ submission, bytes, settle });
      this.#running ??= this.#run();
    });
  }

  async close(): Promise<void> {
    await this.#running;
    await this.#sql.end({ timeout: 1 });
  }

  async #run(): Promise<void> {
    // requests that arrived in the same turn of the event loop share the first commit
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#queue.length > 0) await this.#commit(this.#nextGroup());
    this.#running = null;
  }

  /** The next requests in order; one that repeats an idempotency key of the group waits for the group after. */
  #nextGroup(): Waiting[] {
    const group: Waiting[] = [];
    const repeats: Waiting[] = [];
    const claimed = new Set<string>();
    let rows = 0;
    let bytes = 0;
    let seen = 0;
    for (const one of this.#queue) {
      const { claim, emails } = one.submission;
      if (group.length > 0 && (rows + emails.length > GROUP_ROWS_MAX || bytes + one.bytes > GROUP_BYTES_MAX))
        break;
      seen++;
      if (claim && claimed.has(claimName(claim))) {
        repeats.push(one);
        continue;
      }
      if (claim) claimed.add(claimName(claim));
      group.push(one);
      rows += emails.length;
      bytes += one.bytes;
    }
    this.#queue = [...repeats, ...this.#queue.slice(seen)];
    return group;
  }

  async #commit(group: Waiting[]): Promise<void> {
    const attempt = new Attempt(this.#sql, this.#options.timeoutMs, group);
    let error: unknown;
    try {
      await attempt.run();
      const bags = attempt.bags;
      for (const one of group) one.settle(attempt.verdictOf(one));
      if (bags.length > 0) this.#options.onBags(bags);
      return;
    } catch (caught) {
      error = caught;
    }
    if (attempt.isConnectionDoubtful) this.#renewConnection();
    if (attempt.commitWasSent) {
      const fate = await this.#fateOf(attempt);
      if (fate === "committed") {
        for (const one of group) one.settle(attempt.verdictOf(one));
        if (attempt.bags.length > 0) this.#options.onBags(attempt.bags);
        return;
      }
      if (fate === "unknown") {
        for (const one of group) one.settle({ kind: "unknown", error });
        return;
      }
    }
    // certainly rolled back
    if (!isFaultOfOne(error) || group.length === 1) {
      for (const one of group) one.settle({ kind: "failed", error });
      return;
    }
    const half = Math.ceil(group.length / 2);
    await this.#commit(group.slice(0, half));
    await this.#commit(group.slice(half));
  }

  #renewConnection(): void {
    const old = this.#sql;
    this.#sql = this.#options.connect();
    // the old socket is dead or silent: nothing it still says is waited for
    old.end({ timeout: 0 }).catch(() => {});
  }

  async #fateOf(attempt: Attempt): Promise<"committed" | "aborted" | "unknown"> {
    const xid = attempt.xid;
    if (xid === null) return "aborted";
    const until = performance.now() + this.#options.timeoutMs;
    while (performance.now() < until) {
      try {
        const [row] = await within(
          this.#sql<{ status: string | null }[]>`select pg_xact_status(${xid}::xid8) as status`,
          Math.max(1, until - performance.now()),
        );
        if (row?.status === "committed" || row?.status === "aborted") return row.status;
      } catch (error) {
        if (error instanceof Deadline) this.#renewConnection();
      }
      await new Promise((resolve) => setTimeout(resolve, FATE_POLL_MS));
    }
    return "unknown";
  }
}

/** One transaction of one group. */
class Attempt {
  readonly #sql: Sql;
  readonly #timeoutMs: number;
  readonly #group: readonly Waiting[];
  readonly #verdicts = new Map<Waiting, Committed>();
  readonly #accepted: AcceptedEmail[] = [];
  readonly #going = new Map<string, NewEmail[]>();
  readonly #due: Due[] = [];
  readonly #attachments = new Map<string, NewAttachment>();
  bags: Bag[] = [];
  xid: string | null = null;
  commitWasSent = false;
  isConnectionDoubtful = false;

  constructor(sql: Sql, timeoutMs: number, group: readonly Waiting[]) {
    this.#sql = sql;
    this.#timeoutMs = timeoutMs;
    this.#group = group;
  }

  verdictOf(one: Waiting): Committed {
    return this.#verdicts.get(one) as Committed;
  }

  async run(): Promise<void> {
    const deadline = performance.now() + this.#timeoutMs;
    const left = () => Math.max(1, deadline - performance.now());
    let connection: Awaited<ReturnType<Sql["reserve"]>> | null = null;
    try {
      connection = await within(this.#sql.reserve(), left());
      await this.#transact(connection, left);
    } catch (error) {
      this.isConnectionDoubtful = !isRefusal(error);
      throw error;
    } finally {
      if (connection && !this.isConnectionDoubtful) connection.release();
    }
  }

  async #transact(tx: Awaited<ReturnType<Sql["reserve"]>>, left: () => number): Promise<void> {
    const workspaceIds = [...new Set(this.#group.map((one) => one.submission.workspaceId))];
    const now = new Date(Math.max(...this.#group.map((one) => one.submission.now)));
    const claims = this.#group.flatMap(({ submission }) => submission.claim ?? []);
    try {
      const [, accounts, [transaction], held] = await within(
        settled([
          // executed here and now: what is only awaited is sent some turns later, and nothing may come before it
          tx`begin`.execute(),
          lockAccounts(tx, workspaceIds),
          tx<{ xid: string }[]>`select pg_current_xact_id()::text as xid`,
          claims.length > 0 ? takeClaims(tx, claims, now) : Promise.resolve([]),
        ]),
        left(),
      );
      this.xid = transaction?.xid ?? null;
      const untaken = this.#decide(accounts, held, now.getTime());
      const writes = this.#writes(tx, accounts, untaken, now);
      this.commitWasSent = true;
      for (const write of writes) write.execute();
      const commit = tx`commit`.execute();
      await within(settled([...writes, commit.then(expectCommit)]), left());
    } catch (error) {
      if (isRefusal(error)) {
        this.commitWasSent = false;
        await within(tx`rollback`, this.#timeoutMs);
      }
      throw error;
    }
  }

  /** Fills in every request's verdict; hands back the claims that were taken in vain. */
  #decide(accounts: readonly Account[], held: readonly Claim[], now: number): Claim[] {
    const accountOf = new Map(accounts.map((account) => [account.workspaceId, account]));
    const heldBy = new Map(held.map((claim) => [claimName(claim), claim]));
    const untaken: Claim[] = [];
    for (const one of this.#group) {
      const { claim, version, workspaceId } = one.submission;
      const account = accountOf.get(workspaceId);
      const holder = claim && heldBy.get(claimName(claim));
      let verdict: Committed;
      if (holder) verdict = { kind: "claimed", claim: holder };
      else if (!account || (version !== null && version !== account.version)) verdict = { kind: "stale" };
      else verdict = this.#judge(one.submission, account);
      this.#verdicts.set(one, verdict);
      if (claim && !holder && verdict.kind !== "accepted") untaken.push(claim);
    }
    for (const [workspaceId, emails] of this.#going)
      this.bags.push(...pack(workspaceId, shardOf(workspaceId), emails, () => newId(now)));
    return untaken;
  }

  #judge(submission: Submission, account: Account): Committed {
    const { emails, bulk, counted, now } = submission;
    const isDueLater = (email: NewEmail): boolean => email.scheduledAt !== null;
    advance(account.ledger, now);
    const ready = emails.filter((email) => !isDueLater(email));
    const verdict = judge(account.ledger, account.allowance, {
      counted,
      countsDay: !bulk,
      bulk,
      weights: ready.map((email) => email.weight),
    });
    if (verdict.kind === "over") return { ...verdict, account };
    const going = ready.slice(0, verdict.go);
    const waiting = ready.slice(verdict.go);
    for (const email of going) this.#accepted.push({ email, standing: "accepted" });
    for (const email of waiting) this.#accepted.push({ email, standing: "waiting" });
    if (verdict.waitsFor) {
      expectRelease(account, verdict.waitsFor);
      const at = nextTurn(account.ledger, verdict.waitsFor);
      for (const email of waiting) this.#due.push(dueOf(email, verdict.waitsFor, at));
    }
    for (const email of emails.filter(isDueLater)) {
      this.#accepted.push({ email, standing: "scheduled" });
      this.#due.push(dueOf(email, "scheduled", email.scheduledAt as number));
    }
    for (const attachment of submission.attachments)
      this.#attachments.set(attachment.workspaceId + attachment.hash, attachment);
    const travelling = this.#going.get(account.workspaceId);
    if (travelling) travelling.push(...going);
    else if (going.length > 0) this.#going.set(account.workspaceId, going);
    return { kind: "accepted", go: verdict.go, account };
  }

  /** Statements, not promises of them: they have to be sent in this order, and the commit after all of them. */
  #writes(tx: Sql, accounts: readonly Account[], untaken: readonly Claim[], now: Date): Statement[] {
    const writes: Statement[] = [];
    if (untaken.length > 0) writes.push(dropClaims(tx, untaken));
    if (this.#accepted.length === 0) return writes;
    writes.push(insertEmails(tx, this.#accepted, now));
    const emails = this.#accepted.map((one) => one.email);
    writes.push(insertBodies(tx, emails));
    if (this.#attachments.size > 0) writes.push(...keepAttachments(tx, [...this.#attachments.values()], now));
    if (this.bags.length > 0) writes.push(insertBags(tx, this.bags, now));
    if (this.#due.length > 0) writes.push(insertDue(tx, this.#due));
    writes.push(saveLedgers(tx, accounts));
    return writes;
  }
}

function dueOf(email: NewEmail, why: Due["why"], at: number): Due {
  const { workspaceId, id: emailId, bulk, weight, bytes } = email;
  return { workspaceId, emailId, at, why, bulk, weight, bytes };
}

function claimName({ workspaceId, scope, key }: Claim): string {
  return `${workspaceId} ${scope} ${key}`;
}

/** Waits for all, then throws the first error: a pipeline must be read to its end before the next thing is said. */
async function settled<T extends readonly Promise<unknown>[]>(
  promises: [...T],
): Promise<{ [K in keyof T]: Awaited<T[K]> }> {
  const results = await Promise.allSettled(promises);
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return results.map((result) => (result as PromiseFulfilledResult<unknown>).value) as {
    [K in keyof T]: Awaited<T[K]>;
  };
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Deadline(`Postgres did not answer within ${Math.round(ms)} ms`)), ms);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
    promise.catch(() => {});
  }
}

/** A transaction that had failed answers `commit` with ROLLBACK. */
function expectCommit(result: { command: string }): void {
  if (result.command !== "COMMIT") throw new Error(`the commit was answered ${result.command}`);
}

/** Bad data or a broken constraint: one row's doing, and its neighbours may go without it. */
function isFaultOfOne(error: unknown): boolean {
  return isRefusal(error) && /^(22|23|54)/.test((error as { code?: string }).code ?? "");
}

/** Postgres itself said no to a statement (not: it went away, or stays silent). */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof Error) || !("severity" in error)) return false;
  const { code } = error as Error & { code?: string };
  const goesAway = code?.startsWith("57P") || code?.startsWith("08");
  return error.name === "PostgresError" && !goesAway;
}
