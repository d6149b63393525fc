/**
 * A store that answers and refuses to write: callers are answered 503 with what is wrong, readiness and
 * commands say it too, and when it is mended the same requests succeed.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { DAY_MS } from "../../src/clock.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { attachingOf, dayName } from "../../src/record/db/partitions.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { launch } from "../rig/launched.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { setInRedis } from "../rig/wholeredis.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const LIMITED = `limited_${process.pid}_${Date.now()}`;

let stage: Stage;
let engine: Engine;
let shop: TestWorkspace;
/** As the owner of the tables: the engine serves as a user who has only the rights that it is given. */
let sql: Sql;
let limitedUrl: string;
beforeAll(async () => {
  stage = await openStage();
  sql = connectRecord(stage.databaseUrl, "setup", 5_000);
  await sql.unsafe(`create role ${LIMITED} login password 'limited'`);
  await sql.unsafe(`grant all on all tables in schema public to ${LIMITED}`);
  await sql.unsafe(`grant all on all sequences in schema public to ${LIMITED}`);
  const url = new URL(stage.databaseUrl);
  [url.username, url.password] = [LIMITED, "limited"];
  limitedUrl = url.href;
  engine = await startEngine(["api"], { ...stage, databaseUrl: limitedUrl });
  shop = await engine.workspace();
});
afterAll(async () => {
  await engine?.stop();
  await sql.unsafe(`drop owned by ${LIMITED}`);
  await sql.unsafe(`drop role ${LIMITED}`);
  await sql.end({ timeout: 1 });
  await stage.close();
});

const audiences = () => shop.client.post("/audiences", { name: "Readers" });
const send = () => shop.client.post("/emails", mail());
const domain = () => shop.client.post("/domains", { name: `shop${Date.now()}.example` });

function lacks(message: string) {
  return expect.objectContaining({
    status: 503,
    body: { statusCode: 503, name: "service_unavailable", message: `${message} Try again in 1 second.` },
  });
}

async function readyz(): Promise<[number, Record<string, string>]> {
  const response = await fetch(`${engine.url}/readyz`);
  return [response.status, ((await response.json()) as { checks: Record<string, string> }).checks];
}

const today = () => Math.floor(Date.now() / DAY_MS);

test.each(["email", "body"])("a day without a partition of %s", async (table) => {
  await sql.unsafe(`alter table ${table} detach partition ${table}_${dayName(today())}`);
  const refused = lacks("The database has no partition for today.");
  expect(await send()).toEqual(refused);
  expect(await shop.client.post("/emails/batch", [mail(), mail()])).toEqual(refused);
  await sql.unsafe(attachingOf(table as "email", today()));
  expect((await send()).status).toBe(200);
});

test("a missing right", async () => {
  await sql.unsafe(`revoke insert on body, domain, audience from ${LIMITED}`);
  const refused = lacks("The database user lacks a right.");
  expect(await send()).toEqual(refused);
  expect(await domain()).toEqual(refused);
  expect(await audiences()).toEqual(refused);
  await sql.unsafe(`revoke select on email from ${LIMITED}`);
  expect(await shop.client.get("/emails")).toEqual(refused);
  await sql.unsafe(`grant all on body, domain, audience, email to ${LIMITED}`);
  expect((await send()).status).toBe(200);
});

test("a Postgres that accepts no writes", async () => {
  const database = new URL(stage.databaseUrl).pathname.slice(1);
  const readOnly = async (setting: string) => {
    await sql.unsafe(`alter role ${LIMITED} in database "${database}" ${setting}`);
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${LIMITED}`;
  };
  await readOnly("set default_transaction_read_only = on");
  const refused = lacks("Postgres accepts no writes.");
  await expect.poll(send).toEqual(refused);
  await expect.poll(domain).toEqual(refused);
  await readOnly("reset default_transaction_read_only");
  await expect.poll(async () => (await send()).status).toBe(200);
});

test("a Redis whose replicas are away, and one that is full", async () => {
  const config = (name: string, value: string) => setInRedis(engine.redis, name, value);
  await config("min-replicas-to-write", "9");
  expect(await send()).toEqual(lacks("Redis accepts no writes."));
  const why =
    "it accepts no writes (NOREPLICAS): fewer replicas than its min-replicas-to-write are connected and keep up";
  expect(await readyz()).toEqual([503, expect.objectContaining({ redis: why })]);
  const { postrider } = commandLine(stage);
  const { status, err } = await postrider("workspace", "set", shop.id, "--plan", "standard");
  expect(err).toContain(`(REDIS_URL) cannot be used: ${why}.`);
  expect(status).toBe(69);
  await config("min-replicas-to-write", "0");
  await config("maxmemory", "1mb");
  expect(await send()).toEqual(lacks("Redis does not keep what is written to it: its memory may be full."));
  await config("maxmemory", "0");
  expect((await send()).status).toBe(200);
});

test("a user who may not connect ends a start at once", async () => {
  const database = new URL(stage.databaseUrl).pathname.slice(1);
  await sql.unsafe(`revoke connect on database "${database}" from public`);
  const other = launch(["api"], { ...stage, databaseUrl: limitedUrl });
  expect(await other.ended).toBe(69);
  expect(other.err()).toMatch(/^Postgres at \S+ \(DATABASE_URL\) refuses the login: permission denied/);
  await sql.unsafe(`grant connect on database "${database}" to public`);
});

test("a full disk: no send goes through, and the process is not ready", async () => {
  const database = new URL(stage.databaseUrl).pathname.slice(1);
  const noSpace = (reply: string) => `
    returns ${reply} language plpgsql as $$ begin
      raise exception 'could not write: No space left on device' using errcode = '53100';
    end $$`;
  const lookIn = async (path: string) => {
    await sql.unsafe(`alter role ${LIMITED} in database "${database}" set search_path = ${path}`);
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${LIMITED}`;
  };
  // of these names, before those of Postgres
  await sql.unsafe(`create schema full_disk; grant usage on schema full_disk to ${LIMITED};
    create function full_disk.pg_export_snapshot() ${noSpace("text")};
    create function full_disk.no_space() ${noSpace("trigger")};
    create trigger no_space before insert on body execute function full_disk.no_space()`);
  await lookIn("full_disk, public, pg_catalog");
  await expect.poll(send).toEqual(lacks("The disk of the database is nearly full."));
  await expect.poll(readyz).toEqual([503, expect.objectContaining({ postgres: "its disk is full" })]);
  const { out } = await commandLine({ ...stage, databaseUrl: limitedUrl }).postrider("doctor");
  expect(out).toMatch(/fail +commits +its disk is full/);
  await sql.unsafe("drop trigger no_space on body");
  await lookIn("public");
  await expect.poll(async () => (await send()).status).toBe(200);
  await expect.poll(async () => (await readyz())[0]).toBe(200);
});
