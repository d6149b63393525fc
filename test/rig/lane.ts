/**
 * A database in which two writers of the record meet again and again, on rows that are put back in between.
 * Counts the deadlocks, also those that the writers got over, and holds every transaction against
 * record/db/lockorder.ts.
 */
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { GUARDED, LOCK_ORDER } from "../../src/record/db/lockorder.ts";
import { locksIn } from "./recordscan.ts";
import { type Plans, SharedRows } from "./sharedrows.ts";
import { Watched } from "./watched.ts";
import { Place, type Writer } from "./writers.ts";

const SEATS = 4;
/** Whoever is slow on a busy machine does no wrong: deadlocks are counted. */
const STATEMENT_MS_MAX = 30_000;
/** How often the quicker one begins while the slower one works. */
const REPEATS_MAX = 20;
/**
 * Before each begins: two that always begin together always meet at the same steps, and may never deadlock
 * there.
 */
const HESITATION_SECONDS = [0, 0, 0.002, 0.005, 0.01];

/** Tables whose rows one transaction may wait for in several statements, and why that is no ring. */
const IN_TURNS: Record<string, string> = {
  attachment: "a statement for each, in the order of the keys",
  brake: "a statement for each: backlog, then disk",
  claim: "the second statement changes what the first one took",
  tls_report_in: "a statement for each, in the order of the keys",
};

/**
 * Where one writer at a time works: on a connection of its own, whose count of deadlocks can be asked for.
 */
type Seat = { pool: Sql; watched: Watched; place: Place };

export class Lane {
  readonly #rows: SharedRows;
  readonly #seats: readonly Seat[];
  #deadlocks = 0;

  static async open(url: string, seed: number, plans: Plans): Promise<Lane> {
    const rows = await SharedRows.make(url, seed, plans);
    const seats = Array.from({ length: SEATS }, () =>
      seatAt(connectRecord(url, "settling", STATEMENT_MS_MAX)),
    );
    return new Lane(rows, seats);
  }

  private constructor(rows: SharedRows, seats: readonly Seat[]) {
    this.#rows = rows;
    this.#seats = seats;
  }

  /** Both at once, each on two seats, for about so long; hands back what went wrong. */
  async meet(a: Writer, b: Writer, tables: ReadonlySet<string>, ms: number): Promise<string[]> {
    const problems = new Set<string>();
    const until = performance.now() + ms;
    await this.#rows.refill(); // others have left theirs
    for (let round = 0; round === 0 || performance.now() < until; round++) {
      if (round > 0) await this.#rows.refill(tables);
      const [slow, fast] = round % 2 === 0 ? [a, b] : [b, a];
      for (const problem of await this.#round(slow, fast)) problems.add(problem);
    }
    const deadlocks = await this.#countDeadlocks();
    if (deadlocks > 0) problems.add(`${a.name} and ${b.name}: ${deadlocks} deadlocks`);
    return [...problems];
  }

  /**
   * One works once on two seats; the other begins anew on two others until that is done, so that all its
   * steps meet.
   */
  async #round(once: Writer, again: Writer): Promise<string[]> {
    const [first, second, ...others] = this.#seats as [Seat, Seat, ...Seat[]];
    const problems: string[] = [];
    let isOver = false;
    const working = Promise.all([first, second].map((seat) => this.#work(seat, once, again))).then(
      (found) => {
        isOver = true;
        problems.push(...found.flat());
      },
    );
    const repeating = others.map(async (seat) => {
      for (let times = 0; times === 0 || (!isOver && times < REPEATS_MAX); times++)
        problems.push(...(await this.#work(seat, again, once)));
    });
    await Promise.all([working, ...repeating]);
    return problems;
  }

  async #work({ pool, watched, place }: Seat, writer: Writer, met: Writer): Promise<string[]> {
    const problems: string[] = [];
    await pool`select pg_sleep(${this.#rows.pick(HESITATION_SECONDS)})`;
    await writer.run(place, this.#rows).catch((error) => {
      problems.push(`${writer.name}, while it met ${met.name}: ${error}`);
    });
    for (const fault of watched.take().flatMap(outOfOrder)) problems.push(`${writer.name} locks ${fault}`);
    return problems;
  }

  async close(): Promise<void> {
    await Promise.all(this.#seats.map(({ pool }) => pool.end({ timeout: 1 })));
    await this.#rows.close();
  }

  /** Since the last count. Each connection keeps what it counted to itself until it is told to say it. */
  async #countDeadlocks(): Promise<number> {
    for (const { pool } of this.#seats) await pool`select pg_stat_force_next_flush()`;
    const [first] = this.#seats as [Seat];
    const [row] = await first.pool<{ count: number }[]>`
      select deadlocks::int as count from pg_stat_database where datname = current_database()`;
    const before = this.#deadlocks;
    this.#deadlocks = row?.count ?? 0;
    return this.#deadlocks - before;
  }
}

function seatAt(pool: Sql): Seat {
  const watched = new Watched(pool);
  return { pool, watched, place: new Place(watched.sql) };
}

/**
 * Where a transaction locks rows of a table although it holds rows of a later one, or waits for rows of a
 * table of which it holds others, unless a statement before did nothing but lock.
 */
function outOfOrder(transaction: readonly string[]): string[] {
  const order: readonly string[] = LOCK_ORDER;
  const locked = new Map<string, boolean>();
  const faults: string[] = [];
  let last = "";
  for (const { table, waits, isFresh, isAll } of transaction.flatMap(locksIn)) {
    if (isFresh || table in GUARDED) continue;
    const before = locked.get(table);
    if (before === false && waits && !(table in IN_TURNS)) faults.push(`${table} in two statements`);
    locked.set(table, before === true || isAll);
    if (before !== undefined) continue;
    if (!order.includes(table)) faults.push(`${table} without a place in the order`);
    else if (order.indexOf(table) > order.indexOf(last)) last = table;
    else if (waits) faults.push(`${table} after ${last}`);
  }
  return faults;
}
