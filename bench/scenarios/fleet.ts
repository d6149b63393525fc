/**
 * What more of the same costs, each beside one of it. processes: two api processes on one port. shards: two
 * workers on two shards of the queue. cluster: admitted requests on a Redis Cluster of three masters. They
 * take turns in the order one, more, more, one, so that a machine that grows slower slows both alike.
 */
import { setShards } from "../../src/record/mail/queueshards.ts";
import { ownCluster } from "../../test/rig/rediscluster.ts";
import { type Figure, figure } from "../figure.ts";
import { load, unansweredOf, WARMUP_SECONDS } from "../load.ts";
import type { Bench } from "../machine.ts";
import { BATCH, BATCH_EMAILS } from "../mails.ts";
import { cpuSeconds, type Metered } from "../meter.ts";
import { openLoop } from "../openloop.ts";
import type { Run, Scenario } from "../scenario.ts";
import { until } from "../until.ts";
import { deliverRun, type Variant } from "./deliver.ts";

const WORKSPACES = 6;
const CONNECTIONS_EACH = 6;

/** Besides the CPU of all, that of each process by its name; two of one name together. */
type Rate = { perSecond: number; cpu: number; [process: string]: number };
type Turn = "one" | "more";

/** The mean of both turns of each. */
async function inTurns<T extends Record<string, number>>(measure: (turn: Turn) => Promise<T>) {
  const turns: T[] = [];
  for (const turn of ["one", "more", "more", "one"] as const) turns.push(await measure(turn));
  const mean = (...which: number[]): T => {
    const chosen = which.map((n) => turns[n] as T);
    const names = Object.keys(turns[0] as T);
    return Object.fromEntries(
      names.map((name) => [
        name,
        chosen.reduce((sum, one) => sum + (one[name] as number), 0) / chosen.length,
      ]),
    ) as T;
  };
  return { one: mean(0, 3), more: mean(1, 2) };
}

async function delivering(bench: Bench, run: Run, variant: Variant): Promise<Rate> {
  const { perSecond, mails, metered, stop } = await deliverRun(bench, run, variant);
  await stop();
  return rateOf(perSecond, metered.cpu, mails);
}

/** CPU in seconds per thousand e-mails. */
function rateOf(perSecond: number, cpu: Metered["cpu"], mails: number): Rate {
  const rate: Rate = { perSecond, cpu: 0 };
  for (const { name, seconds } of cpu) {
    const each = (seconds * 1000) / mails;
    rate.cpu += each;
    rate[name] = (rate[name] ?? 0) + each;
  }
  return rate;
}

function beside(words: { one: string; more: string }, { one, more }: { one: Rate; more: Rate }): Figure[] {
  return [
    figure(`e-mails with ${words.one}`, one.perSecond, "/s"),
    figure(`e-mails with ${words.more}`, more.perSecond, "/s"),
    figure(`CPU per thousand e-mails with ${words.one}`, one.cpu, "s"),
    figure(`CPU per thousand e-mails with ${words.more}`, more.cpu, "s"),
    ...Object.keys(one)
      .filter((name) => !["perSecond", "cpu"].includes(name))
      .flatMap((name) => [
        figure(`of which ${name} with ${words.one}`, one[name] as number, "s"),
        figure(`of which ${name} with ${words.more}`, more[name] as number, "s"),
      ]),
  ];
}

/**
 * At full speed two threads of one core are busy at once for longer when there are more processes, and every
 * second of CPU does less: so the same work is measured at half the load, too.
 */
const processes: Scenario = {
  name: "processes",
  does: "as deliver, with one api process and with two on one port, in turns; then at half that load",
  async run(bench, run) {
    const countOf = (turn: Turn) => (turn === "one" ? 1 : 2);
    const full = await inTurns((turn) => delivering(bench, run, { apiProcesses: countOf(turn) }));
    const rate = Math.ceil(full.one.perSecond / 2 / BATCH_EMAILS);
    const half = await inTurns((turn) => atRate(bench, run, rate, countOf(turn)));
    const words = { one: "one api process", more: "two api processes" };
    const halfWords = { one: "one api process at half the load", more: "two api processes at half the load" };
    return {
      figures: [
        ...beside(words, full),
        figure("two api processes against one, CPU", full.more.cpu / full.one.cpu, "x", "at most 1.1"),
        ...beside(halfWords, half),
        figure("at half the load, CPU", half.more.cpu / half.one.cpu, "x", "at most 1.1"),
      ],
    };
  },
};

