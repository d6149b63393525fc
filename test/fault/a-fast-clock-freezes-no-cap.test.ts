/**
 * One process of the fleet runs 26 hours ahead: past the turn of the hour, of the day and of the 24 hours for
 * which idempotency keys hold. Caps, schedules, runs and keys go by Postgres' time all the same, and the
 * process says what is wrong with it.
 */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { apply } from "../../src/automation/apply.ts";
import { timeOfId } from "../../src/ids.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { Client, mail, type TestWorkspace } from "../rig/workspace.ts";

const AHEAD_MS = 26 * 3_600_000;
const HOUR_MS = 3_600_000;
const BUCKET_MS = 300_000;
/** Between a time that was written down a moment ago and now. */
const MOMENT_MS = 60_000;
const PATIENCE = { timeout: 20_000 };

let stage: Stage;
let right: Engine;
let fast: EngineProcess;

beforeAll(async () => {
  stage = await openStage();
  right = await startEngine(["api"], stage);
  fast = await startProcess(["api"], { ...stage, wrongByMs: AHEAD_MS });
});
afterAll(async () => {
  await fast.stop();
  await right.stop();
  await stage.close();
});

const throughFast = ({ client }: TestWorkspace) => new Client(`http://127.0.0.1:${fast.port}`, client.key);

async function send(client: Client, count: number, more: Record<string, unknown> = {}): Promise<string[]> {
  const { status, body } = await client.post<{ data: { id: string }[] }>(
    "/emails/batch",
    Array(count).fill(mail(more)),
  );
  expect(status).toBe(200);
  return body.data.map(({ id }) => id);
}

async function statuses(ids: readonly string[]): Promise<string[]> {
  const rows = await right.sql<{ status: string }[]>`
    select distinct status from email where id = any(${[...ids]}::uuid[])`;
  return rows.map(({ status }) => status);
}

const isNear = (ms: number, expected: number) => Math.abs(ms - expected) < MOMENT_MS;

test("what waits for a cap goes when the hour has turned, not when the fast clock says so", async () => {
  const ws = await right.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  const keeper = await startProcess(["keeper", "deliver"], stage);
  const going = await send(throughFast(ws), 50);
  const waiting = [...(await send(throughFast(ws), 5)), ...(await send(ws.client, 5))];
  await stage.sink.ledger.received(50);
  expect(await statuses(waiting)).toEqual(["waiting"]);
  const [ledger] = await right.sql<{ at: Date }[]>`
    select next_release_at as at from ledger where workspace_id = ${ws.id}`;
  expect((ledger as { at: Date }).at.getTime() - Date.now()).toBeLessThan(BUCKET_MS + MOMENT_MS);

  // as if all of it had happened 65 minutes earlier
  await right.sql`
    update ledger set bucket = bucket - 13, next_release_at = next_release_at - interval '65 minutes'
    where workspace_id = ${ws.id}`;
  await stage.sink.ledger.received(60);
  await keeper.stop();
  const { missing, repeated } = stage.sink.ledger.compare(
    [...going, ...waiting].map((id) => `${id}@example.com`),
  );
  expect({ missing, repeated }).toEqual({ missing: [], repeated: [] });
});

test("the fast process gives its mail the right time, and knows the keys that others answered", async () => {
  const ws = await right.workspace("pro");
  const client = throughFast(ws);
  const { body } = await client.post<{ id: string }>("/emails", mail({ scheduled_at: "in 1 hour" }));
  expect(isNear(timeOfId(body.id), Date.now())).toBe(true);
  const shown = await ws.client.get<{ created_at: string; scheduled_at: string }>(`/emails/${body.id}`);
  expect(isNear(Date.parse(shown.body.created_at), Date.now())).toBe(true);
  expect(isNear(Date.parse(shown.body.scheduled_at), Date.now() + HOUR_MS)).toBe(true);

  const key = { "idempotency-key": "once" };
  const first = await ws.client.post<{ id: string }>("/emails", mail(), key);
  const again = await client.post<{ id: string }>("/emails", mail(), key);
  expect(again.body.id).toBe(first.body.id);
});

