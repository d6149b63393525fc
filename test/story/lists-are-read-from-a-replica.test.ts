/**
 * READ_DATABASE_URL: lists come from a streaming standby while it keeps up, and from the primary when it does
 * not.
 */
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadConfig } from "../../src/config.ts";
import { type Postgres, startPostgres } from "../../src/embedded/postgres.ts";
import { allFamilies } from "../../src/meter.ts";
import { serve } from "../../src/process/serve.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { commandLine } from "../rig/command.ts";
import { databaseAt } from "../rig/database.ts";
import { Engine, settingsOf } from "../rig/engine.ts";
import { signedIn } from "../rig/people.ts";
import { IGNORED, missingPgBouncer, startPgBouncer } from "../rig/pgbouncer.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { scrape } from "../rig/scrape.ts";
import { type OwnRedis, ownRedis, services } from "../rig/services.ts";
import { type Standby, startStandby } from "../rig/standby.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const USED = "the read replica answers lists and views";
const NOT_USED = "the primary answers lists and views instead of the read replica";

type Listed = { data: { id: string }[] };

/** What an engine logs, in its order. */
class Heard {
  readonly #lines: string[] = [];
  #next = 0;
  #wake = () => {};

  write(line: string): void {
    this.#lines.push(line);
    this.#wake();
  }

  /** Whether there is one that `line` would find. */
  has(words: string): boolean {
    return this.#lines.slice(this.#next).some((line) => line.includes(words));
  }

