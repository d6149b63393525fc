/**
 * admit: an authenticated request that needs no database (a malformed id, answered 422 after admission, rate
 * headers and all), beside a bare handler that makes one EVALSHA of similar size. status: GET of an e-mail,
 * beside that and a select. Against a deployment: the same requests at a bounded rate, how long they wait.
 */

import { figure } from "../figure.ts";
import { load, quantile, quantilesOf, unansweredOf, WARMUP_SECONDS } from "../load.ts";
import type { Bench, Role } from "../machine.ts";
import { ONE } from "../mails.ts";
import { cpuSeconds } from "../meter.ts";
import { openLoop } from "../openloop.ts";
import type { Result, Run, Scenario } from "../scenario.ts";
import { aim, harmless, type Target } from "../target.ts";

const CONNECTIONS = 32;

type Cost = { perSecond: number; cpuMicros: number; unanswered: number; latency: [number, number][] };

type Measuring = { bench: Bench; key: string; run: Run };

async function cost(
  { bench, key, run: { seconds, tell } }: Measuring,
  role: Role,
  path: string,
): Promise<Cost> {
  const request = { url: role.url + path, key, body: null, connections: CONNECTIONS, tell };
  await load(bench, { ...request, seconds: WARMUP_SECONDS }, false);
  const before = cpuSeconds(role.pid);
  const { requests, perSecond, unanswered, latency } = await load(bench, { ...request, seconds }, false);
  return { perSecond, cpuMicros: ((cpuSeconds(role.pid) - before) / requests) * 1e6, unanswered, latency };
}

async function compare(bench: Bench, run: Run, bare: string, path: string): Promise<Result> {
  const { key } = await bench.workspace();
  const [api, floor] = [await bench.role("api"), await bench.program("bare", "bare.mjs")];
  const target = path.includes("{id}") ? path.replace("{id}", await anEmail(api, key)) : path;
  const measuring = { bench, key, run };
  const [ours, theirs] = [await cost(measuring, api, target), await cost(measuring, floor, bare)];
  return {
    figures: [
      figure("requests", ours.perSecond, "/s"),
      figure("requests of the floor", theirs.perSecond, "/s"),
      figure("CPU per request", ours.cpuMicros, "us"),
      figure("CPU per request of the floor", theirs.cpuMicros, "us"),
      figure("CPU against the floor", ours.cpuMicros / theirs.cpuMicros, "x", "at most 2"),
      unansweredOf(ours, theirs),
    ],
    distributions: [
      { name: "answer", unit: "ms", points: ours.latency },
      { name: "answer of the floor", unit: "ms", points: theirs.latency },
    ],
  };
}

async function anEmail(api: Role, key: string): Promise<string> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(`${api.url}/api/v1/emails`, { method: "POST", headers, body: ONE });
  return ((await response.json()) as { id: string }).id;
}

async function from(target: Target, { seconds }: Run, path: string, expected: number): Promise<Result> {
  const statuses = new Map<number, number>();
  const shot = aim(target, "GET", path);
  const { rate, signal } = target;
  const arrivals = { rate, count: rate * seconds, signal };
  const { waits } = await openLoop(
    arrivals,
    () => shot,
    ({ status }) => statuses.set(status, (statuses.get(status) ?? 0) + 1),
  );
  waits.sort((a, b) => a - b);
  return {
    figures: [
      figure("p50", quantile(waits, 0.5), "ms"),
      figure("p99", quantile(waits, 0.99), "ms"),
      figure("answered otherwise", waits.length - (statuses.get(expected) ?? 0), ""),
    ],
    distributions: [{ name: "answer", unit: "ms", points: quantilesOf(waits) }],
  };
}

const admit: Scenario = {
  name: "admit",
  does: "a malformed id, refused after admission, against a bare handler with one EVALSHA",
  run: (bench, run) => compare(bench, run, "/evalsha", "/api/v1/emails/no-id"),
  against: (target, run) => from(target, run, "/emails/no-id", 422),
};

const status: Scenario = {
  name: "status",
  does: "GET of an e-mail, against a bare handler with one EVALSHA and one select",
  run: (bench, run) => compare(bench, run, "/select", "/api/v1/emails/{id}"),
  async against(target, run) {
    let id = "";
    await openLoop(
      { rate: 1, count: 1 },
      () => aim(target, "POST", "/emails", harmless(0, Date.now())),
      ({ status, body }) => {
        if (status !== 200) throw new Error(`A send was answered ${status}: ${body}`);
        id = (JSON.parse(body) as { id: string }).id;
        target.booked.add(id);
      },
    );
    return from(target, run, `/emails/${id}`, 200);
  },
};

export const scenarios = [admit, status];
