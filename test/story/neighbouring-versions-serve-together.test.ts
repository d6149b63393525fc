/**
 * An upgrade without a pause, and the way back: this version and the one before it on one database and one
 * Redis. Each takes mail that the other delivers, and each knows what the other has accepted.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import type { Role } from "../../src/rules/roles.ts";
import { commandLine } from "../rig/command.ts";
import { databaseAt, dropDatabase } from "../rig/database.ts";
import { buildPrevious, lastSchema, missingPrevious } from "../rig/previous.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnRedis, ownRedis, services } from "../rig/services.ts";
import { settled } from "../rig/settled.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail } from "../rig/workspace.ts";

const WORKERS: readonly Role[] = ["deliver", "automate", "webhooks", "keeper"];
const BATCH = 20;
/** The first attempt is answered 451, and the second comes after a second. */
const TWICE = "once-451";

let program: string;
let stage: { databaseUrl: string; redisUrl: string; smtpUrl: string; settings: Record<string, string> };
let redis: OwnRedis;
let sink: Sink;
let sql: Sql;
let key: string;
let workspaceId: string;
const running = new Set<EngineProcess>();

async function start(version: "old" | "new", roles: readonly Role[]): Promise<EngineProcess> {
  const started = await startProcess(roles, { ...stage, ...(version === "old" && { program }) });
  running.add(started);
  return started;
}

async function stop(process: EngineProcess): Promise<void> {
  running.delete(process);
  expect(await process.stop()).toBe(0);
}

/** Asks one api; hands back what it answers. */
async function ask(at: EngineProcess, path: string, body?: unknown, idempotencyKey?: string) {
  const answer = await fetch(`http://127.0.0.1:${at.port}/api/v1${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      ...(idempotencyKey && { "idempotency-key": idempotencyKey }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: answer.status, body: (await answer.json()) as { id: string; status?: string } };
}

/** One mail, a batch, one that has to be tried twice, and one that goes a moment later; returns how many. */
async function send(at: EngineProcess): Promise<number> {
  const again = mail({ to: `${TWICE}+${randomUUID()}@example.net` });
  const later = mail({ scheduled_at: new Date(Date.now() + 2_000).toISOString() });
  for (const one of [mail(), again, later]) expect((await ask(at, "/emails", one)).status).toBe(200);
  const batch = Array.from({ length: BATCH }, () => mail());
  expect((await ask(at, "/emails/batch", batch)).status).toBe(200);
  return BATCH + 3;
}

let sent = 0;
/** All that was accepted until now is delivered, each once. */
async function expectDelivered(): Promise<void> {
  expect(await settled(sql, workspaceId, 30_000)).toEqual({ delivered: sent });
  expect(sink.ledger.mails.length).toBe(sent);
  expect(new Set(sink.ledger.mails.map(({ messageId }) => messageId)).size).toBe(sent);
}

async function schema(): Promise<string | undefined> {
  const [last] = await sql<{ name: string }[]>`select name from migration order by name desc limit 1`;
  return last?.name;
}

describe.skipIf(missingPrevious)(missingPrevious ?? "an upgrade and the way back", () => {
  let old: EngineProcess;
  let api: EngineProcess;
  let workers: EngineProcess;

  beforeAll(async () => {
    program = buildPrevious();
    const { databaseUrl } = services();
    const name = `upgraded_${randomUUID().replaceAll("-", "")}`;
    await createDatabase(databaseAt(databaseUrl, "postgres"), name);
    [redis, sink] = await Promise.all([ownRedis(), openSink()]);
    stage = {
      ...{ databaseUrl: databaseAt(databaseUrl, name), redisUrl: redis.url, smtpUrl: sink.url },
      settings: { RETRY_SCHEDULE: "1", STORE_TIMEOUT_MS: "10000" },
    };
    sql = connectRecord(stage.databaseUrl, "setup", 30_000);
    old = await start("old", ["api", ...WORKERS]);
    const { json } = commandLine({ ...stage, program });
    workspaceId = (await json<{ id: string }>("workspace", "create", "--name", "Shop", "--plan", "pro")).id;
    const limits = ["requests_per_second", "requests_per_minute", "cap_hour", "cap_day"];
    await json("workspace", "set", workspaceId, ...limits.flatMap((name) => ["--limit", `${name}=10000`]));
    const made = ["key", "create", "--workspace", workspaceId, "--preset", "full", "--name", "shop"];
    key = (await json<{ key: string }>(...made)).key;
  }, 180_000);

  afterAll(async () => {
    await Promise.all([...running].map((process) => process.stop()));
    await sql.end();
    await Promise.all([redis.stop(), sink.close(), dropDatabase(stage.databaseUrl)]);
  });

  test("the version before serves alone, on its own schema", async () => {
    expect(await schema()).toBe(lastSchema());
    sent += await send(old);
    await expectDelivered();
  }, 60_000);

  test("this version migrates beside it, and each delivers and answers what the other took", async () => {
    api = await start("new", ["api"]);
    sent += (await Promise.all([send(old), send(api)])).reduce((sum, count) => sum + count);
    const idempotencyKey = randomUUID();
    const first = await ask(old, "/emails", mail(), idempotencyKey);
    expect(await ask(api, "/emails", mail(), idempotencyKey)).toEqual(first);
    sent += 1;
    expect((await ask(api, `/emails/${first.body.id}`)).status).toBe(200);
    await expectDelivered();

    workers = await start("new", WORKERS);
    const both = Array.from({ length: 5 }, () => [send(old), send(api)]).flat();
    sent += (await Promise.all(both)).reduce((sum, count) => sum + count);
    await expectDelivered();
    expect(await fetch(`http://127.0.0.1:${old.port}/readyz`).then(({ status }) => status)).toBe(200);
  }, 90_000);

  test("up: what is under way in the version before goes on in this one", async () => {
    sent += await send(old);
    await stop(old);
    await expectDelivered();
    old = await start("old", ["api"]);
    sent += await send(old);
    sent += await send(api);
    await expectDelivered();
  }, 90_000);

  test("down: the version before serves again, on the schema of this one", async () => {
    sent += await send(api);
    await stop(old);
    await Promise.all([stop(api), stop(workers)]);
    old = await start("old", ["api", ...WORKERS]);
    sent += await send(old);
    await expectDelivered();
  }, 90_000);
});
