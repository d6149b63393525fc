/**
 * One round of the event loop, before a call with `fetch`. The api closes a connection that was idle for 8 to
 * 12 s, the console one that was idle for 5 s. `fetch` gives one up after 4 s, by a timer. A process that was
 * busy for longer would send on a connection that is closed, and fail with "other side closed". In this round
 * it runs the timer and reads the close.
 */
export const heardOut = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
