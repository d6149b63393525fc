/** A store did not answer in time, or there is no room: nothing was accepted, and the caller may try again. */
export class Unavailable extends Error {
  constructor(reason: string, cause?: unknown) {
    super(reason, { cause });
  }
}

/** How long a request waits for what the record knows of its key, its workspace or an earlier answer. */
export const RECORD_MS_MAX = 3_000;

/** Why nothing was written: the caller may try again, unless what it sent can never be stored. */
export function rolledBack({ error, isBroken }: { error: unknown; isBroken: boolean }): unknown {
  return isBroken ? error : new Unavailable("the commit was rolled back", error);
}
