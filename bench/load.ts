/**
 * HTTP load over kept connections: wrk where it is installed, since it leaves most of the second core to the engine,
 * else autocannon (pipelining 1: the server closes connections that send a request before the last was answered).
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type Request = { url: string; key: string; body: string | null; connections: number; seconds: number };
export type Load = { requests: number; perSecond: number; p50Ms: number; p99Ms: number; failures: number };

/** `isExpected` statuses are not failures: a 422 is what some scenarios ask for. */
export async function load(request: Request, expects2xx = true): Promise<Load> {
  return spawnSync("which", ["wrk"]).status === 0
    ? byWrk(request, expects2xx)
    : byAutocannon(request, expects2xx);
}

async function byWrk({ url, key, body, connections, seconds }: Request, expects2xx: boolean): Promise<Load> {
  const folder = mkdtempSync(join(tmpdir(), "postrider-load-"));
  const script = join(folder, "request.lua");
  const lines = [`wrk.headers["authorization"] = "Bearer ${key}"`];
  if (body !== null)
    lines.push(
      'wrk.method = "POST"',
      'wrk.headers["content-type"] = "application/json"',
      `wrk.body = [==[${body}]==]`,
    );
  writeFileSync(script, lines.join("\n"));
  const child = spawn("wrk", ["-t1", `-c${connections}`, `-d${seconds}s`, "--latency", "-s", script, url]);
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  await once(child, "close");
  rmSync(folder, { recursive: true, force: true });
  const number = (pattern: RegExp) => Number(pattern.exec(said)?.[1] ?? 0);
  const latency = (percent: number) =>
    milliseconds(new RegExp(`${percent}%\\s+([\\d.]+)(us|ms|s)`).exec(said));
  return {
    requests: number(/(\d+) requests in/),
    perSecond: number(/Requests\/sec:\s+([\d.]+)/),
    p50Ms: latency(50),
    p99Ms: latency(99),
    failures: expects2xx ? number(/Non-2xx or 3xx responses: (\d+)/) : 0,
  };
}

function milliseconds(match: RegExpExecArray | null): number {
  const unit = { us: 0.001, ms: 1, s: 1000 }[match?.[2] as "us" | "ms" | "s"] ?? 1;
  return Number(match?.[1] ?? 0) * unit;
}

/** What we use of it; it brings no types. */
type Autocannon = (options: object) => Promise<{
  requests: { total: number; average: number };
  latency: { p50: number; p99: number };
  non2xx: number;
}>;

async function byAutocannon(
  { url, key, body, connections, seconds }: Request,
  expects2xx: boolean,
): Promise<Load> {
  const autocannon = createRequire(import.meta.url)("autocannon") as Autocannon;
  const result = await autocannon({
    url,
    connections,
    duration: seconds,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === null ? {} : { method: "POST", body }),
  });
  return {
    requests: result.requests.total,
    perSecond: result.requests.average,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    failures: expects2xx ? result.non2xx : 0,
  };
}

const HTML = `<p>${'Hello "you", your order has been sent. '.repeat(13)}</p>`.slice(0, 512);

export function mail(n: number): object {
  return { from: "Acme <orders@example.com>", to: `user${n}@example.net`, subject: `Order ${n}`, html: HTML };
}

export const BATCH = JSON.stringify(Array.from({ length: 100 }, (_, n) => mail(n)));
export const ONE = JSON.stringify(mail(1));
