/** After so much work of some, the others that wait for a turn have it after what else the event loop has to do. */
const WORK_MS = 10;

/** When the first of those who have their turn in this round of the loop had it; null: nobody has yet. */
let roundBegan: number | null = null;

/**
 * Lets what else waits for this thread have its turn, between two pieces of work that belong together. All who ask share
 * one round of the event loop, so that many of them hold it no longer than one.
 */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(goOn, resolve));
}

function goOn(resolve: () => void): void {
  if (roundBegan === null) {
    roundBegan = performance.now();
    // the first of the next round
    setImmediate(endRound);
  }
  if (performance.now() - roundBegan < WORK_MS) resolve();
  else setImmediate(goOn, resolve);
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
