/**
 * What has been started and must be ended, newest first. Whoever starts something adds how it ends before going on, so
 * that an interruption at any moment, also in the middle of a start, leaves nothing behind.
 */
type End = () => Promise<unknown> | unknown;

export class Endings {
  readonly #ends: End[] = [];
  readonly #aborting = new AbortController();

  /** Aborted by an interruption: for what can be ended while it starts. */
  get signal(): AbortSignal {
    return this.#aborting.signal;
  }

  /** Hands back how to end this one early; it ends once. */
  add(end: End): () => Promise<void> {
    let ended: Promise<void> | null = null;
    const once = (): Promise<void> => {
      ended ??= Promise.resolve(end()).then(() => {});
      return ended;
    };
    this.#ends.push(once);
    if (this.signal.aborted) once();
    return once;
  }

  /** Everything has run its course: ends it in order, one after the other, and is ready for the next. */
  async end(): Promise<void> {
    for (let end = this.#ends.pop(); end; end = this.#ends.pop())
      // one that does not end well does not keep the others from ending
      await Promise.resolve(end()).catch((error: unknown) => process.stderr.write(`${error}\n`));
  }

  /** For good, in the middle of whatever: what starts meanwhile ends at once too. */
  async interrupt(): Promise<void> {
    this.#aborting.abort();
    await this.end();
  }
}
