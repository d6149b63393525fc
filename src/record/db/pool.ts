/**
 * A pool of sessions. A statement goes over an idle session, over a new one while there are fewer than
 * allowed, or else behind the statements of the least busy one. A transaction has its session alone, until it
 * is committed or rolled back: nothing is said to a connection that the transaction did not begin on.
 */
import { Gauge } from "../../meter.ts";
import { retried } from "./conflict.ts";
import { asUndone, isRefusal } from "./lost.ts";
import { ConnectionLost, Session, type SessionParts } from "./session.ts";
import {
  type Reserved,
  type Rows,
  type SendStatement,
  type Sql,
  type Tx,
  type Unsent,
  type Unwrapped,
  writing,
} from "./statement.ts";

const OPEN = new Gauge("postrider_postgres_connections", "Open connections to Postgres", ["pool"]);
const IN_FLIGHT = new Gauge("postrider_postgres_in_flight", "Statements that Postgres has not answered yet", [
  "pool",
]);
const WAITING = new Gauge("postrider_postgres_waiting", "Statements that no connection has yet", ["pool"]);

const PIPELINED_MAX = 100;
/**
 * PgBouncer before 1.21 gives the connection away when Postgres has answered a statement, although the next
 * one has begun: the client asks for the types of its parameters first, without the end that the pooler
 * counts. Nobody gets the types, and the statement is never answered.
 */
const PIPELINED_BEHIND_POOLER_MAX = 1;
/** Backends cache tables and statements without limit, so connections are replaced from time to time. */
const LIFETIME_MS_MIN = 30 * 60_000;
const LIFETIME_MS_SPREAD = 30 * 60_000;
/** Each takes some megabytes of Postgres: those that the present work does not need are ended. */
const IDLE_MS = 10_000;
/** How long a connection that accepts no writes is kept: where all are such, not each write opens another. */
const READ_ONLY_MS = 1_000;
const REOPEN_MS_FIRST = 50;
const REOPEN_MS_MAX = 1_000;

type WaitingStatement = { use(session: Session): void; refuse(error: Error): void };

/** How many connections it may have, and how many of them stay when there is nothing to do. */
export type PoolSize = { most: number; kept: number };

export type PoolParts = Omit<SessionParts, "onChange"> & {
  /** Whether a pooler may be between us and Postgres. */
  mayBePooled: boolean;
  /** Whether a statement outside of a transaction is one by itself. */
  isEachInTransaction: boolean;
};

/** `name` is that of the pool among the metrics. */
export function openPool(size: PoolSize, name: string, parts: PoolParts): Sql {
  const pool = new SessionPool(size, parts);
  const unfollow = [
    OPEN.follow(() => pool.open, name),
    IN_FLIGHT.follow(() => pool.inFlight, name),
    WAITING.follow(() => pool.waiting, name),
  ];
  const run = parts.isEachInTransaction
    ? (statement: Unsent) => pool.runInTransaction(statement)
    : (statement: Unsent) => pool.run(statement);
  return Object.assign(
    writing((statement) => retried(() => run(statement))),
    {
      begin: <T>(work: (tx: Tx) => T | Promise<T>) => retried(() => pool.begin(work)),
      reserve: () => pool.reserve(),
      end: (options?: { timeout?: number }) => {
        for (const stop of unfollow) stop();
        return pool.end(options);
      },
    },
  );
}

class SessionPool {
  readonly #size: PoolSize;
  readonly #parts: SessionParts;
  readonly #pipelinedMax: number;
  #sessions: Session[] = [];
  #waiting: WaitingStatement[] = [];
  #isEnding = false;
  readonly #onIdle: (() => void)[] = [];
  readonly #lifetimeMs = LIFETIME_MS_MIN + Math.random() * LIFETIME_MS_SPREAD;
  /** Attempts to connect that failed in a row, and when the next may be made. */
  #failures = 0;
  #reopenAt = 0;
  #reopening: NodeJS.Timeout | undefined;
  #endingIdle: NodeJS.Timeout | null = null;

