/**
 * The leases of this worker, renewed together every three seconds. No e-mail may start its DATA when the last
 * renewal is more than ten seconds old: another worker may soon take the bag. Nor may an e-mail of a
 * suspended workspace, which the renewal reports; its lease is kept for the answers to mails already started.
 *
 * A clock that is set forward stops mail until the next renewal, as a machine that slept looks the same.
 */

import type { Sql } from "../record/db/connect.ts";
import { FRESH_SECONDS, type HeldBag, renewLeases } from "../record/mail/bagleases.ts";

const RENEW_EVERY_MS = 3_000;
const FRESH_MS_MAX = FRESH_SECONDS * 1_000;

/** By both clocks: the steady one stands still while a machine sleeps, the other one may be set. */
export type LeaseMoment = { readonly steadyMs: number; readonly wallMs: number };

/** `isEnding`: all of the bag is noted, and its row goes with the next write. */
type HeldLease = { bag: HeldBag; renewedAt: LeaseMoment; isSuspended: boolean; isEnding: boolean };

export class Leases {
  readonly #sql: Sql;
  /** The wall clock of this machine. */
  readonly #wall: () => number;
  readonly #onFault: (error: unknown) => void;
  readonly #held = new Map<string, HeldLease>();
  readonly #timer: NodeJS.Timeout;

  constructor(sql: Sql, wall: () => number, onFault: (error: unknown) => void) {
    this.#sql = sql;
    this.#wall = wall;
    this.#onFault = onFault;
    this.#timer = setInterval(() => this.#renew().catch(onFault), RENEW_EVERY_MS);
  }

  /** `claimedAt`: when the claim was asked for, since the lease counts from some time after it. */
  hold(bag: HeldBag, claimedAt: LeaseMoment): void {
    this.#held.set(bag.token, { bag, renewedAt: claimedAt, isSuspended: false, isEnding: false });
  }

  /** Its lease is needed until the last of its notes is written. */
  end(bag: HeldBag): void {
    const held = this.#held.get(bag.token);
    if (held) held.isEnding = true;
  }

  drop(bag: HeldBag): void {
    this.#held.delete(bag.token);
  }

  /** As far as we know: nobody has told us that it was lost. */
  holds(bag: HeldBag): boolean {
    return this.#held.has(bag.token);
  }

  isFresh(bag: HeldBag): boolean {
    const held = this.#held.get(bag.token);
    return held !== undefined && !held.isSuspended && this.#sinceMs(held.renewedAt) < FRESH_MS_MAX;
  }

  moment(): LeaseMoment {
    return { steadyMs: performance.now(), wallMs: this.#wall() };
  }

  /** The most that may have passed. */
  #sinceMs({ steadyMs, wallMs }: LeaseMoment): number {
    return Math.max(performance.now() - steadyMs, this.#wall() - wallMs);
  }

  get count(): number {
    return this.#held.size;
  }

  all(): HeldBag[] {
    return [...this.#held.values()].map(({ bag }) => bag);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #renew(): Promise<void> {
    if (this.#held.size === 0) return;
    const askedAt = this.moment();
    const bags = this.all();
    const kept = await renewLeases(this.#sql, bags);
    let lost = 0;
    for (const bag of bags) {
      const held = this.#held.get(bag.token);
      if (!held) continue; // it ended meanwhile
      const isSuspended = kept.get(bag.id);
      if (isSuspended !== undefined) Object.assign(held, { renewedAt: askedAt, isSuspended });
      else if (this.#held.delete(bag.token) && !held.isEnding) lost++;
    }
    if (lost > 0)
      this.#onFault(new Error(`bags whose leases were lost: ${lost}; another worker may send their e-mails`));
  }
}
