/**
 * A tick that takes more than one transaction runs under a lease, so that no transaction is open while it
 * works.
 *
 * Promises: a tick runs in one process at a time, as long as that process and Postgres answer each other;
 * after a death another process may run it within LEASE_MS. A process that was frozen may wake up while its
 * successor works: each step of such a tick must be right by itself, and looks at `isHeld` to end early.
 */
import { randomUUID } from "node:crypto";
import type { Sql } from "../record/db/connect.ts";
import { endTickLease, extendTickLease, takeTickLease } from "../record/db/ticklease.ts";
import type { TickName } from "../record/mail/keeperwork.ts";

const LEASE_MS = 10_000;
const EXTEND_EVERY_MS = 3_000;

export type Lease = { isHeld(): boolean };

type Parts = {
  sql: Sql;
  onFault(error: unknown): void;
  /** A keeper that is stopping holds nothing any more. */
  isStopped(): boolean;
};

/** Runs `work` unless another process runs this tick now; null when it does. */
export async function underLease<T>(
  { sql, onFault, isStopped }: Parts,
  tick: TickName,
  work: (lease: Lease) => Promise<T>,
): Promise<T | null> {
  const token = randomUUID();
  // from before it is asked for, so that it never ends later here than in Postgres
  let heldUntil = performance.now() + LEASE_MS;
  const extend = async (): Promise<void> => {
    const askedAt = performance.now();
    heldUntil = (await extendTickLease(sql, tick, token, LEASE_MS)) ? askedAt + LEASE_MS : 0;
  };
  let timer: NodeJS.Timeout | undefined;
  let isTaken = true; // it may be ours even when the answer is lost
  try {
    isTaken = await takeTickLease(sql, tick, token, LEASE_MS);
    if (!isTaken) return null;
    timer = setInterval(() => extend().catch(onFault), EXTEND_EVERY_MS);
    return await work({ isHeld: () => !isStopped() && performance.now() < heldUntil });
  } finally {
    clearInterval(timer);
    // a lease that cannot be given back expires
    if (isTaken) await endTickLease(sql, tick, token).catch(onFault);
  }
}
