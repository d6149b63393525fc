/**
 * direct-trouble: mail at a steady rate to 17 receivers, then the same with three more that are in trouble:
 * nobody listens at the first, the second takes two seconds for each message, and the third answers 421 to
 * the sixth connection and 451 to more than 50 messages a minute. A shaping file names the limits of the
 * third. The 17 must not notice; the third must get nearly all that it takes, and refuse next to nothing once
 * a minute has passed.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { openDns } from "../../test/rig/dns.ts";
import { openPeer } from "../../test/rig/peer.ts";
import { Receiver } from "../../test/rig/receiver.ts";
import { openSink } from "../../test/rig/sink.ts";
import { figure } from "../figure.ts";
import type { Bench, Workspace } from "../machine.ts";
import { mail } from "../mails.ts";
import { openLoop } from "../openloop.ts";
import type { Scenario } from "../scenario.ts";
import { after } from "../until.ts";

const GOOD = 17;
const TROUBLED = ["dead", "slow", "limited"] as const;
const SLOW_MS = 2_000;
const CONNECTIONS_MAX = 5;
const MINUTE_MS = 60_000;
const MESSAGES_PER_MINUTE = 50;
const ALONE_SECONDS = 30;
const WARMUP_SECONDS = 60;
/** Enough to count a rate per minute. */
const MEASURED_SECONDS_MIN = 120;
/** What has left by then had nothing to wait for. */
const PROMPT_SECONDS = 5;
const SETTLE_MS = 6_000;

const domainOf = (name: string | number) => `${typeof name === "number" ? `good${name}` : name}.example.net`;

/** Counts what it refuses, too. */
class LimitedReceiver extends Receiver {
  readonly refusedAt: number[] = [];
  override greeting = () =>
    this.open >= CONNECTIONS_MAX ? this.#refuse("421 4.7.0 too many connections") : null;
  override answer = () => {
    const since = performance.now() - MINUTE_MS;
    const taken = this.takenAt.filter((at) => at > since).length;
    return taken >= MESSAGES_PER_MINUTE ? this.#refuse("451 4.7.1 too many messages, slow down") : null;
  };

  #refuse(reply: string): string {
    this.refusedAt.push(performance.now());
    return reply;
  }
}

const trouble: Scenario = {
  name: "direct-trouble",
  does: "without a smarthost at a steady rate: 17 receivers beside a dead, a slow and a limited one",
  async run(bench, { seconds, sizes, tell }) {
    const limited = await openReceivers(bench);
    const { dns, file } = await openNames(bench);
    const workspace = await bench.workspace();
    const [api] = await Promise.all([
      bench.role("api"),
      bench.role("keeper"),
      bench.role("deliver", {
        COURIER: "direct",
        SMTP_URL: "",
        EHLO_NAME: "bench.example.com",
        DNS_SERVERS: dns,
        MTA_STS: "false",
        DIRECT_PORT: String(bench.sink.port),
        DIRECT_NETWORKS_ALLOWED: "127.0.0.0/8",
        SHAPING_FILE: file,
      }),
    ]);
    const good = Array.from({ length: GOOD }, (_, n) => n);
    const rate = sizes.rate / (GOOD + TROUBLED.length);
    const send = (names: readonly (string | number)[], forSeconds: number) =>
      batches({ workspace, url: `${api.url}/api/v1/emails/batch` }, names, rate, forSeconds);
    await send(good, 5);
    tell("17 receivers alone");
    const alone = await measured(bench, () => send(good, ALONE_SECONDS));
    tell("with three in trouble: the first minute");
    await send([...good, ...TROUBLED], WARMUP_SECONDS);
    tell("with three in trouble, measured");
    const from = performance.now();
    const beside = await measured(bench, () =>
      send([...good, ...TROUBLED], Math.max(seconds, MEASURED_SECONDS_MIN)),
    );
    const minutes = (performance.now() - from) / MINUTE_MS;
    const taken = limited.takenAt.filter((at) => at >= from).length;
    const refused = limited.refusedAt.filter((at) => at >= from).length;
    return {
      figures: [
        figure("17 receivers alone, e-mails", alone.perSecond, "/s"),
        figure("beside the three", beside.perSecond, "/s"),
        figure("beside against alone", beside.perSecond / alone.perSecond, "x", "at least 0.85"),
        figure("alone, delivered after p95", alone.p95, "s"),
        figure("beside, delivered after p95", beside.p95, "s"),
        figure(`beside, delivered within ${PROMPT_SECONDS} s`, beside.promptPercent, "%"),
        figure("the limited one took", taken / minutes, "/min"),
        figure("of what it allows", taken / minutes / MESSAGES_PER_MINUTE, "x", "at least 0.9"),
        figure("it refused, of all", (100 * refused) / Math.max(1, taken + refused), "%", "at most 1"),
        figure("its most connections", limited.mostOpen, "", `at most ${CONNECTIONS_MAX}`),
      ],
    };
  },
};

