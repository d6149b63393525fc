/**
 * For how long this keeper has been able to see Postgres, without a gap and with a clock that went on evenly.
 *
 * While it could not, workers may not have been able to renew their leases either: a lease that ran out
 * meanwhile says nothing about its holder. Nor does one that ran out because the clock of Postgres was set,
 * or because another server took its place: a step forward ends all leases at once. So the keeper ends leases
 * only after it has seen Postgres for a whole lease period, by its own monotonic clock; within that period
 * every holder that lives renews its leases by the clock that Postgres has then.
 */

/** A pause of Postgres shorter than this costs no lease: they are renewed every 3 s and last 20 s. */
const GAP_MS_MAX = 5_000;
/**
 * Between two looks, a second apart, the clock of Postgres may gain or lose this much: leases have more to
 * spare.
 */
const STEP_MS_MAX = 2_000;

export class Sight {
  /** Monotonic, as all times here but that of Postgres. */
  #since: number | null = null;
  #seenAt = 0;
  /** Postgres' time minus the monotonic clock. */
  #offset = 0;

  /**
   * Postgres said that it is `now`; asked and answered at these times. Hands back for how long it has been in
   * sight.
   */
  note(now: number, askedAt: number, answeredAt: number): number {
    const isGap = answeredAt - askedAt > GAP_MS_MAX || askedAt - this.#seenAt > GAP_MS_MAX;
    const stepMs = this.#follow(now - answeredAt, now - askedAt);
    if (this.#since === null || isGap || stepMs > STEP_MS_MAX) this.#since = answeredAt;
    this.#seenAt = answeredAt;
    return Math.max(0, askedAt - this.#since);
  }

  /**
   * Postgres read its clock at some moment between question and answer. Hands back by how much it was set, at
   * least.
   */
  #follow(least: number, most: number): number {
    const isFirst = this.#since === null;
    const offset = isFirst ? (least + most) / 2 : Math.min(Math.max(this.#offset, least), most);
    const stepMs = isFirst ? 0 : Math.abs(offset - this.#offset);
    this.#offset = offset;
    return stepMs;
  }
}
