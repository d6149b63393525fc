/**
 * Group commit: many entries, one transaction.
 *
 * No timer: while one transaction is in flight the next group gathers, so an idle engine commits at once and
 * a busy one writes thousands of rows per statement. A transaction is two round trips: lock and read; then,
 * decided, write everything and commit; three where the locked rows show that more must be read. The kind of
 * entry decides what is read, decided and written.
 *
 * Promises: an entry gets its verdict only after the commit. One entry that is refused or broken never fails
 * its neighbours: a group that aborts is halved and tried again, down to single entries. A group that lost a
 * deadlock is tried again as it is. A group that took too long makes the next ones smaller, until groups
 * succeed again.
 *
 * When a connection dies, what matters is whether the commit had been sent: before it, nothing was written;
 * after it, Postgres is asked for the fate of exactly that transaction. If that cannot be learnt in time the
 * answer is `unknown`. It is `unknown` too when Postgres crashed or failed over meanwhile, and has a
 * committed transaction of that number: numbers of transactions that never reached the disk are given again.
 *
 * Large entries have their own lane and connections, so that nobody else waits while megabytes are written.
 * What can be written without locks is written first, a piece at a time and no faster than the disk takes it,
 * so that a large entry holds locks no longer than others.
 *
 * Refuses more than its limit of rows and bytes in hand at once (`takeRoom`).
 */
import { inTime } from "../../clock.ts";
import { Counter, Gauge, Histogram, SECONDS, SIZES } from "../../meter.ts";
import { markBegun } from "./begun.ts";
import { CONFLICT_RETRIES_MAX, isConflict, pause } from "./conflict.ts";
import type { Sql, Statement, Tx } from "./connect.ts";
import { hindranceOf, isRefusal } from "./lost.ts";
import { orNull, text, typed } from "./rowshape.ts";
import type { Reserved } from "./statement.ts";

const ROWS = new Histogram("postrider_commit_rows", "Rows of each group commit", SIZES, ["what"]);
const REQUESTS = new Histogram("postrider_commit_requests", "Requests of each group commit", SIZES, ["what"]);
const TOOK = new Histogram("postrider_commit_seconds", "How long each group commit took", SECONDS, ["what"]);
const WAITED = new Histogram(
  "postrider_commit_wait_seconds",
  "How long the oldest request of each group commit waited for it",
  SECONDS,
  ["what"],
);
const ENDED = new Counter("postrider_commits_total", "Group commits by how they ended", ["what", "end"]);
const QUEUED = new Gauge("postrider_commit_queue", "Requests that wait for a group commit", ["what"]);

const GROUP_ROWS_MAX = 4_000;
const GROUP_BYTES_MAX = 4 * 1024 * 1024;
export const LARGE_ENTRY_BYTES = 1024 * 1024;
/** What is written ahead may take so much longer than a transaction. */
const AHEAD_TIMEOUTS_MAX = 2;
/** How long statements are built before the event loop gets a turn. */
const SENDING_MS_MAX = 10;
/** What is left of a group's size when every group takes too long: one entry. */
const SHARE_MIN = 1 / GROUP_ROWS_MAX;
/** Slowly: the callers of each group that is again too large are refused. */
const SHARE_GROWTH = 1.1;
const HELD_ROWS_MAX = 40_000;
const HELD_BYTES_MAX = 256 * 1024 * 1024;
const FATE_POLL_MS = 50;
/** A group takes up to two timeouts when Postgres goes away: one for itself, and one to learn its fate. */
const QUEUED_TIMEOUTS_MAX = 2.5;

/** What one group does in its transaction. Made anew for every attempt. */
export interface Transaction<Entry, Verdict> {
  /** What is written before anything is locked: rows under fresh ids, which nobody else knows. */
  ahead?(tx: Tx): Statement[];
  /**
   * Executed right after `begin`, in one round trip where it can be: locks first, in an order that everyone
   * keeps.
   */
  read(tx: Tx): Promise<void>;
  /**
   * Decides every entry, and hands back what is executed before the commit, in this order. `now` is the time
   * of the transaction, in ms. What may take long is done in turns of the event loop.
   */
  write(tx: Tx, now: number): Statement[] | Promise<Statement[]>;
  verdictOf(entry: Entry): Verdict;
  /** The transaction is committed, and every entry has its verdict. */
  committed(): void;
}