test("a keeper and a worker that are fast let nothing go early", async () => {
  const ws = await right.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  const other = await right.workspace("pro");
  const [later] = await send(other.client, 1, { scheduled_at: "in 1 hour" });
  await send(ws.client, 50);
  const [waiting] = await send(ws.client, 1);
  const { body: audience } = await other.client.post<{ id: string }>("/audiences", { name: "All" });
  const email = "one@example.net";
  await other.client.post(`/audiences/${audience.id}/contacts`, { email });
  const steps = [{ wait: "1h" }, { send: { from: "a@example.com", subject: "Late", text: "Late" } }];
  const document = { name: "Late", audience_id: audience.id, event: "go", entry: "every", steps };
  await apply(right.sql, other.id, document, Date.now());

  const everything = await startProcess(["keeper", "deliver", "automate"], {
    ...stage,
    wrongByMs: AHEAD_MS,
  });
  await other.client.post("/events", { audience_id: audience.id, email, name: "go" });
  const [soon] = await send(other.client, 1, { scheduled_at: "in 2 seconds" });
  await stage.sink.ledger.received(1, ({ messageId }) => messageId === `${soon}@example.com`);
  const run = () => right.sql<{ position: string; wakeAt: Date }[]>`
    select position, wake_at as "wakeAt" from run where workspace_id = ${other.id}`;
  await expect.poll(async () => (await run())[0]?.position, PATIENCE).toBe("1");
  const [sleeping] = await run();
  await everything.stop();

  expect(isNear((sleeping as { wakeAt: Date }).wakeAt.getTime(), Date.now() + HOUR_MS)).toBe(true);
  expect(await statuses([later as string])).toEqual(["scheduled"]);
  expect(await statuses([waiting as string])).toEqual(["waiting"]);
});

type Readiness = { status: string; checks: Record<string, string> };

test("it is not ready and says why, until its clock is set right", async () => {
  const readyz = async (url: string) => {
    const response = await fetch(`${url}/readyz`);
    return { status: response.status, clock: ((await response.json()) as Readiness).checks.clock };
  };
  const url = `http://127.0.0.1:${fast.port}`;
  expect(await readyz(right.url)).toEqual({ status: 200, clock: "ok" });
  const { status, clock } = await readyz(url);
  expect(status).toBe(503);
  expect(clock).toMatch(/^9(3600|3599) s ahead of Postgres$/);
  await fast.setClock(0);
  expect(await readyz(url)).toEqual({ status: 200, clock: "ok" });
  await fast.setClock(-60_000);
  expect((await readyz(url)).clock).toMatch(/^(60|59) s behind Postgres$/);
});

test("its log says so, once", async () => {
  const rightNow = Date.now;
  const wrong = vi.spyOn(Date, "now").mockImplementation(() => rightNow() + AHEAD_MS);
  const engine = await startEngine(["api"], stage);
  wrong.mockRestore();
  await engine.stop();
  expect(engine.complaints.map(({ msg }) => msg)).toEqual([
    expect.stringContaining("The clock of this machine is 93600 s ahead of Postgres"),
  ]);
});

type Finding = { what: string; state: string; detail: string };

test("the doctor names the clock", async () => {
  const finding = async (options: { wrongByMs?: number }) => {
    const { out } = await commandLine({ ...stage, ...options }).postrider("doctor", "--json");
    return (JSON.parse(out) as Finding[]).filter(({ what }) => what.includes("clock"));
  };
  expect((await finding({})).map(({ state }) => state)).toEqual(["ok", "ok"]);
  const [ours, redis] = await finding({ wrongByMs: AHEAD_MS });
  expect(ours).toMatchObject({ what: "clock", state: "fail" });
  expect(ours?.detail).toContain("93600 s ahead of Postgres");
  expect(redis).toMatchObject({ what: "clock of Redis", state: "ok" });
});
