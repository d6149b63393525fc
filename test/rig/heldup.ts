/**
 * Whoever is held up is silent: while an api stops, its connection may end, and its next request meets the
 * end. A busy machine holds up all callers of a test at once, since they run in its process.
 */

/** Shorter than a connection may be silent while an api stops. */
const HELD_UP_MS = 150;
const LOOK_EVERY_MS = 20;
/** How long a hold-up of the callers may have been over when one of them meets what came of it. */
const LATELY_MS = 1_000;

export type HoldUps = { wereLately(): boolean; end(): void };

export function watchHoldUps(): HoldUps {
  let lookedAt = performance.now();
  let heldUpAt = Number.NEGATIVE_INFINITY;
  const look = (): void => {
    const now = performance.now();
    if (now - lookedAt > HELD_UP_MS) heldUpAt = now;
    lookedAt = now;
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return {
    wereLately() {
      look();
      return performance.now() - heldUpAt < LATELY_MS;
    },
    end: () => clearInterval(timer),
  };
}