/** Failures of an entry that the group commit itself reports. */
export type Uncommitted =
  /**
   * Certainly not written. `isBroken`: Postgres refuses this very entry, now and whenever it is tried again.
   */
  | { kind: "failed"; error: unknown; isBroken: boolean }
  /** The outcome cannot be learnt. */
  | { kind: "unknown"; error: unknown };

export type QueueSpace = { release(): void };

export type EntryKind<Entry, Verdict> = {
  /** Its name among the metrics. */
  what: string;
  open(group: readonly Entry[]): Transaction<Entry, Verdict>;
  rowsOf(entry: Entry): number;
  bytesOf(entry: Entry): number;
  /** Entries of one name cannot share a transaction: the later one waits for the group after. */
  nameOf?(entry: Entry): string | null;
};

export type GroupCommitOptions = { connect(): Sql; timeoutMs: number };

type WaitingEntry<Entry, Verdict> = {
  entry: Entry;
  rows: number;
  bytes: number;
  /** Monotonic. */
  since: number;
  settle(verdict: Verdict | Uncommitted): void;
};

type CommitGroup<Entry, Verdict> = readonly WaitingEntry<Entry, Verdict>[];

/** How an attempt to commit a group ended. Committed entries have their verdict. */
type End = { kind: "committed" } | { kind: "aborted" | "unknown"; error: unknown };

/** Postgres did not answer in time. */
export class Deadline extends Error {}

export class GroupCommit<Entry, Verdict> {
  readonly #kind: EntryKind<Entry, Verdict>;
  readonly #options: GroupCommitOptions;
  readonly #lane: Lane<Entry, Verdict>;
  #largeLane: Lane<Entry, Verdict> | null = null;
  #heldRows = 0;
  #heldBytes = 0;

  constructor(kind: EntryKind<Entry, Verdict>, options: GroupCommitOptions) {
    this.#kind = kind;
    this.#options = options;
    this.#lane = new Lane(kind, options);
  }

  /** Room for a request that will be committed soon; null when the commit is overloaded. */
  takeRoom(rows: number, bytes: number): QueueSpace | null {
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

  submit(entry: Entry): Promise<Verdict | Uncommitted> {
    const rows = this.#kind.rowsOf(entry);
    const bytes = this.#kind.bytesOf(entry);
    if (bytes <= LARGE_ENTRY_BYTES) return this.#lane.submit(entry, rows, bytes);
    this.#largeLane ??= new Lane(this.#kind, this.#options);
    return this.#largeLane.submit(entry, rows, bytes);
  }

  async close(): Promise<void> {
    await Promise.all([this.#lane.close(), this.#largeLane?.close()]);
  }
}

/** Entries that share transactions, one transaction at a time. */
class Lane<Entry, Verdict> {
  readonly #kind: EntryKind<Entry, Verdict>;
  readonly #options: GroupCommitOptions;
  #sql: Sql;
  #queue: WaitingEntry<Entry, Verdict>[] = [];
  #running: Promise<void> | null = null;
  /** Of the rows and bytes that a group may have at most. */
  #share = 1;
  readonly #unfollow: () => void;

  constructor(kind: EntryKind<Entry, Verdict>, options: GroupCommitOptions) {
    this.#kind = kind;
    this.#options = options;
    this.#sql = options.connect();
    this.#unfollow = QUEUED.follow(() => this.#queue.length, kind.what);
  }

  submit(entry: Entry, rows: number, bytes: number): Promise<Verdict | Uncommitted> {
    return new Promise((settle) => {
      this.#queue.push({ entry, rows, bytes, since: performance.now(), settle });
      this.#running ??= this.#run();
    });
  }

  async close(): Promise<void> {
    await this.#running;
    this.#unfollow();
    await this.#sql.end({ timeout: 1 });
  }

  async #run(): Promise<void> {
    // requests that arrived in the same turn of the event loop share the first commit
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#queue.length > 0) {
      await this.#commit(this.#nextGroup());
      this.#refuseLate();
    }
    this.#running = null;
  }

  /**
   * Who waited for long is told that nothing was done, rather than left to be done after the caller has given
   * up.
   */
  #refuseLate(): void {
    const oldest = performance.now() - QUEUED_TIMEOUTS_MAX * this.#options.timeoutMs;
    const [first] = this.#queue;
    if (!first || first.since >= oldest) return;
    const late = this.#queue.filter(({ since }) => since < oldest);
    this.#queue = this.#queue.filter(({ since }) => since >= oldest);
    const error = new Deadline("the commits before this one took too long");
    for (const one of late) one.settle({ kind: "failed", error, isBroken: false });
  }

