/** After so much work of some, the others have their turn in the next round of the event loop. */
const WORK_MS = 10;

/** When the work of this round began; null: nobody has worked yet. */
let roundBegan: number | null = null;
/** Who waits longest comes first: whoever asks again after a piece of work comes after all who wait. */
const waiting: (() => void)[] = [];

/**
 * Lets what else waits for this thread have its turn, between two pieces of work that belong together. All
 * who ask share one round of the event loop, so that many of them hold it no longer than one.
 */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    setImmediate(goOn);
  });
}

/**
 * The same before a piece of work that may take some ms; null: it may begin now, since this round has time
 * for it.
 */
export function turnIfLate(): Promise<void> | null {
  if (roundBegan === null) {
    roundBegan = performance.now();
    setImmediate(endRoundAfterTurns);
    return null;
  }
  return performance.now() - roundBegan < WORK_MS ? null : turn();
}

/** Does the work piece by piece, and lets others have their turn in between. */
export async function inTurns<T>(work: Generator<void, T>): Promise<T> {
  for (;;) {
    const late = turnIfLate();
    if (late) await late;
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Called once for each that waits, and serves the first. */
function goOn(): void {
  if (roundBegan === null) {
    roundBegan = performance.now();
    // the first of the next round
    setImmediate(endRound);
  }
  if (performance.now() - roundBegan < WORK_MS) waiting.shift()?.();
  else setImmediate(goOn);
}

/** Those who waited for a turn have it next, and share the round with what came before them. */
function endRoundAfterTurns(): void {
  if (waiting.length > 0) setImmediate(endRound);
  else endRound();
}

function endRound(): void {
  roundBegan = null;
}

/** Fresh memory costs a turn about 5 ms for so much. */
const COPIED_BYTES = 4 * 1024 * 1024;

/** As `Buffer.concat`, for what may be too much for one turn. */
export async function concatInTurns(pieces: readonly Uint8Array[]): Promise<Buffer> {
  const whole = Buffer.allocUnsafe(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  let inTurn = 0;
  for (const piece of pieces)
    for (let from = 0; from < piece.length; from += COPIED_BYTES) {
      const part = piece.subarray(from, from + COPIED_BYTES);
      whole.set(part, at);
      at += part.length;
      inTurn += part.length;
      if (inTurn < COPIED_BYTES) continue;
      inTurn = 0;
      await turn();
    }
  return whole;
}
