/** Counts go by route, outcome, stream and group; no address, host or workspace's path is a label. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { eventually } from "../rig/eventually.ts";
import { type Scrape, scrape } from "../rig/scrape.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const SETTLED_MS_MAX = 15_000;
const SENT = 12;

let stage: Stage;
let engine: Engine;
let ws: TestWorkspace;
let before: Scrape;
let after: Scrape;
const told = () => scrape(`http://127.0.0.1:${engine.metricsPort}/metrics`);
const grown = (name: string, labels?: Record<string, string>) =>
  after.value(name, labels) - before.value(name, labels);

beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "automate", "keeper", "webhooks"], {
    ...stage,
    settings: { METRICS_PORT: "0" },
  });
  ws = await engine.workspace("pro");
  before = await told();
  const letters = Array.from({ length: SENT }, (_, n) => mail({ to: `somebody-${n}@example.org` }));
  expect((await ws.client.post("/emails/batch", letters)).status).toBe(200);
  await ws.client.post("/emails", mail({ to: "refuse-550@example.org" }));
  await ws.client.get("/emails/00000000-0000-7000-8000-000000000000");
  await fetch(`${engine.url}/api/v1/emails`, { headers: { authorization: "Bearer pr_live_nothing" } });
  await settled(engine.sql, ws.id, SETTLED_MS_MAX);
  // what was told within the last second may be told again
  after = await eventually(
    async () => {
      const now = await told();
      expect(now.value("postrider_settle_emails_sum") - before.value("postrider_settle_emails_sum")).toBe(
        SENT + 1,
      );
      expect(now.value("postrider_requests_total", { route: "GET /emails/{id}" })).toBeGreaterThan(0);
      const ticks = now.value("postrider_keeper_tick_seconds_count", { tick: "partitions" });
      expect(ticks).toBeGreaterThan(0);
      return now;
    },
    { timeout: SETTLED_MS_MAX },
  );
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("requests, by the template of their route", () => {
  expect(grown("postrider_requests_total", { route: "POST /emails/batch", status: "2xx" })).toBe(1);
  expect(grown("postrider_requests_total", { route: "GET /emails/{id}", status: "4xx" })).toBe(1);
  expect(grown("postrider_request_seconds_count", { route: "POST /emails/batch" })).toBe(1);
  expect(grown("postrider_requests_refused_total", { error: "invalid_api_key" })).toBe(1);
  expect(after.value("postrider_requests_in_flight")).toBe(0);
});

test("admission, reservation and commit", () => {
  expect(grown("postrider_admissions_total", { answer: "admitted" })).toBe(3);
  expect(grown("postrider_reservations_total", { answer: "granted" })).toBe(2);
  expect(grown("postrider_emails_accepted_total", { stream: "transactional" })).toBe(SENT + 1);
  expect(grown("postrider_commits_total", { what: "mail", end: "committed" })).toBeGreaterThanOrEqual(1);
  expect(grown("postrider_commit_rows_sum", { what: "mail" })).toBe(SENT + 1);
  expect(after.value("postrider_commit_queue")).toBe(0);
});

test("outcomes and attempts, by destination group", () => {
  const group = "smarthost";
  const stream = "transactional";
  expect(grown("postrider_outcomes_total", { group, stream, outcome: "delivered" })).toBe(SENT);
  expect(grown("postrider_outcomes_total", { group, stream, outcome: "bounced" })).toBe(1);
  expect(grown("postrider_attempts_total", { group, phase: "dot", reply: "2xx" })).toBe(SENT);
  expect(grown("postrider_attempt_seconds_count", { group })).toBe(SENT + 1);
  expect(grown("postrider_settle_emails_sum")).toBe(SENT + 1);
});

test("stores, pools and the keeper", () => {
  expect(grown("postrider_redis_script_seconds_count", { script: "admit" })).toBeGreaterThanOrEqual(3);
  expect(grown("postrider_postgres_seconds_count", { pool: "commits" })).toBeGreaterThan(3);
  expect(after.value("postrider_postgres_connections", { pool: "commits" })).toBeGreaterThan(0);
  expect(after.value("postrider_keeper_tick_seconds_count", { tick: "partitions" })).toBeGreaterThan(0);
  expect(after.value("postrider_keeper_tick_age_seconds", { tick: "pack" })).toBeLessThan(60);
  expect(after.value("postrider_redis_memory_bytes")).toBeGreaterThan(0);
  expect(after.value("postrider_stores_readable")).toBe(1);
});

test("every name is ours, and no label holds an address, an id of a mail or a key", () => {
  expect([...after.families].filter((name) => !name.startsWith("postrider_"))).toEqual([]);
  expect(after.text).not.toMatch(/@|example\.org|pr_live|somebody/);
  const withoutBusiest = after.text.replaceAll(
    /^postrider_(?:cap|cap_used|waiting|waiting_oldest_seconds)\{.*$/gm,
    "",
  );
  expect(withoutBusiest).not.toContain(ws.id);
});