/** Batches at even times, until all of them are delivered. */
async function atRate(
  bench: Bench,
  { seconds, tell }: Run,
  rate: number,
  apiProcesses: number,
): Promise<Rate> {
  const { key } = await bench.workspace();
  const roles = await Promise.all([
    bench.role("api", {}, apiProcesses),
    bench.role("deliver"),
    bench.role("keeper"),
  ]);
  const shot = { url: `${roles[0].url}/api/v1/emails/batch`, key, method: "POST" as const, body: BATCH };
  const isEmpty = async () => (await bench.sql`select 1 from bag limit 1`).length === 0;
  await openLoop({ rate, count: rate * WARMUP_SECONDS }, () => shot);
  await until("the mail of the warm-up left", isEmpty);
  tell(`${rate} batches a second`);
  const meter = bench.meter();
  const { perSecond, failures } = await openLoop({ rate, count: rate * seconds }, () => shot);
  await until("everything was delivered", isEmpty);
  const { cpu } = meter.stop();
  if (failures > 0) throw new Error(`${failures} batches were refused at half the load.`);
  await Promise.all(roles.map((role) => role.stop()));
  return rateOf(perSecond * BATCH_EMAILS, cpu, rate * seconds * BATCH_EMAILS);
}

const shards: Scenario = {
  name: "shards",
  does: "as deliver, with one worker on one shard and with two on two, in turns",
  async run(bench, run) {
    const rates = await inTurns(async (turn) => {
      const count = turn === "one" ? 1 : 2;
      await setShards(bench.sql, count);
      return delivering(bench, run, { workers: count });
    });
    return {
      figures: [
        ...beside({ one: "one worker", more: "two workers on two shards" }, rates),
        figure(
          "two workers against one, e-mails",
          rates.more.perSecond / rates.one.perSecond,
          "x",
          "at least 1",
        ),
      ],
    };
  },
};

type Admitted = { perSecond: number; micros: number; replicaMicros: number; unanswered: number };

const cluster: Scenario = {
  name: "cluster",
  does: "admit with one Redis and with a cluster of three masters and three replicas, in turns",
  async run(bench, run) {
    const nodes = await bench.endings.start(ownCluster(bench.folder));
    const roles = await Promise.all(
      nodes.nodes.map(async ({ client, pid }) => ({
        isMaster: (await client.info("replication")).includes("role:master"),
        pid: pid(),
      })),
    );
    const pidsOf = (isMaster: boolean) =>
      roles.filter((one) => one.isMaster === isMaster).map(({ pid }) => pid);
    const keys: string[] = [];
    for (let n = 0; n < WORKSPACES; n++) keys.push((await bench.workspace()).key);
    const { one, more } = await inTurns((turn) =>
      turn === "one"
        ? admitted(
            bench,
            run,
            keys,
            // as a cluster is reached, and not by a unix socket
            { REDIS_URL: bench.redisServer.tcpUrl },
            { redis: [bench.redisServer.pid], replicas: [] },
          )
        : admitted(
            bench,
            run,
            keys,
            { REDIS_URL: nodes.url },
            { redis: pidsOf(true), replicas: pidsOf(false) },
          ),
    );
    return {
      figures: [
        figure("requests with one Redis", one.perSecond, "/s"),
        figure("requests with a cluster", more.perSecond, "/s"),
        figure("CPU per request with one Redis", one.micros, "us"),
        figure("CPU per request with a cluster", more.micros, "us"),
        figure("CPU per request of its replicas besides", more.replicaMicros, "us"),
        figure(
          "a cluster against one Redis, requests per CPU",
          one.micros / more.micros,
          "x",
          "at least 0.8",
        ),
        unansweredOf(one, more),
      ],
    };
  },
};

/** CPU of the api and of the Redis servers that it asks. */
async function admitted(
  bench: Bench,
  { seconds, tell }: Run,
  keys: readonly string[],
  env: Record<string, string>,
  pids: { redis: number[]; replicas: number[] },
): Promise<Admitted> {
  const api = await bench.role("api", env);
  const loadAll = (forSeconds: number) =>
    Promise.all(
      keys.map((key) =>
        load(
          bench,
          {
            ...{ url: `${api.url}/api/v1/emails/no-id`, key, body: null },
            ...{ connections: CONNECTIONS_EACH, seconds: forSeconds, tell },
          },
          false,
        ),
      ),
    );
  const used = (those: readonly number[]) => those.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
  await loadAll(WARMUP_SECONDS);
  const before = { own: used([api.pid, ...pids.redis]), replicas: used(pids.replicas) };
  const loads = await loadAll(seconds);
  const requests = loads.reduce((sum, one) => sum + one.requests, 0);
  const micros = (used([api.pid, ...pids.redis]) - before.own) * 1e6;
  const replicaMicros = (used(pids.replicas) - before.replicas) * 1e6;
  await api.stop();
  return {
    perSecond: requests / seconds,
    micros: micros / requests,
    replicaMicros: replicaMicros / requests,
    unanswered: loads.reduce((sum, one) => sum + one.unanswered, 0),
  };
}

export const scenarios = [processes, shards, cluster];
