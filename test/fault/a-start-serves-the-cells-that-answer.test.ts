/**
 * A process that starts while a cell is silent, or away, serves the other workspaces. When the cell answers,
 * its workspaces are served by the running process: over HTTP, SMTP and by every worker.
 */
// @module-tag one-redis: puts a proxy in front of its Redis
import { readFileSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openCells, type TwoCells } from "../rig/cells.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { dsn, handIn } from "../rig/reports.ts";
import { scrape } from "../rig/scrape.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { idIn, plainLogin, secured, submit } from "../rig/submitting.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 30_000, interval: 50 };
const MESSAGE = "From: orders@example.com\nTo: smtp@example.net\nSubject: Order\n\nThanks";

let cells: TwoCells;
let sink: Sink;
let toPostgres: TcpProxy;
let toRedis: TcpProxy;
let engine: Engine | null = null;
beforeEach(async () => {
  [cells, sink] = await Promise.all([openCells(), openSink()]);
  const url = new URL(cells.other.databaseUrl);
  toPostgres = await openProxy({ port: Number(url.port) });
  toRedis = await openProxy({ port: cells.other.redisServer.port });
  url.searchParams.delete("socket");
  url.port = String(toPostgres.port);
  const file = JSON.parse(readFileSync(cells.file, "utf8"));
  file.cells.west = { database_url: url.href, redis_url: `redis://127.0.0.1:${toRedis.port}` };
  writeFileSync(cells.file, JSON.stringify(file));
});
afterEach(async () => {
  await engine?.stop();
  engine = null;
  await Promise.all([toPostgres.close(), toRedis.close(), sink.close(), cells.close()]);
});

async function start(): Promise<Engine> {
  const { databaseUrl, redisUrl } = cells.home;
  engine = await startEngine(["api", "deliver", "keeper", "inbound", "submission", "automate", "webhooks"], {
    ...{ databaseUrl, redisUrl, smtpUrl: sink.url },
    settings: {
      CELLS_FILE: cells.file,
      BOUNCE_DOMAIN: "bounces.example.net",
      INBOUND_PORT: "0",
      SUBMISSION_PORT: "0",
      SUBMISSION_TLS_PORT: "0",
      METRICS_PORT: "0",
    },
  });
  return engine;
}

const send = ({ client }: TestWorkspace, more: Record<string, unknown> = {}) =>
  client.post<{ id: string; message: string }>("/emails", mail(more));

async function delivered(by: TestWorkspace, id: string): Promise<void> {
  const status = async () => (await by.client.get<{ status: string }>(`/emails/${id}`)).body.status;
  await expect.poll(status, POLL).toBe("delivered");
  expect(sink.ledger.mails.filter(({ messageId }) => messageId.startsWith(id))).toHaveLength(1);
}

async function isMissing(): Promise<number> {
  const metrics = await scrape(`http://127.0.0.1:${engine?.metricsPort}/metrics`);
  return metrics.value("postrider_cell_missing", { cell: "west" });
}

async function readiness() {
  const answer = await fetch(`${engine?.url}/readyz`);
  return (await answer.json()) as { status: string; checks: Record<string, string> };
}

const WAYS: [string, string, () => unknown][] = [
  ["Postgres is silent", "west postgres", () => toPostgres.stall()],
  ["Postgres refuses", "west postgres", () => toPostgres.down()],
  ["Redis is silent", "west redis", () => toRedis.stall()],
  ["Redis refuses", "west redis", () => toRedis.down()],
];

test.each(WAYS)("%s at the start, and comes later", async (_, check, goAway) => {
  await goAway();
  const { url, submissionTlsPort, inboundPort, complaints } = await start();
  const [here, there] = [await cells.home.workspace(url), await cells.other.workspace(url)];

  await delivered(here, (await send(here)).body.id);
  const refused = await send(there);
  expect([refused.status, refused.body.message]).toEqual([
    503,
    "Postgres does not answer. Try again in 1 second.",
  ]);
  const early = await secured(submissionTlsPort);
  expect(await early.say(plainLogin(there.client.key))).toMatch(/^454 /);
  early.destroy();
  const { status, checks } = await readiness();
  expect([status, checks.postgres, checks.redis]).toEqual(["ready", "ok", "ok"]);
  expect(Object.keys(checks).filter((name) => name.startsWith("west"))).not.toEqual([]);
  expect(checks[check] ?? checks["west stores"]).not.toBe("ok");
  expect(await isMissing()).toBe(1);

  for (const proxy of [toPostgres, toRedis]) {
    proxy.flow();
    await proxy.up();
  }
  await expect.poll(async () => (await send(there)).status, POLL).toBe(200);
  await expect.poll(isMissing, POLL).toBe(0); // a scrape is told again for a moment
  expect((await readiness()).checks).toMatchObject({ "west postgres": "ok", "west redis": "ok" });
  const scheduled = await send(there, { scheduled_at: "in 1 seconds", to: "gone@example.net" });
  await delivered(there, scheduled.body.id);

  const client = await secured(submissionTlsPort);
  expect(await client.say(plainLogin(there.client.key))).toMatch(/^235 /);
  await delivered(there, idIn(await submit(client, "smtp@example.net", MESSAGE)));
  client.destroy();

  const copy = sink.ledger.mails.find(({ messageId }) => messageId.startsWith(scheduled.body.id));
  await handIn(inboundPort, copy?.from ?? "", dsn({ recipient: "gone@example.net" }));
  const after = async () =>
    (await there.client.get<{ status: string }>(`/emails/${scheduled.body.id}`)).body.status;
  await expect.poll(after, POLL).toBe("bounced");
  await delivered(here, (await send(here)).body.id);
  expect(complaints.filter(({ msg }) => msg !== "internal error")).toEqual([]);
});

test("a process that still waits for a cell stops in time", async () => {
  await toPostgres.down();
  const waiting = await start();
  const here = await cells.home.workspace(waiting.url);
  await delivered(here, (await send(here)).body.id);
  const began = performance.now();
  await waiting.stop();
  engine = null;
  expect(performance.now() - began).toBeLessThan(5_000);
});
