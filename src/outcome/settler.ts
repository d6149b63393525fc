/**
 * Notes of what became of e-mails, taken at once and written in groups: while one group is being written the
 * next gathers. When notes do not get through, sending must pause: `isHealthy` says so when one is older than
 * a second, or when too many are open, since every unwritten delivery is an e-mail that would be sent twice
 * after a crash.
 */
import { atMost } from "../clock.ts";
import { Gauge, Histogram, SECONDS, SIZES } from "../meter.ts";
import { hasLeft, isMoving } from "../record/cells/moving.ts";
import type { Sql } from "../record/db/connect.ts";
import { isFaultOfOne } from "../record/db/groupcommit.ts";
import type { HeldBag } from "../record/mail/bagleases.ts";
import { type Settled, settle } from "../record/mail/settle.ts";
import type { SoftSeries } from "../record/mail/suppressions.ts";
import { StepSize } from "../rules/stepsize.ts";

const EMAILS = new Histogram(
  "postrider_settle_emails",
  "E-mails whose outcomes were written together",
  SIZES,
);
const TOOK = new Histogram("postrider_settle_seconds", "How long each such write took", SECONDS);
const OPEN = new Gauge("postrider_settle_queue", "Outcomes that are not written yet");

const NOTES_OPEN_MAX = 2_000;
const NOTE_AGE_MS_MAX = 1_000;
const GROUP_NOTES_MAX = 1_000;
const GROUP_MS_MAX = 500;
/** As a bag has. */
const GROUP_NOTES_ENOUGH = 100;
const RETRY_MS = 200;

export type Note = Settled;
type Finishing = { bag: HeldBag | null; onWritten(): void };

