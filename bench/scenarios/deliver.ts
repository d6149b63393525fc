/**
 * deliver: from the first request to the last mail in the sink: batches of 100 with half a KB of html,
 * unsigned, for some seconds, with everything on this machine. signed: the same with an RSA-2048 key for the
 * senders' domain. idle: one mail on an engine with nothing else to do, again and again, and what the disk
 * takes to make a page durable, since that is in every commit.
 */

import { figure } from "../figure.ts";
import { fdatasyncMs } from "../fsync.ts";
import { load, quantile, quantilesOf, unansweredOf, WARMUP_SECONDS } from "../load.ts";
import type { Bench, Workspace } from "../machine.ts";
import { BATCH, BATCH_EMAILS, ONE, SENDER_DOMAIN } from "../mails.ts";
import { costFigures, type Metered, secondHalfRate } from "../meter.ts";
import type { Result, Run, Scenario } from "../scenario.ts";
import { telling } from "../telling.ts";
import { until } from "../until.ts";

const IDLE_MAILS = 200;

export type Delivered = {
  perSecond: number;
  acceptedPerSecond: number;
  mails: number;
  refused: number;
  unanswered: number;
  metered: Metered;
  latency: [number, number][];
  /** Of the api. */
  url: string;
  /** Ends the roles, for whoever wants to start others. */
  stop(): Promise<void>;
};

/** In what a scenario differs from `deliver`. */
export type Variant = {
  body?: string | readonly string[];
  workerEnv?: Record<string, string>;
  apiProcesses?: number;
  workers?: number;
  prepare?(workspace: Workspace): Promise<void>;
};

export async function deliverRun(
  bench: Bench,
  { seconds, tell }: Run,
  { body = BATCH, workerEnv = {}, apiProcesses = 1, workers = 1, prepare = async () => {} }: Variant = {},
): Promise<Delivered> {
  const workspace = await bench.workspace();
  await prepare(workspace);
  const { key } = workspace;
  const roles = await Promise.all([
    bench.role("api", {}, apiProcesses),
    ...Array.from({ length: workers }, () => bench.role("deliver", workerEnv)),
    bench.role("keeper"),
  ]);
  const [api] = roles;
  const url = `${api.url}/api/v1/emails/batch`;
  await load(bench, { url, key, body, connections: 4, seconds: WARMUP_SECONDS });
  await until(
    "the mail of the warm-up left",
    async () => (await bench.sql`select 1 from bag limit 1`).length === 0,
  );
  const already = await delivered(bench);
  const meter = bench.meter();
  const began = performance.now();
  const endTelling = telling(bench.endings, () => tell(`${bench.sink.count()} e-mails in the sink`));
  const sent = await load(bench, { url, key, body, connections: 8, seconds });
  const mails = (sent.requests - sent.failures) * BATCH_EMAILS;
  await until("everything was delivered", async () => (await delivered(bench)) - already >= mails);
  const perSecond = mails / ((performance.now() - began) / 1000);
  await endTelling();
  const acceptedPerSecond = (sent.perSecond * BATCH_EMAILS * mails) / (sent.requests * BATCH_EMAILS);
  const { failures: refused, unanswered, latency } = sent;
  const metered = meter.stop();
  const stop = async () => void (await Promise.all(roles.map((role) => role.stop())));
  return { perSecond, acceptedPerSecond, mails, refused, unanswered, metered, latency, url: api.url, stop };
}

export async function delivered(bench: Bench): Promise<number> {
  const [row] = await bench.sql<
    { count: number }[]
  >`select coalesce(sum(delivered), 0)::int as count from tally`;
  return row?.count ?? 0;
}

const deliver: Scenario = {
  name: "deliver",
  does: "accept to sink, batches of 100, everything on this machine",
  run: async (bench, run) => resultOf(await deliverRun(bench, run), "at least 8,000"),
};

const signed: Scenario = {
  name: "signed",
  does: "as deliver, each mail signed with the RSA-2048 key of its sender's domain (DKIM)",
  run: async (bench, run) =>
    resultOf(await deliverRun(bench, run, { prepare: ({ id }) => bench.signFor(id, SENDER_DOMAIN) })),
};

export function resultOf(
  { perSecond, acceptedPerSecond, mails, refused, unanswered, metered, latency }: Delivered,
  wanted?: string,
): Result {
  return {
    figures: [
      figure("e-mails", perSecond, "/s", wanted),
      figure("e-mails of the second half", secondHalfRate(metered), "/s"),
      figure("accepted meanwhile", acceptedPerSecond, "/s"),
      ...costFigures(metered, mails),
      figure("batches refused", refused, ""),
      unansweredOf({ unanswered }),
    ],
    distributions: [{ name: "answer to a batch of 100", unit: "ms", points: latency }],
    courses: metered.courses,
  };
}

/** From the request until Postgres knows of the delivery. */
export async function waitOfOne(bench: Bench, url: string, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const began = Date.now();
  const response = await fetch(`${url}/api/v1/emails`, { method: "POST", headers, body: ONE });
  if (!response.ok)
    throw new Error(`A single send was answered ${response.status}: ${await response.text()}`);
  const { id } = (await response.json()) as { id: string };
  for (;;) {
    const [row] = await bench.sql<
      { at: Date | null }[]
    >`select delivered_at as at from email where id = ${id}`;
    if (row?.at) return row.at.getTime() - began;
  }
}

const idle: Scenario = {
  name: "idle",
  does: "one single send on an idle engine, from the request to the note of its delivery",
  async run(bench, { tell }) {
    const { key } = await bench.workspace();
    const [api] = await Promise.all([bench.role("api"), bench.role("deliver"), bench.role("keeper")]);
    const waits: number[] = [];
    for (let n = 0; n < IDLE_MAILS; n++) {
      waits.push(await waitOfOne(bench, api.url, key));
      if (n % 20 === 0) tell(`${n} of ${IDLE_MAILS}`);
    }
    waits.sort((a, b) => a - b);
    const [p50, diskMs] = [quantile(waits, 0.5), fdatasyncMs(bench.folder)];
    return {
      figures: [
        figure("p50", p50, "ms"),
        figure("p99", quantile(waits, 0.99), "ms", "at most 100"),
        figure("fdatasync of 8 KB, floor of the disk", diskMs, "ms"),
        figure("p50 against 15 ms and 3 fdatasyncs", p50 / (15 + 3 * diskMs), "x", "at most 1"),
      ],
      distributions: [{ name: "one mail until it is delivered", unit: "ms", points: quantilesOf(waits) }],
    };
  },
};

export const scenarios = [deliver, signed, idle];