/** All on one port; nobody listens where the dead one should be. */
async function openReceivers({ sink, endings }: Bench): Promise<LimitedReceiver> {
  const slow = await openSink({ host: "127.0.0.3", port: sink.port });
  slow.turn({ dotDelayMs: SLOW_MS });
  endings.add(() => slow.close());
  const limited = new LimitedReceiver();
  const peer = await openPeer(limited.script, sink.port, "127.0.0.4");
  endings.add(() => peer.close());
  return limited;
}

async function openNames({ folder, endings }: Bench): Promise<{ dns: string; file: string }> {
  const dns = await openDns();
  endings.add(() => dns.close());
  const name = (domain: string, address: string) => {
    dns.zones.set(domain, { mx: [[10, `mx.${domain}`]] });
    dns.zones.set(`mx.${domain}`, { addresses: [address] });
  };
  for (let n = 0; n < GOOD; n++) name(domainOf(n), "127.0.0.1");
  TROUBLED.forEach((one, n) => {
    name(domainOf(one), `127.0.0.${n + 2}`);
  });
  const file = join(folder, "shaping.json");
  const limit = { connections: CONNECTIONS_MAX, messages_per_minute: MESSAGES_PER_MINUTE };
  writeFileSync(
    file,
    JSON.stringify({ rules: [{ match: { mx: [`mx.${domainOf("limited")}`] }, ...limit }] }),
  );
  return { dns: dns.address, file };
}

/** One mail to each in every batch. */
async function batches(
  { workspace, url }: { workspace: Workspace; url: string },
  names: readonly (string | number)[],
  rate: number,
  forSeconds: number,
): Promise<void> {
  const body = JSON.stringify(names.map((name, n) => mail(n, domainOf(name))));
  const { failures } = await openLoop({ rate, count: Math.ceil(rate * forSeconds) }, () => ({
    url,
    key: workspace.key,
    method: "POST",
    body,
  }));
  if (failures > 0) throw new Error(`${failures} batches were refused.`);
}

type Course = { perSecond: number; p95: number; promptPercent: number };

/** How the mail to the 17 fared that was accepted meanwhile. */
async function measured({ sql }: Bench, send: () => Promise<void>): Promise<Course> {
  const [before] = await sql<{ now: Date }[]>`select now() as now`;
  const began = performance.now();
  await send();
  const seconds = (performance.now() - began) / 1_000;
  await after(SETTLE_MS);
  const [row] = await sql<{ delivered: number; prompt: number; accepted: number; p95: number }[]>`
    select count(*)::int as accepted, count(delivered_at)::int as delivered,
           count(*) filter (where delivered_at - created_at < ${PROMPT_SECONDS} * interval '1 second')::int as prompt,
           coalesce(percentile_cont(0.95) within group (order by date_part('epoch', delivered_at - created_at)), 0) as p95
    from email where created_at >= ${(before as { now: Date }).now}
      and created_at < ${(before as { now: Date }).now}::timestamptz + ${seconds} * interval '1 second'
      and head->'to'->>0 like '%@good%'`;
  const { delivered = 0, prompt = 0, accepted = 0, p95 = 0 } = row ?? {};
  return { perSecond: delivered / seconds, p95, promptPercent: (100 * prompt) / Math.max(1, accepted) };
}

export const scenarios = [trouble];
