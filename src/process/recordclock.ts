/**
 * The clock of a process: Postgres' time, carried on by the monotonic clock between samples. Ids, schedules,
 * retries and leases of runs are made by one process and read by another; with this clock they agree to a few
 * milliseconds, whatever the wall clocks of the machines say. What a transaction decides goes by the time of
 * the transaction itself.
 *
 * The wall clock is only compared. A machine whose clock is wrong still sends and counts correctly, but its
 * logs and its certificate checks use that clock, so it is not ready.
 *
 * Known limits: while Postgres does not answer the clock runs on, and drifts by some milliseconds a minute at
 * most. After the machine was suspended it is behind until the next sample.
 */
import type { Clock } from "../clock.ts";

/** Beyond this a process is not ready. */
export const SKEW_MS_MAX = 5_000;
const SAMPLE_EVERY_MS = 2_000;
/** Less than since our own sample before, more than between two answers that others ask for. */
const RECENT_MS = 1_500;
/** The first may include connecting, which says little of the time. */
const FIRST_SAMPLES = 2;

/** The clock of Postgres, read between these monotonic times. */
export type ClockSample = { time: number; asked: number; answered: number };

export type Sources = {
  /** The clock of Postgres, which every process follows. */
  ask(): Promise<number>;
  /** The wall clock of this machine. */
  wall(): number;
  monotonic(): number;
};

export class RecordClock implements Clock {
  readonly #sources: Sources;
  /** Postgres' time minus the monotonic clock. */
  #offset: number | null = null;
  #sampledAt = Number.NEGATIVE_INFINITY;

  private constructor(sources: Sources) {
    this.#sources = sources;
  }

  static async open(sources: Sources): Promise<RecordClock> {
    const clock = new RecordClock(sources);
    for (let n = 0; n < FIRST_SAMPLES; n++) await clock.measure();
    return clock;
  }

  now(): number {
    return Math.floor(this.#sources.monotonic() + (this.#offset as number));
  }

  given(): 0 {
    return 0;
  }

  async measure(): Promise<void> {
    const { ask, monotonic } = this.#sources;
    const asked = monotonic();
    const time = await ask();
    this.heard({ time, asked, answered: monotonic() });
  }

  heard(sample: ClockSample): void {
    this.#offset = corrected(this.#offset, sample);
    this.#sampledAt = sample.answered;
  }

  /** How far the wall clock of this machine is ahead of Postgres, in ms. */
  get aheadMs(): number {
    return this.#sources.wall() - this.now();
  }

  /** What is wrong with the wall clock of this machine; null: nothing. */
  get fault(): string | null {
    const { aheadMs } = this;
    return Math.abs(aheadMs) > SKEW_MS_MAX ? apart(aheadMs, "Postgres") : null;
  }

  /**
   * Keeps up with Postgres, which is asked only if nothing was heard of it; tells when the wall clock goes
   * wrong, and when it is right again (null).
   */
  follow(onFault: (fault: string | null) => void): () => void {
    let isFaulty = false;
    let isMeasuring = false;
    const look = () => {
      const { fault } = this;
      if ((fault !== null) !== isFaulty) onFault(fault);
      isFaulty = fault !== null;
      // while Postgres is silent the clock runs on
      if (isMeasuring || this.#sources.monotonic() - this.#sampledAt < RECENT_MS) return;
      isMeasuring = true;
      this.measure()
        .catch(() => {})
        .finally(() => {
          isMeasuring = false;
        });
    };
    look();
    const timer = setInterval(look, SAMPLE_EVERY_MS);
    return () => clearInterval(timer);
  }
}

export function recordClock(ask: () => Promise<number>): Promise<RecordClock> {
  return RecordClock.open({ ask, wall: () => Date.now(), monotonic: () => performance.now() });
}

/**
 * The offset after a sample. Postgres read its clock at some moment between question and answer, which bounds
 * the true offset; within these bounds the one before stays, so that the clock does not jitter and a slow
 * answer does no harm.
 */
export function corrected(offset: number | null, { time, asked, answered }: ClockSample): number {
  const [least, most] = [time - answered, time - asked];
  if (offset === null) return (least + most) / 2;
  return Math.min(Math.max(offset, least), most);
}

/** `3 ms ahead of Postgres`, `28800 s behind Postgres` */
export function apart(aheadMs: number, whom: string): string {
  const ms = Math.abs(Math.round(aheadMs));
  const size = ms < 1_000 ? `${ms} ms` : `${Math.round(ms / 1_000)} s`;
  return aheadMs < 0 ? `${size} behind ${whom}` : `${size} ahead of ${whom}`;
}