export class Settler {
  readonly #sql: Sql;
  readonly #worker: string;
  readonly #onFault: (error: unknown) => void;
  readonly #series: SoftSeries | null;
  #notes: Note[] = [];
  /** When each of these was noted. */
  #notedAt: number[] = [];
  #finished: Finishing[] = [];
  /** Bags of which a note was refused: there may still be something open in them. */
  readonly #doubtful = new WeakSet<HeldBag>();
  /** E-mails that have been noted, and whose notes are not written yet. */
  readonly #unwritten = new Set<string>();
  readonly #groupSize = new StepSize({
    max: GROUP_NOTES_MAX,
    slowMs: GROUP_MS_MAX,
    enough: GROUP_NOTES_ENOUGH,
  });
  #running: Promise<void> | null = null;
  #inGroup = 0;
  /** When the oldest of the group that is being written was noted. */
  #groupSince: number | null = null;
  /** E-mails that somebody has received, as the record does not know yet. */
  #deliveries = 0;
  #onHealthy: (() => void)[] = [];
  readonly #unfollow: () => void;

  constructor(sql: Sql, worker: string, onFault: (error: unknown) => void, series: SoftSeries | null = null) {
    this.#sql = sql;
    this.#series = series;
    this.#worker = worker;
    this.#onFault = onFault;
    this.#unfollow = OPEN.follow(() => this.#notes.length + this.#inGroup);
  }

  note(note: Note): void {
    this.#notes.push(note);
    this.#notedAt.push(performance.now());
    this.#unwritten.add(note.emailId);
    if (isDelivery(note)) this.#deliveries++;
    this.#start();
  }

  /** Whether the record does not know yet what became of an e-mail. */
  isUnwritten(emailId: string): boolean {
    return this.#unwritten.has(emailId);
  }

  /**
   * Every e-mail of the bag has been noted: the bag ends with the same write, and its lease is needed until
   * then.
   */
  finish(bag: HeldBag, onWritten: () => void): void {
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

  /** Whoever waits for notes to get through waits no longer: no more is sent. */
  releaseWaiting(): void {
    for (const resolve of this.#onHealthy.splice(0)) resolve();
  }

  /** Writes what is open; gives up at the deadline, and later where that would repeat an e-mail. */
  async close(deadlineMs: number, deliveriesMs: number): Promise<void> {
    const running = this.#running ?? Promise.resolve();
    await atMost(deadlineMs, running);
    if (this.#deliveries > 0) await atMost(deliveriesMs - deadlineMs, running);
    this.#unfollow();
  }

  #isHealthy(): boolean {
    const oldest = this.#groupSince ?? this.#notedAt[0] ?? null;
    const isOld = oldest !== null && performance.now() - oldest > NOTE_AGE_MS_MAX;
    return !isOld && this.#notes.length + this.#inGroup < NOTES_OPEN_MAX;
  }

  #start(): void {
    this.#running ??= this.#run();
  }

  async #run(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#notes.length > 0 || this.#finished.length > 0) {
      const notes = this.#notes.splice(0, this.#groupSize.most);
      this.#groupSince = this.#notedAt.splice(0, notes.length)[0] ?? null;
      // a bag may only end after its last note: not before all notes have been taken up
      const finished = this.#notes.length === 0 ? this.#finished.splice(0) : [];
      this.#inGroup = notes.length;
      await this.#write(notes, finished);
      for (const note of notes) {
        this.#unwritten.delete(note.emailId);
        if (isDelivery(note)) this.#deliveries--;
      }
      for (const { onWritten } of finished) onWritten();
      this.#inGroup = 0;
      this.#groupSince = null;
      if (this.#isHealthy()) this.releaseWaiting();
    }
    this.#running = null;
  }

  /**
   * Until it is written: the receivers have answered, and nothing may forget that. Storage that is slow gets
   * less at once.
   */
  async #write(given: readonly Note[], finished: readonly Finishing[]): Promise<void> {
    for (let notes = given; ; ) {
      let [isRefused, isMoved] = [false, false];
      try {
        await this.#groupSize.take(
          () => this.#settle(notes, finished),
          () => notes.length,
        );
        return;
      } catch (error) {
        this.#onFault(error);
        isRefused = isFaultOfOne(error);
        isMoved = isMoving(error);
      }
      if (notes.length > 1 && (isRefused || notes.length > this.#groupSize.most)) {
        const half = Math.ceil(notes.length / 2);
        await this.#write(notes.slice(0, half), []);
        return this.#write(notes.slice(half), finished);
      }
      const [alone] = notes;
      if (isMoved && alone && (await this.#hasLeft(alone))) {
        // its bag was lost before the switch, and whoever has it in the new cell sends its mail again
        this.#doubtful.add(alone.bag);
        return this.#write([], finished);
      }
      // of a note that Postgres will never take, all but the receiver's words is kept
      if (isRefused && !isMoved) notes = notes.map(wordless);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  async #hasLeft({ bag }: Note): Promise<boolean> {
    return hasLeft(this.#sql, bag.workspaceId).catch(() => false);
  }

  async #settle(notes: readonly Note[], finished: readonly Finishing[]): Promise<void> {
    const bags = finished.flatMap(({ bag }) => (bag ? { bag, isDoubtful: this.#doubtful.has(bag) } : []));
    if (notes.length + bags.length === 0) return;
    const began = performance.now();
    const refused = await settle(this.#sql, this.#worker, notes, bags, this.#series);
    TOOK.note((performance.now() - began) / 1_000);
    EMAILS.note(notes.length);
    for (const { bag } of refused) this.#doubtful.add(bag);
  }
}

function isDelivery({ marks }: Note): boolean {
  return marks.includes("d");
}

function wordless(note: Note): Note {
  const { hardBounces = [], softBounces = [] } = note;
  return {
    ...note,
    reply: null,
    events: note.events.map(({ detail: _, ...event }) => event),
    hardBounces: hardBounces.map((one) => ({ ...one, evidence: null })),
    softBounces: softBounces.map((one) => ({ ...one, evidence: null })),
  };
}
