/**
 * When to try again. The schedule is a list of waits; its last one repeats for as long as the mail lives.
 *
 * A wait is shortened by up to a fifth, at random: what a receiver's outage has stopped together does not
 * come back together.
 */
const STEP_SECONDS_MAX = 86_400;
const JITTER = 0.2;

/** `attempts` counts those made; `random` is in [0, 1). */
export function nextAttempt(
  scheduleSeconds: readonly number[],
  attempts: number,
  random: number,
  now: number,
): number {
  const step =
    scheduleSeconds[Math.min(Math.max(attempts, 1), scheduleSeconds.length) - 1] ?? STEP_SECONDS_MAX;
  const seconds = Math.min(step, STEP_SECONDS_MAX);
  return now + Math.round(seconds * 1000 * (1 - JITTER * random));
}
