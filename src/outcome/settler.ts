/**
 * Notes of what became of e-mails, taken at once and written in groups: while one group is being written the next
 * gathers. When notes do not get through, sending must pause: `isHealthy` says so after a second, or when too many are
 * open, since every unwritten delivery is an e-mail that would be sent twice after a crash.
 */
import type { Held } from "../record/claimbag.ts";
import type { Sql } from "../record/connect.ts";
import { type Settled, settle, type Tally, type TallyCounts } from "../record/settle.ts";

const NOTES_OPEN_MAX = 2_000;
const NOTE_AGE_MS_MAX = 1_000;
const GROUP_NOTES_MAX = 1_000;
const RETRY_MS = 200;
const DAY_MS = 86_400_000;

export type Note = Settled & { counts: Partial<TallyCounts> };

export class Settler {
  readonly #sql: Sql;
  readonly #worker: string;
  readonly #onFault: (error: unknown) => void;
  #notes: Note[] = [];
  #finished: { bag: Held | null; onWritten(): void }[] = [];
  #running: Promise<void> | null = null;
  #oldestSince: number | null = null;
  #inGroup = 0;
  #onHealthy: (() => void)[] = [];

  constructor(sql: Sql, worker: string, onFault: (error: unknown) => void) {
    this.#sql = sql;
    this.#worker = worker;
    this.#onFault = onFault;
  }

  note(note: Note): void {
    this.#notes.push(note);
    this.#start();
  }

  /** Every e-mail of the bag has been noted: the bag ends with the same write, and its lease is needed until then. */
  finish(bag: Held, onWritten: () => void): void {
    this.#finished.push({ bag, onWritten });
    this.#start();
  }

  /** Resolves when all that was noted so far is written. */
  written(): Promise<void> {
    return new Promise((resolve) => {
      this.#finished.push({ bag: null, onWritten: resolve });
      this.#start();
    });
  }

  /** Resolves when notes get through. */
  healthy(): Promise<void> {
    if (this.#isHealthy()) return Promise.resolve();
    return new Promise((resolve) => this.#onHealthy.push(resolve));
  }

  /** Writes what is open; gives up at the deadline. */
  async close(deadlineMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, deadlineMs);
    });
    await Promise.race([this.#running, deadline]);
    clearTimeout(timer);
  }

  #isHealthy(): boolean {
    const isOld = this.#oldestSince !== null && performance.now() - this.#oldestSince > NOTE_AGE_MS_MAX;
    return !isOld && this.#notes.length + this.#inGroup < NOTES_OPEN_MAX;
  }

  #start(): void {
    this.#oldestSince ??= performance.now();
    this.#running ??= this.#run();
  }

  async #run(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#notes.length > 0 || this.#finished.length > 0) {
      const notes = this.#notes.splice(0, GROUP_NOTES_MAX);
      // a bag may only end after its last note: not before all notes have been taken up
      const finished = this.#notes.length === 0 ? this.#finished.splice(0) : [];
      this.#inGroup = notes.length;
      await this.#write(
        notes,
        finished.flatMap(({ bag }) => bag ?? []),
      );
      for (const { onWritten } of finished) onWritten();
      this.#inGroup = 0;
      this.#oldestSince = this.#notes.length + this.#finished.length > 0 ? performance.now() : null;
      for (const resolve of this.#onHealthy.splice(0)) resolve();
    }
    this.#running = null;
  }

  /** Until it is written: the receivers have answered, and nothing may forget that. */
  async #write(notes: readonly Note[], finished: readonly Held[]): Promise<void> {
    const tallies = tallyUp(notes);
    for (;;) {
      try {
        await settle(this.#sql, this.#worker, notes, finished, tallies);
        return;
      } catch (error) {
        this.#onFault(error);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }
}

function tallyUp(notes: readonly Note[]): Tally[] {
  const tallies = new Map<string, Tally>();
  for (const { bag, at, counts } of notes) {
    const day = Math.floor(at / DAY_MS);
    const name = `${bag.workspaceId} ${day}`;
    let tally = tallies.get(name);
    if (!tally) {
      tally = { workspaceId: bag.workspaceId, day, ...NO_COUNTS };
      tallies.set(name, tally);
    }
    for (const count in counts) tally[count as keyof TallyCounts] += counts[count as keyof TallyCounts] ?? 0;
  }
  return [...tallies.values()].sort((a, b) => (a.workspaceId < b.workspaceId ? -1 : 1));
}

const NO_COUNTS: TallyCounts = {
  attempted: 0,
  delivered: 0,
  deferred: 0,
  hardBounced: 0,
  softBounced: 0,
  blocked: 0,
  failed: 0,
  fblDelivered: 0,
};
