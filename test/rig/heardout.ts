/**
 * From here on every `fetch` waits for a whole round of the event loop. The api closes a connection that was
 * idle for 8 to 12 s, the console one that was idle for 5 s. `fetch` gives one up after 4 s, by a timer. A
 * process that was held up for longer would send on a connection that is closed, or that an engine in the
 * same process is about to close, and fail with "other side closed". In that round all timers run, and what
 * they close is read.
 */
const { fetch } = globalThis;
const endOfRound = setImmediate; // also where a test has its own timers

function round(): Promise<void> {
  // the first of them comes at the end of a round that may have run its timers before the hold-up
  return new Promise((resolve) => endOfRound(() => endOfRound(resolve)));
}

globalThis.fetch = async (...given) => {
  await round();
  return fetch(...given);
};
