/**
 * For how long this keeper has been able to see Postgres, without a gap.
 *
 * While it could not, workers may not have been able to renew their leases either: a lease that ran out meanwhile says
 * nothing about its holder. So the keeper ends leases only after it has seen Postgres for a whole lease period.
 */

/** A pause of Postgres shorter than this costs no lease: they are renewed every 3 s and last 20 s. */
const GAP_MS_MAX = 5_000;

export class Sight {
  /** Since when, by the clock of Postgres. */
  #since: number | null = null;
  #seenAt = 0;

  /**
   * Postgres said that it is `now`; asked and answered at these monotonic times. Hands back for how long it has been in
   * sight.
   */
  note(now: number, askedAt: number, answeredAt: number): number {
    const isGap = answeredAt - askedAt > GAP_MS_MAX || askedAt - this.#seenAt > GAP_MS_MAX;
    if (this.#since === null || isGap || now < this.#since) this.#since = now;
    this.#seenAt = answeredAt;
    return now - this.#since;
  }
}