  /** The next entries in order; one that repeats a name of the group waits for the group after. */
  #nextGroup(): CommitGroup<Entry, Verdict> {
    const group: WaitingEntry<Entry, Verdict>[] = [];
    const repeats: WaitingEntry<Entry, Verdict>[] = [];
    const names = new Set<string>();
    let rows = 0;
    let bytes = 0;
    let seen = 0;
    for (const one of this.#queue) {
      if (group.length > 0 && shareOf(rows + one.rows, bytes + one.bytes) > this.#share) break;
      seen++;
      const name = this.#kind.nameOf?.(one.entry) ?? null;
      if (name !== null) {
        if (names.has(name)) {
          repeats.push(one);
          continue;
        }
        names.add(name);
      }
      group.push(one);
      rows += one.rows;
      bytes += one.bytes;
    }
    this.#queue = [...repeats, ...this.#queue.slice(seen)];
    return group;
  }

  async #commit(group: CommitGroup<Entry, Verdict>): Promise<void> {
    const end = await this.#persistently(group);
    this.#learn(group, end);
    if (end.kind === "committed") return;
    const { error } = end;
    if (end.kind === "unknown") {
      for (const one of group) one.settle({ kind: "unknown", error });
      return;
    }
    const isBroken = isFaultOfOne(error);
    if (!isBroken || group.length === 1) {
      for (const one of group) one.settle({ kind: "failed", error, isBroken });
      return;
    }
    const half = Math.ceil(group.length / 2);
    await this.#commit(group.slice(0, half));
    await this.#commit(group.slice(half));
  }

  /** After a deadlock the group is tried again: the locks are free by then. */
  async #persistently(group: CommitGroup<Entry, Verdict>): Promise<End> {
    const until = performance.now() + this.#options.timeoutMs;
    let end = await this.#attempt(group);
    for (let n = 0; n < CONFLICT_RETRIES_MAX && performance.now() < until; n++) {
      if (end.kind !== "aborted" || !isConflict(end.error)) break;
      await pause();
      end = await this.#attempt(group);
    }
    return end;
  }

  async #attempt(group: CommitGroup<Entry, Verdict>): Promise<End> {
    const { what } = this.#kind;
    const began = performance.now();
    WAITED.note((began - (group[0]?.since ?? began)) / 1_000, what);
    REQUESTS.note(group.length, what);
    ROWS.note(
      group.reduce((sum, { rows }) => sum + rows, 0),
      what,
    );
    const end = await this.#attemptOnce(group);
    TOOK.note((performance.now() - began) / 1_000, what);
    ENDED.add(1, what, end.kind);
    return end;
  }

  async #attemptOnce(group: CommitGroup<Entry, Verdict>): Promise<End> {
    const transaction = this.#kind.open(group.map((one) => one.entry));
    const attempt = new Attempt(this.#sql, this.#options.timeoutMs, transaction);
    const committed = (): End => {
      for (const one of group) one.settle(transaction.verdictOf(one.entry));
      transaction.committed();
      return { kind: "committed" };
    };
    let error: unknown;
    try {
      await attempt.run();
      return committed();
    } catch (caught) {
      error = caught;
    }
    if (attempt.isConnectionDoubtful) this.#renewConnection();
    const fate = attempt.commitWasSent ? await this.#fateOf(attempt) : "aborted";
    return fate === "committed" ? committed() : { kind: fate, error };
  }

  /** Halves what took too long. Only a group that used its share shows that a larger one may succeed. */
  #learn(group: CommitGroup<Entry, Verdict>, end: End): void {
    const rows = group.reduce((sum, one) => sum + one.rows, 0);
    const bytes = group.reduce((sum, one) => sum + one.bytes, 0);
    const used = shareOf(rows, bytes);
    if (end.kind === "committed") {
      if (used >= this.#share / 2) this.#share = Math.min(1, this.#share * SHARE_GROWTH);
    } else if (tookTooLong(end.error)) {
      this.#share = Math.max(SHARE_MIN, Math.min(used, this.#share) / 2);
    }
  }

  #renewConnection(): void {
    const old = this.#sql;
    this.#sql = this.#options.connect();
    // the old socket is dead or silent: its answers are not waited for
    old.end({ timeout: 0 }).catch(() => {});
  }

  async #fateOf(attempt: Attempt<Entry, Verdict>): Promise<"committed" | "aborted" | "unknown"> {
    const { xid } = attempt;
    if (xid === null) return "aborted";
    const until = performance.now() + this.#options.timeoutMs;
    while (performance.now() < until) {
      try {
        const [row] = await within(
          typed(this.#sql, { status: orNull(text), incarnation: text })`
            select pg_xact_status(${xid}::xid8) as status, ${incarnation(this.#sql)} as incarnation`,
          Math.max(1, until - performance.now()),
        );
        if (row?.status === "aborted") return "aborted";
        if (row?.status === "committed")
          return row.incarnation === (await attempt.incarnation) ? "committed" : "unknown";
      } catch (error) {
        if (isRefusal(error) && error.code === NUMBER_NOT_YET_GIVEN) return "aborted";
        if (error instanceof Deadline) this.#renewConnection();
      }
      await new Promise((resolve) => setTimeout(resolve, FATE_POLL_MS));
    }
    return "unknown";
  }
}

/** After a crash: Postgres knows nothing of a transaction with this number, so nothing of it was kept. */
const NUMBER_NOT_YET_GIVEN = "22023";

const incarnations = new WeakMap<object, Promise<string | null>>();

/**
 * Asked once on each connection, which outlives neither a crash nor a failover; null when it could not be
 * learnt.
 */
function incarnationOf(connection: Reserved): Promise<string | null> {
  const known = incarnations.get(connection.backend);
  if (known) return known;
  // sent before the transaction begins, and so answered before it commits
  const asked = typed(connection, {
    incarnation: text,
  })`select ${incarnation(connection)} as incarnation`.execute();
  const answered = asked.then(
    ([row]) => row?.incarnation ?? null,
    () => null,
  );
  incarnations.set(connection.backend, answered);
  return answered;
}

/** Differs after a recovery from a crash, which starts the statistics afresh, and after a failover. */
function incarnation(tx: Tx): Statement {
  return tx`(
    select concat_ws(' ', checkpoint.timeline_id, statistics.stats_reset)
    from pg_control_checkpoint() as checkpoint, pg_stat_archiver as statistics)`;
}

/** One transaction of one group, on one connection. */
class Attempt<Entry, Verdict> {
  readonly #sql: Sql;
  readonly #timeoutMs: number;
  readonly #transaction: Transaction<Entry, Verdict>;
  xid: string | null = null;
  /** Of the Postgres that gave the number. */
  incarnation: Promise<string | null> = Promise.resolve(null);
  commitWasSent = false;
  isConnectionDoubtful = false;

  constructor(sql: Sql, timeoutMs: number, transaction: Transaction<Entry, Verdict>) {
    this.#sql = sql;
    this.#timeoutMs = timeoutMs;
    this.#transaction = transaction;
  }

  async run(): Promise<void> {
    const left = this.#clock(this.#timeoutMs);
    let connection: Reserved | null = null;
    try {
      connection = await within(this.#sql.reserve(), left());
      this.incarnation = incarnationOf(connection);
      await this.#transact(connection, left);
    } catch (error) {
      this.isConnectionDoubtful = !isRefusal(error);
      throw error;
    } finally {
      if (connection && !this.isConnectionDoubtful) connection.release();
    }
  }

  async #writeAhead(begun: Statement, ahead: readonly Statement[]): Promise<void> {
    const left = this.#clock(AHEAD_TIMEOUTS_MAX * this.#timeoutMs);
    // alone, since what is written ahead must not be kept without its transaction
    await within(begun, left());
    for (const [n, statement] of ahead.entries()) {
      if (n > 0) await within(flushed(this.#sql), left());
      await within(statement.execute(), left());
    }
  }

  /** What is left of so much time. */
  #clock(ms: number): () => number {
    const deadline = performance.now() + ms;
    return () => Math.max(1, deadline - performance.now());
  }

  async #transact(tx: Reserved, left: () => number): Promise<void> {
    try {
      const ahead = this.#transaction.ahead?.(tx) ?? [];
      // executed here and now: what is only awaited is sent some turns later, and nothing may come before it
      const begun = tx.begin().execute();
      if (ahead.length > 0) {
        await this.#writeAhead(begun, ahead);
        left = this.#clock(this.#timeoutMs);
      }
      const [, [transaction]] = await within(
        settled([begun, markBegun(tx).execute(), this.#transaction.read(tx)]),
        left(),
      );
      if (!transaction) throw new Error("Postgres answered a query without a row");
      this.xid = transaction.xid;
      const written = this.#transaction.write(tx, transaction.now.getTime());
      const isInTurns = written instanceof Promise;
      const writes = isInTurns ? await within(written, left()) : written;
      if (isInTurns || ahead.length > 0) await sendInTurns(writes);
      for (const write of writes) write.execute();
      this.commitWasSent = true;
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
}

/**
 * On a connection beside the transaction: all that Postgres has logged is on the disk. So the disk decides
 * how fast a large entry is written, and no commit of others waits behind more than a piece of it.
 */
function flushed(sql: Sql): Statement {
  return sql`select pg_logical_emit_message(true, 'postrider', '')`;
}

/** Large statements are built one at a time, with a turn of the event loop between them. */
async function sendInTurns(writes: readonly Statement[]): Promise<void> {
  let until = performance.now() + SENDING_MS_MAX;
  for (const write of writes) {
    write.execute().catch(() => {}); // its error is thrown when all are awaited
    if (performance.now() < until) continue;
    await new Promise((resolve) => setImmediate(resolve));
    until = performance.now() + SENDING_MS_MAX;
  }
}

/**
 * Waits for all, then throws the first error: a pipeline must be read to its end before the next thing is
 * said.
 */
export async function settled<T extends readonly Promise<unknown>[]>(
  promises: [...T],
): Promise<{ [K in keyof T]: Awaited<T[K]> }> {
  const results = await Promise.allSettled(promises);
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return results.map((result) => (result as PromiseFulfilledResult<unknown>).value) as {
    [K in keyof T]: Awaited<T[K]>;
  };
}

/** Rejects after `ms`, so that a silent Postgres is not waited for. */
export function within<T>(promise: PromiseLike<T>, ms: number): Promise<T> {
  return inTime(ms, promise, () => {
    throw new Deadline(`Postgres did not answer within ${Math.round(ms)} ms`);
  });
}

/** A transaction that had failed answers `commit` with ROLLBACK. */
function expectCommit(result: { command: string }): void {
  if (result.command !== "COMMIT") throw new Error(`the commit was answered ${result.command}`);
}

/** Bad data or a broken constraint: the fault of one row, and the others may succeed without it. */
export function isFaultOfOne(error: unknown): boolean {
  return isRefusal(error) && /^(22|23|54)/.test(error.code) && hindranceOf(error) === null;
}

/** Canceled by the statement timeout, kept waiting for a lock, or not answered at all. */
function tookTooLong(error: unknown): boolean {
  return error instanceof Deadline || (isRefusal(error) && /^(57014|55P03)$/.test(error.code));
}

function shareOf(rows: number, bytes: number): number {
  return Math.max(rows / GROUP_ROWS_MAX, bytes / GROUP_BYTES_MAX);
}
