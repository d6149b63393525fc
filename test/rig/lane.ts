/** A database in which two writers of the record meet again and again, on rows that are put back in between. */
import { connectRecord } from "../../src/record/connect.ts";
import { type Plans, SharedRows } from "./sharedrows.ts";
import { Place, type Writer } from "./writers.ts";

const PLACES = 4;
const STATEMENT_MS_MAX = 5_000;

export class Lane {
  readonly #rows: SharedRows;
  readonly #places: readonly Place[];
  #deadlocks = 0;

  static async open(url: string, seed: number, plans: Plans): Promise<Lane> {
    const rows = await SharedRows.make(url, seed, plans);
    // pools of one connection, whose count of deadlocks can be asked for
    const connect = () => new Place(connectRecord(url, "leases", STATEMENT_MS_MAX));
    return new Lane(rows, Array.from({ length: PLACES }, connect));
  }

  private constructor(rows: SharedRows, places: readonly Place[]) {
    this.#rows = rows;
    this.#places = places;
  }

  /** Both at once, each in two places, for about so long; hands back what went wrong. */
  async meet(a: Writer, b: Writer, tables: ReadonlySet<string>, ms: number): Promise<string[]> {
    const errors = new Set<string>();
    const until = performance.now() + ms;
    do {
      await this.#rows.refill(tables);
      const done = await Promise.allSettled(
        this.#places.map(async (place, n) => await (n % 2 === 0 ? a : b).run(place, this.#rows)),
      );
      for (const one of done) if (one.status === "rejected") errors.add(String(one.reason));
    } while (performance.now() < until);
    const deadlocks = await this.#countDeadlocks();
    const counted = deadlocks > 0 ? [`${deadlocks} deadlocks`] : [];
    return [...counted, ...errors];
  }

  async close(): Promise<void> {
    await Promise.all(this.#places.map(({ sql }) => sql.end({ timeout: 1 })));
    await this.#rows.close();
  }

  /** Since the last count. Each connection keeps what it counted to itself until it is told to say it. */
  async #countDeadlocks(): Promise<number> {
    for (const { sql } of this.#places) await sql`select pg_stat_force_next_flush()`;
    const [first] = this.#places as [Place];
    const [row] = await first.sql<{ count: number }[]>`
      select deadlocks::int as count from pg_stat_database where datname = current_database()`;
    const before = this.#deadlocks;
    this.#deadlocks = row?.count ?? 0;
    return this.#deadlocks - before;
  }
}
