/**
 * Reads what follows DATA: undoes the doubled dots and finds the end.
 *
 * Promises: a message ends at CRLF.CRLF only. A CR or LF that is not part of a CRLF makes the whole message
 * malformed, since two readers could disagree about where it ends. The result does not depend on how the
 * bytes are cut into pieces.
 */

const [LINE_START, IN_LINE, AFTER_CR, AFTER_DOT, AFTER_DOT_CR] = [0, 1, 2, 3, 4];
const CR = 0x0d;
const LF = 0x0a;
const DOT = 0x2e;

export class MessageReader {
  #state = LINE_START;
  #lineBytes = 0;
  /** Of the longest line so far, without its line end. */
  lineBytes = 0;
  /** Of the message so far. */
  bytes = 0;
  isMalformed = false;

  /**
   * Passes on what belongs to the message, in one piece: the chunk itself, in which what follows a dot that
   * was doubled moves up. Returns where the message is over, or -1.
   */
  read(chunk: Buffer, take: (piece: Buffer) => void): number {
    let state = this.#state;
    let lineFrom = -this.#lineBytes;
    let end = -1;
    let kept = 0;
    for (let at = 0; at < chunk.length && end < 0; at++) {
      const byte = chunk[at] as number;
      if (state === LINE_START && byte === DOT) {
        state = AFTER_DOT;
        continue;
      }
      if (byte === LF) {
        if (state === AFTER_DOT_CR) {
          end = at + 1;
          state = LINE_START;
          continue;
        }
        if (state !== AFTER_CR) this.isMalformed = true;
        this.lineBytes = Math.max(this.lineBytes, at - lineFrom);
        lineFrom = at + 1;
        state = LINE_START;
      } else {
        if (state === AFTER_CR || state === AFTER_DOT_CR) this.isMalformed = true;
        if (byte === CR && state === AFTER_DOT) {
          // belongs to the end, or to a message that is malformed
          state = AFTER_DOT_CR;
          continue;
        }
        state = byte === CR ? AFTER_CR : IN_LINE;
      }
      if (kept < at) chunk[kept] = byte;
      kept++;
    }
    this.#state = state;
    this.#lineBytes = chunk.length - lineFrom;
    this.lineBytes = Math.max(this.lineBytes, end < 0 ? this.#lineBytes : 0);
    this.bytes += kept;
    if (kept > 0) take(chunk.subarray(0, kept));
    return end;
  }
}