  constructor(size: PoolSize, { mayBePooled, isEachInTransaction: _, ...parts }: PoolParts) {
    this.#size = size;
    this.#pipelinedMax = mayBePooled ? PIPELINED_BEHIND_POOLER_MAX : PIPELINED_MAX;
    this.#parts = { ...parts, onChange: (session) => this.#changed(session) };
  }

  get open(): number {
    return this.#sessions.length;
  }

  get inFlight(): number {
    return this.#sessions.reduce((sum, { inFlight }) => sum + inFlight, 0);
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  run(statement: Unsent): Promise<Rows> {
    return new Promise((resolve, reject) => {
      this.#ask({ use: (session) => resolve(session.run(statement)), refuse: reject });
    });
  }

  reserve(): Promise<Reserved> {
    return new Promise((resolve, reject) => {
      this.#ask({ use: (session) => resolve(this.#reserved(session)), refuse: reject });
    });
  }

  async runInTransaction(statement: Unsent): Promise<Rows> {
    const { rows } = await this.begin(async (_, send) => ({ rows: await send(statement) }));
    return rows;
  }

  begin<T>(work: (tx: Tx, send: SendStatement) => T | Promise<T>): Promise<Unwrapped<T>> {
    return new Promise((resolve, reject) => {
      const use = (session: Session) => {
        const connection = this.#reserved(session);
        resolve(inTransaction(connection, session, work).finally(() => connection.release()));
      };
      this.#ask({ use, refuse: reject });
    });
  }

  async end({ timeout }: { timeout?: number } = {}): Promise<void> {
    this.#isEnding = true;
    clearTimeout(this.#reopening);
    if (this.#endingIdle) clearTimeout(this.#endingIdle);
    for (const { refuse } of this.#waiting.splice(0)) refuse(ended());
    await this.#untilIdle(timeout);
    await Promise.all(this.#sessions.map((session) => session.end()));
  }

  #ask(one: WaitingStatement): void {
    if (this.#isEnding) {
      one.refuse(ended());
      return;
    }
    this.#waiting.push(one);
    this.#serve();
  }

  /** In turn, as far as there are sessions. */
  #serve(): void {
    while (this.#waiting.length > 0) {
      const session = this.#pick();
      if (!session) break;
      this.#waiting.shift()?.use(session);
    }
    if (this.#waiting.length > 0 && this.#sessions.length < this.#size.most) this.#serveLater();
  }

  #serveLater(): void {
    clearTimeout(this.#reopening);
    this.#reopening = setTimeout(() => this.#serve(), this.#reopenAt - performance.now());
  }

  #pick(): Session | null {
    // those that had refused a write when they were still too young to be left
    for (const session of this.#sessions) if (isIdle(session) && isMisled(session)) this.#retire(session);
    const shared = this.#sessions.filter((session) => !session.isReserved && !isMisled(session));
    const idle = shared.find((session) => session.inFlight === 0);
    if (idle) return idle;
    if (this.#sessions.length < this.#size.most && performance.now() >= this.#reopenAt) return this.#open();
    const [leastBusy] = shared.sort((one, other) => one.inFlight - other.inFlight);
    return leastBusy && leastBusy.inFlight < this.#pipelinedMax ? leastBusy : null;
  }

  #open(): Session {
    const session = new Session(this.#parts);
    this.#sessions.push(session);
    return session;
  }

  #reserved(session: Session): Reserved {
    session.isReserved = true;
    let isReleased = false;
    const send = (statement: Unsent) =>
      isReleased ? Promise.reject(new Error("this connection was released")) : session.run(statement);
    const release = () => {
      if (isReleased) return;
      isReleased = true;
      session.isReserved = false;
      this.#changed(session);
    };
    const tx = writing(send);
    const { begin } = this.#parts;
    return Object.assign(tx, {
      backend: begin === undefined ? session : {},
      begin: () => (begin === undefined ? tx`begin` : tx.unsafe(begin)),
      release,
      drop: () => session.drop(),
    });
  }

  #changed(session: Session): void {
    if (session.isOver) this.#forget(session);
    else if (session.hasAnswered) this.#failures = 0;
    const isOld = performance.now() - session.openedAt > this.#lifetimeMs;
    if (isIdle(session) && (isOld || isMisled(session))) this.#retire(session);
    this.#endIdleLater();
    if (!this.#isEnding) this.#serve();
    else if (this.#sessions.every(isIdle)) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  #forget(session: Session): void {
    if (!this.#sessions.includes(session)) return;
    this.#sessions = this.#sessions.filter((one) => one !== session);
    // those that were opened together count as one attempt
    if (session.hasAnswered || session.openedAt < this.#reopenAt) return;
    this.#reopenAt = performance.now() + Math.min(REOPEN_MS_FIRST * 2 ** this.#failures++, REOPEN_MS_MAX);
  }

  #retire(session: Session): void {
    this.#sessions = this.#sessions.filter((one) => one !== session);
    session.end().catch(() => {});
  }

  #endIdleLater(): void {
    if (this.#endingIdle || this.#isEnding || this.#sessions.length <= this.#size.kept) return;
    this.#endingIdle = setTimeout(() => {
      this.#endingIdle = null;
      const before = performance.now() - IDLE_MS;
      // work goes to the first that is idle: the last have been idle for longest
      const idle = this.#sessions.filter((session) => isIdle(session) && session.usedAt < before);
      const excess = this.#sessions.length - this.#size.kept;
      for (const session of idle.slice(-excess)) this.#retire(session);
      this.#endIdleLater();
    }, IDLE_MS).unref();
  }

  async #untilIdle(timeout: number | undefined): Promise<void> {
    if (this.#sessions.every(isIdle)) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#onIdle.push(resolve);
      if (timeout !== undefined) timer = setTimeout(resolve, timeout * 1000);
    });
    clearTimeout(timer);
  }
}

async function inTransaction<T>(
  connection: Reserved,
  session: Session,
  work: (tx: Tx, send: SendStatement) => T | Promise<T>,
): Promise<Unwrapped<T>> {
  /** Without an answer nobody knows what state the session is in. */
  const undo = () => connection`rollback`.catch((silent: unknown) => session.drop(silent));
  await connection.begin().catch(async (error: unknown) => {
    await undo(); // what it sets may be refused when the transaction has begun
    throw asUndone(error);
  });
  let failure: unknown = null;
  let isOver = false;
  const send = (statement: Unsent) => {
    const answer = isOver ? Promise.reject(new Error("this transaction is over")) : session.run(statement);
    answer.catch((error) => {
      failure ??= error;
    });
    return answer;
  };
  let result: Unwrapped<T>;
  try {
    const done = await work(writing(send), send);
    result = (Array.isArray(done) ? await Promise.all(done) : done) as Unwrapped<T>;
    isOver = true;
    if (failure) throw failure;
  } catch (error) {
    isOver = true;
    await undo();
    throw asUndone(isOfAborted(error) ? (failure ?? error) : error);
  }
  const { command } = await connection`commit`;
  if (command !== "COMMIT") throw new Error(`the commit was answered ${command}`);
  return result;
}

/** What Postgres says to each statement after the one that failed. */
function isOfAborted(error: unknown): boolean {
  return isRefusal(error) && error.code === "25P02";
}

/**
 * After a failover the address may lead to the old primary for a while: whoever was let in there would stay
 * with a standby.
 */
function isMisled({ acceptsNoWrites, openedAt }: Session): boolean {
  return acceptsNoWrites && performance.now() - openedAt > READ_ONLY_MS;
}

function isIdle({ isReserved, inFlight }: Session): boolean {
  return !isReserved && inFlight === 0;
}

function ended(): ConnectionLost {
  return new ConnectionLost("these connections to Postgres were ended");
}
