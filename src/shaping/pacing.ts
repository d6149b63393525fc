/**
 * How a rate limit is kept: even spacing with a small burst, such that any span of the limit's length,
 * wherever it begins, holds no more messages than the limit. The same rule stands in lua/take_room.lua, for
 * all workers together.
 */
import { DAY_MS } from "../clock.ts";
import type { RateLimit } from "./match.ts";

/** `everyMs` between two messages, once `burst` have gone at once. */
export type Spacing = { readonly ms: number; readonly everyMs: number; readonly burst: number };

const SECOND_MS = 1_000;
/**
 * What a message may be later than the one before it, as a share of the span: the receiver counts when they
 * arrive.
 */
const SLACK = 0.03;

/** With `factor` under 1, more slowly. */
export function spacingOf({ most, ms }: RateLimit, factor = 1): Spacing {
  const burst = Math.max(1, Math.floor((most * factor) / burstsIn(ms)));
  return { ms, burst, everyMs: (ms * (1 + SLACK)) / (most * factor - burst + 1) };
}

function burstsIn(ms: number): number {
  return ms <= SECOND_MS ? 10 : ms < DAY_MS ? 60 : 24;
}

/**
 * The moments, by the length of their limits, from which on the next messages are due if all come evenly
 * spaced.
 */
export type DueTimes = Map<number, number>;

/** How many of the wanted messages may go now, which is noted, and how long until the next may. */
export function takeTurns(
  due: DueTimes,
  spacings: readonly Spacing[],
  wanted: number,
  now: number,
): { granted: number; waitMs: number } {
  let granted = wanted;
  for (const { ms, everyMs, burst } of spacings) {
    const next = nextDue(due.get(ms), everyMs * burst, now);
    const room = Math.floor((now + (burst - 1) * everyMs - next) / everyMs) + 1;
    granted = Math.min(granted, Math.max(0, room));
  }
  let waitMs = 0;
  for (const { ms, everyMs, burst } of spacings) {
    const next = nextDue(due.get(ms), everyMs * burst, now) + granted * everyMs;
    due.set(ms, next);
    waitMs = Math.max(waitMs, next - (burst - 1) * everyMs - now);
  }
  return { granted, waitMs };
}

/** What was granted under a slower rate is paid for by waiting once under this one. */
function nextDue(known: number | undefined, burstMs: number, now: number): number {
  return Math.min(Math.max(known ?? now, now), now + burstMs);
}
