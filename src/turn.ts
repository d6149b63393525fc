/** Lets what else waits for this thread have its turn, between two pieces of work that belong together. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
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
