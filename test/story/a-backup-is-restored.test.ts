/**
 * Dump, wipe, restore with an empty Redis: nothing goes twice that the dump knows as sent, and everything
 * open goes.
 */
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { dropDatabase } from "../rig/database.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { emptyRedis } from "../rig/wholeredis.ts";
import { Client, mail } from "../rig/workspace.ts";

let stage: Stage;
let folder: string;
let file: string;
let restoredUrl: string;
let cli: CommandLine;
let into: CommandLine;
beforeAll(async () => {
  stage = await openStage();
  folder = mkdtempSync(join(tmpdir(), "postrider-backup-"));
  file = join(folder, "postrider.gz");
  const url = new URL(stage.databaseUrl);
  url.pathname = `${url.pathname}_restored`;
  restoredUrl = url.href;
  await createDatabase(stage.databaseUrl, url.pathname.slice(1), "template0");
  cli = commandLine(stage);
  into = commandLine({ ...stage, databaseUrl: restoredUrl });
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await stage.close();
  await dropDatabase(restoredUrl);
});

async function flushRedis(): Promise<void> {
  const redis = connectRedis(stage.redisUrl, "command", 20_000);
  await emptyRedis(redis);
  redis.disconnect();
}

test("everything is as it was, and goes on", async () => {
  const first: Engine = await startEngine(["api", "deliver", "keeper"], stage);
  const ws = await first.workspace("pro");
  const sent = (await ws.client.post<{ data: { id: string }[] }>("/emails/batch", Array(20).fill(mail())))
    .body.data;
  expect(await settled(first.sql, ws.id, 20_000)).toEqual({ delivered: 20 });
  await first.stop();

  const api = await startEngine(["api"], stage);
  const open = (
    await new Client(api.url, ws.client.key).post<{ data: { id: string }[] }>(
      "/emails/batch",
      Array(15).fill(mail({ subject: "A \\ and \\. and ünïcode", text: "long ".repeat(5_000) })),
    )
  ).body.data;
  const later = await new Client(api.url, ws.client.key).post<{ id: string }>(
    "/emails",
    mail({ scheduled_at: new Date(Date.now() + 86_400_000).toISOString() }),
  );
  await api.stop();
  const summary = await cli.json<{ rows: number; tables: number }>("backup", file);
  expect(summary.rows).toBeGreaterThan(36);
  expect(statSync(file).mode & 0o777).toBe(0o600);

  const refused = await into.postrider("restore", file);
  expect(refused.status).toBe(1);
  expect(refused.err).toContain("Redis is not empty");
  await flushRedis();
  expect(await into.json("restore", file)).toMatchObject({ rows: summary.rows, tables: summary.tables });
  const again = await into.postrider("restore", file);
  expect(again.err).toContain("The database is not empty");

  const second = await startEngine(["api", "deliver", "keeper"], { ...stage, databaseUrl: restoredUrl });
  const client = new Client(second.url, ws.client.key);
  await expect
    .poll(async () => (await second.sql`select from email where status = 'delivered'`).length, {
      timeout: 20_000,
    })
    .toBe(35);
  for (const { id } of [...sent, ...open]) expect(stage.sink.ledger.count(`${id}@example.com`)).toBe(1);
  expect(stage.sink.ledger.count(`${later.body.id}@example.com`)).toBe(0);
  const shown = await client.get<{ last_event: string }>(`/emails/${later.body.id}`);
  expect(shown.body.last_event).toBe("scheduled");
  expect((await client.post("/emails", mail())).status).toBe(200);
  expect(second.complaints).toEqual([]);
  await second.stop();
});

test("a part of a backup, and what is none, are refused and leave nothing", async () => {
  const url = new URL(stage.databaseUrl);
  url.pathname = `${url.pathname}_part`;
  await createDatabase(stage.databaseUrl, url.pathname.slice(1), "template0");
  const other = commandLine({ ...stage, databaseUrl: url.href });
  await flushRedis();
  truncateSync(file, Math.floor(readFileSync(file).length * 0.8));
  const part = await other.postrider("restore", file);
  expect(part.status).toBe(1);
  expect(part.err).toMatch(/^The backup cannot be read: unexpected end of file\.|^The backup ends too early/);
  const sql = connectRecord(url.href, "setup", 5_000);
  expect(await sql`select from workspace`).toHaveLength(0);
  await sql.end({ timeout: 1 });
  const none = await other.postrider("restore", "package.json");
  expect(none.err).toContain("The backup cannot be read");
  await dropDatabase(url.href);
});
