/** A store did not answer in time, or there is no room: nothing was accepted, and the caller may try again. */
export class Unavailable extends Error {
  constructor(reason: string, cause?: unknown) {
    super(reason, { cause });
  }
}
