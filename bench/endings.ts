/**
 * What has been started and must be ended, newest first. Whoever starts something adds how it ends before
 * going on, so that an interruption at any moment, also in the middle of a start, leaves nothing behind.
 */
type End = () => Promise<unknown> | unknown;

export class Endings {
  readonly #ends: End[] = [];
  readonly #aborting = new AbortController();
  #ending: Promise<void> | null = null;

  /** Aborted by an interruption: for what can be ended while it starts. */
  get signal(): AbortSignal {
    return this.#aborting.signal;
  }

  /** Hands back how to end this one early; it ends once. */
  add(end: End): () => Promise<void> {
    let ended: Promise<void> | null = null;
    const once = (): Promise<void> => {
      ended ??= (async () => {
        await end();
      })();
      return ended;
    };
    this.#ends.push(once);
    if (this.signal.aborted) once();
    return once;
  }

  /** What takes a while to start: it ends whether the start comes to an end by itself or is aborted. */
  async start<T extends { stop(): Promise<void> }>(starting: Promise<T>): Promise<T> {
    this.add(() =>
      starting.then(
        (started) => started.stop(),
        () => {}, // then there is nothing to end, and whoever waits for it hears why
      ),
    );
    return starting;
  }

  /** Everything has run its course: ends it in order, one after the other, and is ready for the next. */
  end(): Promise<void> {
    // an interruption and the scenario that it broke both come here, and whoever exits then must have waited
    // for all
    this.#ending ??= this.#endAll().finally(() => {
      this.#ending = null;
    });
    return this.#ending;
  }

  async #endAll(): Promise<void> {
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
