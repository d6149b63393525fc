/**
 * PgBouncer in transaction mode and in session mode, one that keeps prepared statements and one that does
 * not: mail is taken once and delivered, and the same answers come.
 */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { throughPooler } from "../../src/config.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { IGNORED, PGBOUNCERS, startPgBouncer } from "../rig/pgbouncer.ts";
import { listenOn } from "../rig/port.ts";
import { openProxy } from "../rig/proxy.ts";
import { settled } from "../rig/settled.ts";
import { openStage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const LARGE = Buffer.alloc(3_000_000, "large").toString("base64");
const POOL = ["default_pool_size = 20"];
const MODES: [string, string[], Record<string, string>][] = [
  ["transaction mode, which is noticed", ["pool_mode = transaction", ...POOL], {}],
  [
    "transaction mode that hides what it ignores, with DATABASE_PREPARE=false",
    ["pool_mode = transaction", IGNORED, ...POOL],
    { DATABASE_PREPARE: "false" },
  ],
  [
    "transaction mode that hides what it ignores, which is noticed",
    ["pool_mode = transaction", IGNORED, ...POOL],
    {},
  ],
  ["session mode", ["pool_mode = session", "default_pool_size = 200"], {}],
];
const LATER: [string, string[]][] = [
  ["refuses the settings of connections", ["pool_mode = transaction", ...POOL]],
  ["hides what it ignores", ["pool_mode = transaction", IGNORED, ...POOL]],
];
const NOT_READY =
  "a pooler before it takes no settings with a connection: restart, or set DATABASE_PREPARE=false";

const ends: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

for (const { name, program, missing } of PGBOUNCERS)
  describe.skipIf(missing)(missing ?? `behind ${name}`, () => {
    test.each(MODES)(
      "in %s",
      async (_, lines, settings) => {
        const stage = await openStage();
        ends.push(() => stage.close());
        const pooler = await startPgBouncer(stage.databaseUrl, lines, program);
        ends.push(() => pooler.stop());
        const databaseUrl = pooler.through(stage.databaseUrl);
        const engine = await startEngine(["api", "deliver", "automate", "keeper", "webhooks"], {
          ...{ ...stage, databaseUrl, settings },
        });
        ends.push(() => engine.stop());
        expect((await fetch(`${engine.url}/readyz`)).status).toBe(200);

        await sendsAll(engine);
        const { postrider } = commandLine({ ...stage, databaseUrl, settings });
        expect((await postrider("migrate")).status).toBe(0);
        expect((await postrider("doctor")).out).toMatch(/ok +commits/);
        expect(engine.complaints).toEqual([]);
      },
      90_000,
    );

    test("that hides what it ignores, before a database that has some of our settings", async () => {
      const stage = await openStage();
      ends.push(() => stage.close());
      const own = connectRecord(stage.databaseUrl, "setup", 20_000);
      const database = new URL(stage.databaseUrl).pathname.slice(1);
      await own.unsafe(`alter database "${database}" set plan_cache_mode = force_generic_plan`);
      await own.end();
      const lines = ["pool_mode = transaction", IGNORED, ...POOL];
      const pooler = await startPgBouncer(stage.databaseUrl, lines, program);
      ends.push(() => pooler.stop());
      const databaseUrl = pooler.through(stage.databaseUrl);
      const engine = await startEngine(["api", "deliver", "keeper"], { ...stage, databaseUrl });
      ends.push(() => engine.stop());
      await sendsAll(engine);
      expect(engine.complaints).toEqual([]);
    }, 90_000);

    test.each(LATER)("that comes after the start and %s: the process is not ready", async (_, lines) => {
      const stage = await openStage();
      ends.push(() => stage.close());
      const pooler = await startPgBouncer(stage.databaseUrl, lines, program);
      ends.push(() => pooler.stop());
      const url = new URL(pooler.through(stage.databaseUrl));
      const proxy = await openProxy({ port: Number(new URL(stage.databaseUrl).port) });
      ends.push(() => proxy.close());
      url.port = String(proxy.port);
      const engine = await startEngine(["api"], { ...stage, databaseUrl: url.href });
      ends.push(() => engine.stop());
      const ready = async () => {
        const response = await fetch(`${engine.url}/readyz`);
        const { checks } = (await response.json()) as { checks: Record<string, string> };
        return [response.status, checks.postgres];
      };
      expect(await ready()).toEqual([200, "ok"]);
      proxy.lead({ port: pooler.port });
      proxy.cut();
      await expect.poll(ready, { timeout: 20_000 }).toEqual([503, NOT_READY]);
    });

    test("a command that commits by itself notices it", async () => {
      const stage = await openStage();
      ends.push(() => stage.close());
      const pooler = await startPgBouncer(stage.databaseUrl, ["pool_mode = transaction", ...POOL], program);
      ends.push(() => pooler.stop());
      const { postrider, json } = commandLine({
        ...stage,
        databaseUrl: pooler.through(stage.databaseUrl),
      });
      await json("migrate");
      const { id } = await json<{ id: string }>("workspace", "create", "--name", "Shop", "--plan", "pro");
      const audience = await json<{ id: string }>("audience", "create", "--name", "All", "--workspace", id);
      const folder = mkdtempSync(join(tmpdir(), "contacts-"));
      ends.push(async () => rmSync(folder, { recursive: true }));
      const file = join(folder, "list.csv");
      writeFileSync(file, "email\nreader@example.org\n");
      const imported = await postrider("contact", "import", file, "--audience", audience.id);
      expect([imported.status, imported.err]).toEqual([0, ""]);
    });

    test("time zone and style of dates are set once for a connection to Postgres", async () => {
      const stage = await openStage();
      ends.push(() => stage.close());
      const wire = await heardOf(stage.databaseUrl);
      ends.push(wire.close);
      const pooler = await startPgBouncer(
        wire.url,
        ["pool_mode = transaction", "default_pool_size = 1"],
        program,
      );
      ends.push(() => pooler.stop());
      const sql = connectRecord(throughPooler(pooler.through(wire.url)), "reads", 20_000);
      ends.push(() => sql.end({ timeout: 0 }));
      for (let n = 0; n < 10; n++) await sql`select ${n}::int as n`;
      expect(wire.said().match(/SET (?:TimeZone|DateStyle)/gi)?.length ?? 0).toBeLessThanOrEqual(2);
    });

    test.each(["setup", "reads", "hints"] as const)(
      "statements of %s that are asked at once are all answered",
      async (pool) => {
        const stage = await openStage();
        ends.push(() => stage.close());
        const pooler = await startPgBouncer(stage.databaseUrl, ["pool_mode = transaction", ...POOL], program);
        ends.push(() => pooler.stop());
        const url = pooler.through(stage.databaseUrl);
        const sql = connectRecord(pool === "setup" ? url : throughPooler(url), pool, 20_000);
        ends.push(() => sql.end({ timeout: 0 }));
        for (let n = 0; n < 50; n++) {
          const asked = Array.from({ length: 20 }, (_, at) =>
            at % 2 === 0 ? sql`select 0 as n` : sql`select ${at}::int as n`,
          );
          const answers = await Promise.all(asked);
          expect(answers.map(([row]) => row?.n)).toEqual(asked.map((_, at) => (at % 2 === 0 ? 0 : at)));
        }
      },
      90_000,
    );
  });

/** Singles, a batch that is repeated and a large mail: each once, and each answered. */
async function sendsAll(engine: Engine): Promise<void> {
  const ws = await engine.workspace("pro", { cap_hour: 1_000, cap_day: 1_000 });
  const key = { "Idempotency-Key": randomUUID() };
  const many = Array.from({ length: 100 }, () => mail());
  const first = await ws.client.post("/emails/batch", many, key);
  expect(first.status).toBe(200);
  expect((await ws.client.post("/emails/batch", many, key)).body).toEqual(first.body);
  const all = await Promise.all(Array.from({ length: 40 }, () => ws.client.post("/emails", mail())));
  expect(all.map(({ status }) => status)).toEqual(Array(40).fill(200));
  const attachments = [{ filename: "large.txt", content: LARGE }];
  expect((await ws.client.post("/emails", { ...mail(), attachments })).status).toBe(200);
  await ws.client.post("/emails", mail({ to: "refuse-550@example.org" }));
  expect(await settled(engine.sql, ws.id, 25_000)).toEqual({ delivered: 141, bounced: 1 });
}

/** What is said to this Postgres over the url that it gives. */
async function heardOf(databaseUrl: string) {
  const url = new URL(databaseUrl);
  const target = { host: url.hostname, port: Number(url.port) };
  const said: Buffer[] = [];
  const server = createServer((client) => {
    const own = connect(target);
    client.on("data", (bytes: Buffer) => said.push(bytes));
    client.on("error", () => own.destroy());
    own.on("error", () => client.destroy());
    client.pipe(own).pipe(client);
  });
  url.searchParams.delete("socket");
  [url.hostname, url.port] = ["127.0.0.1", String(await listenOn(server))];
  return {
    url: url.href,
    said: () => Buffer.concat(said).toString("latin1"),
    close: () => new Promise((closed) => server.close(closed)),
  };
}
