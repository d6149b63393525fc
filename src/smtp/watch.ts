/**
 * Looks at deadlines again and again, for answers that are awaited. Each look has the time at which it was
 * due, and comes after what had arrived by then was read: a process that was held up finds a deadline and an
 * answer at once, and an answer that is not read is a mail that is sent again.
 */
export function watchDeadlines(
  everyMs: number,
  now: () => number,
  look: (now: number) => void,
): NodeJS.Timeout {
  return setInterval(() => {
    const dueAt = now(); // reading may hold up the process as well
    setImmediate(look, dueAt);
  }, everyMs);
}
