/**
 * Mail that no request brings is rendered too: that of an automation in `automate`, and a confirmation mail
 * in `api`. A template that is as dear as one may be holds the event loop of neither.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { apply } from "../../src/automation/apply.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { freshWorkspace, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const TOGETHER = 10;
const POLL = { timeout: 30_000, interval: 50 };
const DEAR =
  "{% for i in (1..3000) %}{% for j in (1..3000) %}{{ last_name | url_encode | size }}{% endfor %}{% endfor %}";
const SENDER = { from: "a@example.com", subject: "Hi" };

let database: OwnDatabase;
let redis: OwnRedis;
let engine: Engine;
let api: EngineProcess;
let automate: EngineProcess;
let ws: TestWorkspace;
beforeAll(async () => {
  [database, redis] = await Promise.all([ownDatabase(), ownRedis()]);
  const stores = { databaseUrl: database.url, redisUrl: redis.url };
  engine = await startEngine([], stores);
  api = await startProcess(["api"], { ...stores, watchesLoop: true });
  automate = await startProcess(["automate"], { ...stores, watchesLoop: true });
  ws = await freshWorkspace(engine.keyring, `http://127.0.0.1:${api.port}`);
});
afterAll(async () => {
  await Promise.all([api?.stop(), automate?.stop()]);
  await engine?.stop();
  await Promise.all([redis?.stop(), database?.drop()]);
});

let people = 0;
const nextEmail = () => `person${++people}@example.net`;

async function audienceOf(double_opt_in: boolean): Promise<string> {
  return (await ws.client.post<{ id: string }>("/audiences", { name: "A", double_opt_in })).body.id;
}

test("that of a confirmation mail", async () => {
  const template = { ...SENDER, html: `{{ confirm_url }} ${DEAR}` };
  expect((await ws.client.call("PUT", "/templates/confirm-subscription", template)).status).toBe(201);
  const audience = await audienceOf(true);
  const invite = async () => {
    const adds = Array.from({ length: TOGETHER }, () =>
      ws.client.post(`/audiences/${audience}/contacts`, { email: nextEmail(), last_name: "é".repeat(50) }),
    );
    expect((await Promise.all(adds)).map(({ status }) => status)).toEqual(Array(TOGETHER).fill(201));
    const owed = () =>
      engine.sql`select from confirmation where workspace_id = ${ws.id} and not is_mailed`.then(
        ({ length }) => length,
      );
    await expect.poll(owed, POLL).toBe(0);
  };
  expect(await workedBy(api, invite, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("that of an automation", async () => {
  const audience_id = await audienceOf(false);
  const steps = [{ send: { ...SENDER, html: DEAR } }];
  const document = { name: "Dear", audience_id, event: "joined", entry: "every" as const, steps };
  await apply(engine.sql, ws.id, document, Date.now());
  const email = nextEmail();
  await ws.client.post(`/audiences/${audience_id}/contacts`, { email, last_name: "é".repeat(50) });
  let joined = 0;
  const join = async () => {
    const events = Array.from({ length: TOGETHER }, () =>
      ws.client.post("/events", { audience_id, email, name: "joined" }),
    );
    expect((await Promise.all(events)).map(({ status }) => status)).toEqual(Array(TOGETHER).fill(202));
    joined += TOGETHER;
    const ended = () =>
      engine.sql`select from run where workspace_id = ${ws.id} and state <> 'active'`.then(
        ({ length }) => length,
      );
    await expect.poll(ended, POLL).toBe(joined);
  };
  expect(await workedBy(automate, join, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
  const taken =
    await engine.sql`select distinct kind, result, detail from run_step where workspace_id = ${ws.id}`;
  expect(taken).toMatchObject([
    { kind: "send", result: "skipped", detail: expect.stringContaining("units of work at most") },
  ]);
});
