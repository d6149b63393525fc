/** Lets what else waits for this thread have its turn, between two pieces of work that belong together. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
