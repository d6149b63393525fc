/**
 * Templates run as generators that wait for other generators. The library runs them to their end at once;
 * here they stop after a piece of work, so that whoever renders can let others have their turn.
 */
import type { Meter } from "./meter.ts";

/** About 1 ms. A single filter may take longer. */
const PIECE_UNITS = 200_000;

type Steps = Iterator<unknown, unknown, unknown>;

/** Yields after each piece, and returns what the work comes to. */
export function* inPieces(work: Steps, meter: Meter): Generator<void, unknown> {
  /** Each waits for the one after it. */
  const running = [work];
  /** What the last one is told: what it waited for, or why that failed. */
  let told: unknown;
  let hasFailed = false;
  let pieceEnds = meter.used + PIECE_UNITS;
  for (let last: Steps | undefined = work; last; last = running[running.length - 1]) {
    if (meter.used >= pieceEnds) {
      yield;
      pieceEnds = meter.used + PIECE_UNITS;
    }
    try {
      const { done, value } = hasFailed ? thrown(last, told) : last.next(told);
      hasFailed = false;
      told = value;
      if (done) running.pop();
      if (!isSteps(value)) continue;
      running.push(value);
      told = undefined;
    } catch (error) {
      hasFailed = true;
      told = error;
      running.pop();
    }
  }
  if (hasFailed) throw told;
  return told;
}

function thrown(steps: Steps, error: unknown): IteratorResult<unknown, unknown> {
  if (steps.throw) return steps.throw(error);
  throw error;
}

function isSteps(value: unknown): value is Steps {
  return typeof value === "object" && value !== null && typeof (value as Partial<Steps>).next === "function";
}
