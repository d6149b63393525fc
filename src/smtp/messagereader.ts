/**
 * Reads what follows DATA: undoes the doubled dots and finds the end.
 *
 * Promises: a message ends at CRLF.CRLF only. A CR or LF that is not part of a CRLF makes the whole message malformed,
 * since two readers could disagree about where it ends. The result does not depend on how the bytes are cut into pieces.
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

  /** Passes on what belongs to the message. Returns where the message is over, or -1. */
  read(chunk: Buffer, take: (piece: Buffer) => void): number {
    let state = this.#state;
    let from = 0;
    let lineFrom = -this.#lineBytes;
    const pass = (to: number) => {
      if (to <= from) return;
      this.bytes += to - from;
      take(from === 0 && to === chunk.length ? chunk : chunk.subarray(from, to));
    };
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at];
      if (state === LINE_START && byte === DOT) {
        pass(at);
        from = at + 1;
        state = AFTER_DOT;
      } else if (byte === LF) {
        if (state === AFTER_DOT_CR) {
          this.#state = LINE_START;
          return at + 1;
        }
        if (state !== AFTER_CR) this.isMalformed = true;
        this.lineBytes = Math.max(this.lineBytes, at - lineFrom);
        lineFrom = at + 1;
        state = LINE_START;
      } else {
        if (state === AFTER_CR || state === AFTER_DOT_CR) this.isMalformed = true;
        if (byte !== CR) state = IN_LINE;
        else state = state === AFTER_DOT ? AFTER_DOT_CR : AFTER_CR;
      }
    }
    // the CR after a dot belongs to the end, or to a message that is malformed
    pass(state === AFTER_DOT_CR ? chunk.length - 1 : chunk.length);
    this.#state = state;
    this.#lineBytes = chunk.length - lineFrom;
    this.lineBytes = Math.max(this.lineBytes, this.#lineBytes);
    return -1;
  }
}
