/** For load and faults, which are about time: tests wait for signals instead. */

/** Resolves after `ms`, or as soon as the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(over, ms);
    signal?.addEventListener("abort", over);
    function over(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", over);
      resolve();
    }
  });
}
