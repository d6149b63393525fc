/**
 * A deployment that the user names. What is sent to it is scheduled for weeks ahead, goes to a domain that cannot exist
 * (RFC 2606), and is canceled in the end: the bench never makes anybody deliver to the internet.
 */
import { mail } from "./load.ts";
import { type Arrivals, openLoop, type Shot } from "./openloop.ts";

const DOMAIN = "bench.invalid";
const AHEAD_MS = 25 * 86_400_000;

export type Target = { url: string; key: string; rate: number };

export function harmless(n: number, now: number): object {
  return { ...mail(n, DOMAIN), scheduled_at: new Date(now + AHEAD_MS).toISOString() };
}

export function aim({ url, key }: Target, method: Shot["method"], path: string, body?: object): Shot {
  return { url: `${url}/api/v1${path}`, key, method, body: body === undefined ? null : JSON.stringify(body) };
}

/** Takes back what was scheduled; hands back how many could not be. */
export async function cancelAll(target: Target, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0;
  let next = 0;
  const { rate } = target;
  const arrivals: Arrivals = { rate, count: ids.length };
  const { failures } = await openLoop(arrivals, () => aim(target, "POST", `/emails/${ids[next++]}/cancel`));
  return failures;
}
