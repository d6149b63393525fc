/** Waiting until something holds; gives up with words when it never does. */
const LOOK_EVERY_MS = 50;
const WAIT_MS_MAX = 600_000;

export async function until(
  what: string,
  holds: () => Promise<boolean> | boolean,
  everyMs = LOOK_EVERY_MS,
): Promise<void> {
  const deadline = performance.now() + WAIT_MS_MAX;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`It did not come to pass: ${what}`);
    await after(everyMs);
  }
}

export function after(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