  /** The next line with this in it, from where the last one was found. */
  async line(words: string): Promise<string> {
    for (;;) {
      const found = this.#lines.findIndex((line, at) => at >= this.#next && line.includes(words));
      if (found >= 0) {
        this.#next = found + 1;
        return this.#lines[found] as string;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

let primary: Postgres;
let standby: Standby;
let proxy: TcpProxy;
let redis: OwnRedis;
let ws: TestWorkspace;
const ends: (() => Promise<unknown>)[] = [];

async function openEngine(
  readUrl: string,
  role: "api" | "console" = "api",
): Promise<{ engine: Engine; heard: Heard }> {
  const heard = new Heard();
  const stores = { databaseUrl: primary.url, redisUrl: redis.url };
  const settings = { READ_DATABASE_URL: readUrl, METRICS_PORT: "0", CONSOLE_PORT: "0" };
  const log = pino({ level: "info" }, heard);
  const serving = await serve(loadConfig(settingsOf({ ...stores, settings })), [role], log);
  const engine = new Engine(serving, primary.url, redis.url, { now: Date.now, given: () => 0 }, []);
  ends.push(() => engine.stop());
  return { engine, heard };
}

let engine: Engine;
let heard: Heard;

beforeAll(async () => {
  const folder = join(services().folder, "with-a-standby");
  [primary, redis] = await Promise.all([
    startPostgres({ folder, durable: false, log: () => {} }),
    ownRedis(),
  ]);
  ends.push(() => Promise.all([primary.stop(), redis.stop()]));
  const sql = connectRecord(primary.url, "setup", 30_000);
  await sql.unsafe("create role reader login password 'reader' in role pg_read_all_data");
  await sql.end();
  standby = await startStandby(primary);
  ends.push(() => standby.stop());
  proxy = await openProxy({ port: standby.port });
  ends.push(() => proxy.close());
  const url = new URL(standby.url);
  [url.username, url.password, url.port] = ["reader", "reader", String(proxy.port)];
  ({ engine, heard } = await openEngine(url.href));
  ws = await engine.workspace("pro");
});

afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

async function send(): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail());
  expect(status).toBe(200);
  // by its id it is there at once, however far the standby is behind
  expect((await ws.client.get(`/emails/${body.id}`)).status).toBe(200);
  return body.id;
}

async function isListed(id: string): Promise<boolean> {
  const { status, body } = await ws.client.get<Listed>("/emails?limit=100");
  expect(status).toBe(200);
  return body.data.some((one) => one.id === id);
}

const told = (of = engine) => scrape(`http://127.0.0.1:${of.metricsPort}/metrics`);

test("a standby that keeps up answers lists", async () => {
  await heard.line(USED);
  expect(await doctorSays(standby.url)).toMatch(/ok +read replica/);
  const id = await send();
  while (!(await isListed(id)));
  const metrics = await told();
  expect(metrics.value("postrider_replica_reads_total", { server: "replica" })).toBeGreaterThan(0);
  expect(metrics.value("postrider_replica_usable")).toBe(1);
  expect(metrics.value("postrider_replica_lag_seconds")).toBeLessThan(5);
});

async function doctorSays(readUrl: string): Promise<string> {
  const stores = { databaseUrl: primary.url, redisUrl: redis.url };
  const { postrider } = commandLine({ ...stores, settings: { READ_DATABASE_URL: readUrl } });
  return (await postrider("doctor")).out;
}

async function pauseState(): Promise<string | undefined> {
  const [row] = await standby.sql<{ state: string }[]>`select pg_get_wal_replay_pause_state() as state`;
  return row?.state;
}

test("one that is behind answers no more, and answers again when it has caught up", async () => {
  await standby.sql`select pg_wal_replay_pause()`;
  while ((await pauseState()) !== "paused");
  const id = await send();
  const before = await told();
  // the standby answers until it is known to be behind, after 3.5 s
  if (await isListed(id)) expect(heard.has(NOT_USED)).toBe(true);
  expect(await heard.line(NOT_USED)).toContain("it is too far behind");
  expect(await isListed(id)).toBe(true);
  const after = await told();
  const ofPrimary = { server: "primary" };
  expect(after.value("postrider_replica_reads_total", ofPrimary)).toBeGreaterThan(
    before.value("postrider_replica_reads_total", ofPrimary),
  );
  expect(after.value("postrider_replica_usable")).toBe(0);
  await standby.sql`select pg_wal_replay_resume()`;
  await heard.line(USED);
  expect(await isListed(id)).toBe(true);
});

test("what is asked of one that falls silent is answered by the primary", async () => {
  const id = await send();
  proxy.stall();
  expect(await Promise.all(Array.from({ length: 10 }, () => isListed(id)))).toEqual(Array(10).fill(true));
  expect(await heard.line(NOT_USED)).toContain("it does not answer");
  proxy.flow();
  await heard.line(USED);
});

test("one that is away costs nobody an answer", async () => {
  await standby.kill();
  const id = await send();
  expect(await isListed(id)).toBe(true);
  expect(await heard.line(NOT_USED)).toContain("(READ_DATABASE_URL)");
  await standby.restart();
  await heard.line(USED);
  while (!(await isListed(id)));
});

/** Of all engines of this process: no scrape says it at once. */
function readsOf(server: "replica" | "primary"): number {
  const family = allFamilies().find(({ name }) => name === "postrider_replica_reads_total");
  if (family?.type !== "counter") throw new Error("no reads are counted");
  return [...family.read()].reduce((sum, [labels, n]) => (labels.includes(server) ? sum + n : sum), 0);
}

test("the console reads charts, queue and audit log there, and from the primary while it is behind", async () => {
  const url = new URL(standby.url);
  url.port = String(proxy.port);
  const { engine: seen, heard: lines } = await openEngine(url.href, "console");
  await lines.line(USED);
  const browser = await signedIn(seen.consoleUrl, seen.sql, ws.id);
  const views = ["overview", "usage", "queue", "audit", "caps/history"];
  const answeredBy = async (server: "replica" | "primary") => {
    for (const view of views) {
      const before = readsOf(server);
      expect([view, (await browser.get(view)).status]).toEqual([view, 200]);
      expect(readsOf(server), view).toBeGreaterThan(before);
    }
  };
  const ofPrimary = readsOf("primary");
  await answeredBy("replica");
  expect(readsOf("primary")).toBe(ofPrimary);

  await standby.sql`select pg_wal_replay_pause()`;
  while ((await pauseState()) !== "paused");
  await browser.post("members", { email: "late@example.com", role: "member" });
  await lines.line(NOT_USED);
  const ofReplica = readsOf("replica");
  await answeredBy("primary");
  expect(readsOf("replica")).toBe(ofReplica);
  expect(JSON.stringify((await browser.get("audit")).body)).toContain("late@example.com");
  await standby.sql`select pg_wal_replay_resume()`;
  await lines.line(USED);
  await answeredBy("replica");
});

test.each([
  ["the primary itself", () => primary.tcpUrl, "it is no standby"],
  ["another database", () => databaseAt(standby.url, "postgres"), "it belongs to another Postgres"],
])("%s is no read replica", async (_, url, why) => {
  const other = await openEngine(url());
  expect(await other.heard.line(NOT_USED)).toContain(why);
  expect(await doctorSays(url())).toMatch(new RegExp(`warn +read replica +${why}`));
});

test.skipIf(missingPgBouncer).each([
  ["that takes no settings", []],
  ["that ignores settings", [IGNORED]],
])("a pooler before the standby %s is noticed", async (_, lines) => {
  const pooler = await startPgBouncer(standby.url, ["pool_mode = transaction", ...lines]);
  ends.push(() => pooler.stop());
  const url = pooler.through(standby.url);
  expect(await doctorSays(url)).toMatch(/ok +read replica/);
  const other = await openEngine(url);
  await other.heard.line("the read replica answers lists and views");
  const { client } = await other.engine.workspace("pro");
  expect((await client.get<Listed>("/emails")).status).toBe(200);
  expect(
    (await told(other.engine)).value("postrider_replica_reads_total", { server: "replica" }),
  ).toBeGreaterThan(0);
});
