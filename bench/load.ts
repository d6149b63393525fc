/**
 * HTTP load over kept connections, each of which waits for its answer: wrk where it is installed, since it
 * leaves most of the second core to the engine, else autocannon (pipelining 1: the server closes connections
 * that send a request before the last was answered). How long callers wait at a given rate is openloop.ts'
 * business.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Distribution, type Figure, figure } from "./figure.ts";
import { isInstalled } from "./installed.ts";
import type { Bench } from "./machine.ts";
import { endChild } from "./sink.ts";
import { telling } from "./telling.ts";

export type Request = {
  url: string;
  key: string;
  /** Several are sent in turn. */
  body: string | readonly string[] | null;
  connections: number;
  seconds: number;
  /** Hears how many seconds have gone: neither generator says how many requests. */
  tell?: (text: string) => void;
};
export type Load = {
  requests: number;
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** Of these requests, those that were answered otherwise than 2xx. */
  failures: number;
  /** Beside them: connections that failed, and requests that waited too long. */
  unanswered: number;
  /** Quantile and milliseconds. */
  latency: Distribution["points"];
};

/** Where what is written goes with the rest, and what is started ends with the rest. */
type Place = Pick<Bench, "folder" | "endings">;

const ANSWER_SECONDS_MAX = 10;
const QUANTILES = [0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999];

/** Unless 2xx is expected no status is a failure: a 422 is what some scenarios ask for. */
export async function load(bench: Place, request: Request, expects2xx = true): Promise<Load> {
  const { tell = () => {}, seconds } = request;
  const began = performance.now();
  const endTelling = telling(bench.endings, () =>
    tell(`${Math.floor((performance.now() - began) / 1000)} of ${seconds} s`),
  );
  const loaded = isInstalled("wrk") ? await byWrk(bench, request) : await byAutocannon(request);
  await endTelling();
  return expects2xx ? loaded : { ...loaded, failures: 0 };
}

/** What wrk prints when it has ended, instead of words for people. */
const REPORT = `done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format("RESULT {\\"requests\\":%d,\\"us\\":%d,\\"failures\\":%d,\\"unanswered\\":%d,\\"latency\\":[",
    summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write + errors.timeout))
  for n, percent in ipairs({${QUANTILES.map((one) => one * 100).join(",")}}) do
    io.write(n > 1 and "," or "", latency:percentile(percent))
  end
  io.write("]}\\n")
end`;

async function byWrk(bench: Place, { url, key, body, connections, seconds }: Request): Promise<Load> {
  const script = join(bench.folder, `load-${randomUUID()}.lua`);
  const lines = [`wrk.headers["authorization"] = "Bearer ${key}"`];
  if (body !== null) {
    const bodies = [body].flat().map((one) => `[==[${one}]==]`);
    lines.push(
      'wrk.method = "POST"',
      'wrk.headers["content-type"] = "application/json"',
      `local n, bodies = 0, {${bodies.join(",")}}`,
      "request = function() n = n % #bodies + 1; return wrk.format(nil, nil, nil, bodies[n]) end",
    );
  }
  writeFileSync(script, [...lines, REPORT].join("\n"));
  const how = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", `${ANSWER_SECONDS_MAX}s`];
  const child = spawn("wrk", [...how, "-s", script, url], {
    stdio: ["ignore", "pipe", "ignore"],
    detached: true, // Ctrl-C is ours to pass on
  });
  const end = bench.endings.add(() => endChild(child));
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  await once(child, "close");
  await end();
  rmSync(script, { force: true });
  const found = /^RESULT (.*)$/m.exec(said);
  if (!found) throw new Error(`wrk said nothing about ${url}:\n${said}`);
  const result = JSON.parse(found[1] as string) as {
    requests: number;
    us: number;
    failures: number;
    unanswered: number;
    latency: number[];
  };
  const latency = QUANTILES.map((one, n): [number, number] => [one, (result.latency[n] as number) / 1000]);
  return {
    requests: result.requests,
    perSecond: result.requests / (result.us / 1e6),
    failures: result.failures,
    unanswered: result.unanswered,
    ...ofLatency(latency),
  };
}

/** What we use of it; it brings no types. */
type Autocannon = (options: object) => Promise<{
  requests: { total: number; average: number };
  latency: { p50: number; p75: number; p90: number; p97_5: number; p99: number; p99_9: number };
  non2xx: number;
  /** Timeouts included. */
  errors: number;
}>;

async function byAutocannon({ url, key, body, connections, seconds }: Request): Promise<Load> {
  const autocannon = createRequire(import.meta.url)("autocannon") as Autocannon;
  const { requests, latency, non2xx, errors } = await autocannon({
    url,
    connections,
    duration: seconds,
    timeout: ANSWER_SECONDS_MAX,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === null ? {} : { requests: [body].flat().map((one) => ({ method: "POST", body: one })) }),
  });
  const { p50, p75, p90, p97_5, p99, p99_9 } = latency;
  return {
    requests: requests.total,
    perSecond: requests.average,
    failures: non2xx,
    unanswered: errors,
    ...ofLatency([
      [0.5, p50],
      [0.75, p75],
      [0.9, p90],
      [0.975, p97_5],
      [0.99, p99],
      [0.999, p99_9],
    ]),
  };
}

/** What every scenario shows of the loads it measured. */
export function unansweredOf(...loads: readonly Pick<Load, "unanswered">[]): Figure {
  const all = loads.reduce((sum, { unanswered }) => sum + unanswered, 0);
  return figure("requests without an answer", all, "");
}

function ofLatency(latency: Load["latency"]): Pick<Load, "latency" | "p50Ms" | "p99Ms"> {
  const at = (quantile: number) => latency.find(([one]) => one === quantile)?.[1] ?? 0;
  return { latency, p50Ms: at(0.5), p99Ms: at(0.99) };
}

/** The distribution of waits that were each measured. */
export function quantilesOf(waits: readonly number[]): Distribution["points"] {
  const sorted = [...waits].sort((a, b) => a - b);
  return QUANTILES.map((one) => [one, quantile(sorted, one)]);
}

export function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

/** Of the load itself, and not counted: what runs hot is compiled by then, pools are full, plans are made. */
export const WARMUP_SECONDS = 3;
/**
 * For floors without a server of ours behind them: a loop of a few lines that runs thousands of times in a
 * second is compiled by then, and its one connection has its plan.
 */
export const LOOP_WARMUP_SECONDS = 1;
