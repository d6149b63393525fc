/**
 * Keeps reports before they are acknowledged: while one group is being written the next gathers. What is not
 * written is refused for now, and whoever sent it tries again.
 */
import type { Sql } from "../record/db/connect.ts";
import { isFaultOfOne } from "../record/db/groupcommit.ts";
import { insertReports, type NewReport } from "../record/mail/reports.ts";

const GROUP_REPORTS_MAX = 1_000;
const GROUP_BYTES_MAX = 4 * 1024 * 1024;
const HELD_BYTES_MAX = 64 * 1024 * 1024;

type Waiting = { reports: readonly NewReport[]; bytes: number; settle(error: unknown): void };

export class Intake {
  readonly #sql: Sql;
  readonly #onKept: () => void;
  #waiting: Waiting[] = [];
  #heldBytes = 0;
  #running: Promise<void> | null = null;

  constructor(sql: Sql, onKept: () => void) {
    this.#sql = sql;
    this.#onKept = onKept;
  }

  get hasRoom(): boolean {
    return this.#heldBytes < HELD_BYTES_MAX;
  }

  /** Resolves when they are committed; rejects when they are not, or when nobody knows. */
  keep(reports: readonly NewReport[]): Promise<void> {
    const bytes = reports.reduce((sum, { raw }) => sum + raw.length, 0);
    this.#heldBytes += bytes;
    return new Promise((resolve, reject) => {
      const settle = (error: unknown) => {
        this.#heldBytes -= bytes;
        if (error === null) resolve();
        else reject(error);
      };
      this.#waiting.push({ reports, bytes, settle });
      this.#running ??= this.#run();
    });
  }

  async close(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const group = this.#nextGroup();
      const failure = await this.#insert(group);
      // the fault of one: the others are kept without it
      if (group.length > 1 && isFaultOfOne(failure))
        for (const one of group) one.settle(await this.#insert([one]));
      else for (const one of group) one.settle(failure);
    }
    this.#running = null;
  }

  /** Hands back why they are not kept; null: they are. */
  async #insert(group: readonly Waiting[]): Promise<unknown> {
    try {
      await insertReports(
        this.#sql,
        group.flatMap(({ reports }) => reports),
      );
    } catch (error) {
      return error ?? new Error("not kept");
    }
    this.#onKept();
    return null;
  }

  #nextGroup(): Waiting[] {
    let [count, bytes, n] = [0, 0, 0];
    for (const one of this.#waiting) {
      if (n > 0 && (count + one.reports.length > GROUP_REPORTS_MAX || bytes + one.bytes > GROUP_BYTES_MAX))
        break;
      count += one.reports.length;
      bytes += one.bytes;
      n++;
    }
    return this.#waiting.splice(0, n);
  }
}
