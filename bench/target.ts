/**
 * A deployment that the user names. What is sent to it is scheduled for weeks ahead, goes to a domain that cannot exist
 * (RFC 2606), and is canceled in the end: the bench never makes anybody deliver to the internet.
 */
import { mail } from "./load.ts";
import { openLoop, type Shot } from "./openloop.ts";

const DOMAIN = "bench.invalid";
const AHEAD_MS = 25 * 86_400_000;
const ROUNDS = 2;

export type Target = {
  url: string;
  key: string;
  rate: number;
  /** Ids of what was scheduled there and must be canceled. */
  booked: Set<string>;
  /** Aborted when the bench is interrupted: nothing more is sent. */
  signal: AbortSignal;
};

export function harmless(n: number, now: number): object {
  return { ...mail(n, DOMAIN), scheduled_at: new Date(now + AHEAD_MS).toISOString() };
}

export function aim({ url, key }: Target, method: Shot["method"], path: string, body?: object): Shot {
  return { url: `${url}/api/v1${path}`, key, method, body: body === undefined ? null : JSON.stringify(body) };
}

/** Takes back what was scheduled, in two rounds; hands back how many could not be. */
export async function cancelAll(target: Target): Promise<number> {
  const { rate, booked } = target;
  for (let round = 0; round < ROUNDS && booked.size > 0; round++) {
    const ids = [...booked];
    await openLoop(
      { rate, count: ids.length },
      (n) => aim(target, "POST", `/emails/${ids[n]}/cancel`),
      ({ status }, n) => {
        if (status === 200) booked.delete(ids[n] as string);
      },
    );
  }
  if (booked.size > 0)
    process.stderr.write(
      `${booked.size} scheduled e-mails to ${DOMAIN} could not be canceled at ${target.url}.\n`,
    );
  return booked.size;
}
