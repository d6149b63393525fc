/**
 * A deployment that the user names. What is sent to it is scheduled for weeks ahead, goes to a domain that
 * cannot exist (RFC 2606), and is canceled in the end; contacts and their events are in an audience of the
 * bench's own, which no automation knows and which is erased in the end. So nobody is made to deliver to the
 * internet.
 */
import { mail } from "./mails.ts";
import { type Hit, openLoop, type Shot } from "./openloop.ts";
import { after } from "./until.ts";

const DOMAIN = "bench.invalid";
const AHEAD_MS = 25 * 86_400_000;
const CONTACTS = 10;
const ROUND_SECONDS = 2;
/** For as long as a limit per second holds. */
const PAUSE_MS = 1_000;
const RATE_MIN = 1;
const BARREN_ROUNDS_MAX = 5;

export type Target = {
  url: string;
  key: string;
  rate: number;
  /** Ids of what was scheduled there and must be canceled. */
  booked: Set<string>;
  /** Ids of audiences that were made there and must be erased. */
  audiences: Set<string>;
  /** Aborted when the bench is interrupted: nothing more is sent. */
  signal: AbortSignal;
};

export function harmless(n: number, now: number): object {
  return { ...mail(n, DOMAIN), scheduled_at: new Date(now + AHEAD_MS).toISOString() };
}

export function aim({ url, key }: Target, method: Shot["method"], path: string, body?: object): Shot {
  return { url: `${url}/api/v1${path}`, key, method, body: body === undefined ? null : JSON.stringify(body) };
}

export function targetAt(url: string, key: string, rate: number, signal: AbortSignal): Target {
  return { url: url.replace(/\/+$/, ""), key, rate, booked: new Set(), audiences: new Set(), signal };
}

/** In words, before anything is sent there, when it is no deployment or does not know the key. */
export async function expectDeployment(url: string, key: string): Promise<void> {
  if (!/^https?:\/\/[^/]/.test(url) || !URL.canParse(url))
    throw new Error(`--target must be a URL like https://mail.example.com, not ${url}.`);
  const target = targetAt(url, key, 1, new AbortController().signal);
  const { status } = await ask(target, "GET", "/emails/no-id");
  if (status === 0) throw new Error(`Nobody answers at ${url}.`);
  if ([401, 403].includes(status)) throw new Error(`${url} does not accept this key (${status}).`);
  if (status !== 422 && status !== 429)
    throw new Error(`${url} is no deployment of Postrider: it answered ${status} where 422 was due.`);
}

/**
 * Bodies of events, one for each contact; in words why there are none, when the key or the plan does not
 * allow them.
 */
export async function audienceThere(target: Target): Promise<string[] | string> {
  const { rate, audiences, signal } = target;
  const made = await ask(target, "POST", "/audiences", { name: "Postrider bench" });
  if (made.status !== 201) return `an audience was answered ${made.status}: ${made.body}`;
  const { id } = JSON.parse(made.body) as { id: string };
  audiences.add(id);
  const emails = Array.from({ length: CONTACTS }, (_, n) => `contact${n}@${DOMAIN}`);
  const added = await openLoop({ rate, count: CONTACTS, signal }, (n) =>
    aim(target, "POST", `/audiences/${id}/contacts`, { email: emails[n] }),
  );
  if (added.failures > 0) return `${added.failures} contacts were refused`;
  const bodies = emails.map((email) =>
    JSON.stringify({ audience_id: id, email, name: "bench", properties: { order: 17 } }),
  );
  const tracked = await ask(target, "POST", "/events", JSON.parse(bodies[0] as string) as object);
  return tracked.status === 202 ? bodies : `an event was answered ${tracked.status}: ${tracked.body}`;
}

/** Takes back what was made there; hands back how much could not be. */
export async function takeBack(target: Target): Promise<number> {
  const { booked, audiences } = target;
  if (target.signal.aborted && booked.size > 0)
    process.stderr.write(`\n${booked.size} scheduled e-mails are canceled at ${target.url} ...\n`);
  await undo(target, booked, (id) => aim(target, "POST", `/emails/${id}/cancel`));
  await undo(target, audiences, (id) => aim(target, "DELETE", `/audiences/${id}`));
  if (booked.size > 0)
    process.stderr.write(
      `${booked.size} scheduled e-mails to ${DOMAIN} could not be canceled at ${target.url}.\n`,
    );
  for (const id of audiences)
    process.stderr.write(`The audience ${id} could not be erased at ${target.url}.\n`);
  return booked.size + audiences.size;
}

/**
 * In rounds: a deployment that refuses a part, since its limits are reached, is asked at the pace that got
 * through.
 */
async function undo(target: Target, made: Set<string>, how: (id: string) => Shot): Promise<void> {
  let { rate } = target;
  for (let barren = 0; made.size > 0 && barren < BARREN_ROUNDS_MAX; ) {
    const ids = [...made].slice(0, Math.ceil(rate * ROUND_SECONDS));
    await openLoop(
      { rate, count: ids.length },
      (n) => how(ids[n] as string),
      ({ status }, n) => {
        if (status === 200) made.delete(ids[n] as string);
      },
    );
    const left = ids.filter((id) => made.has(id)).length;
    barren = left === ids.length ? barren + 1 : 0;
    rate = Math.max(RATE_MIN, (rate * (ids.length - left)) / ids.length);
    if (left > 0) await after(PAUSE_MS);
  }
}

async function ask(target: Target, method: Shot["method"], path: string, body?: object): Promise<Hit> {
  let answer: Hit | null = null;
  await openLoop(
    { rate: 1, count: 1 },
    () => aim(target, method, path, body),
    (hit) => {
      answer = hit;
    },
  );
  return answer ?? { status: 0, body: "no answer", waitMs: 0 };
}
