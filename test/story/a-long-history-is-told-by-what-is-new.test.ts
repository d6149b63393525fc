/** What a change of an e-mail costs the event log does not grow with the history before it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { numberEvents } from "../../src/record/outbox/outbox.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const LONG = 20_000;
const IN_AN_HOUR = new Date(Date.now() + 3_600_000).toISOString();

let stage: Stage;
let engine: Engine;
let ws: TestWorkspace;
let id: string;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  ws = await engine.workspace();
  await engine.sql`update workspace set logs_events = true where id = ${ws.id}`;
  const sent = await ws.client.post<{ id: string }>("/emails", mail({ scheduled_at: IN_AN_HOUR }));
  id = sent.body.id;
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

const entries = (types: readonly string[]) =>
  JSON.stringify(types.map((type) => ({ type, at: "2026-01-01T00:00:00Z", recipient: "a@example.net" })));

/** How long the trigger of the event log took, in ms: the least of some. */
async function costOf(types: readonly string[]): Promise<number> {
  const costs: number[] = [];
  for (let n = 0; n < 5; n++) {
    const [row] = await engine.sql<
      { "QUERY PLAN": { Triggers: { "Trigger Name": string; Time: number }[] }[] }[]
    >`
      explain (analyze, format json) update email set history = coalesce(history, '[]') || ${entries(types)}::text::jsonb
      where workspace_id = ${ws.id} and id = ${id}`;
    const [plan] = row?.["QUERY PLAN"] ?? [];
    const told = plan?.Triggers.filter((one) => one["Trigger Name"] === "tell_of_changed") ?? [];
    expect(told).toHaveLength(1);
    costs.push(told[0]?.Time ?? 0);
  }
  return Math.min(...costs);
}

/** How long it takes to read all entries, in ms: the least of some. */
async function costOfAll(): Promise<number> {
  const costs: number[] = [];
  for (let n = 0; n < 5; n++) {
    const [row] = await engine.sql<{ "QUERY PLAN": { "Execution Time": number }[] }[]>`
      explain (analyze, format json) select count(*) from email,
        jsonb_array_elements(history) with ordinality as h(entry, place)
      where workspace_id = ${ws.id} and id = ${id} and place > 0`;
    costs.push(row?.["QUERY PLAN"][0]?.["Execution Time"] ?? 0);
  }
  return Math.min(...costs);
}

test("only what is new of a history is read, and told in order with its place", async () => {
  await costOf(["delivery_delayed", "delivered"]);
  const short = await costOf(["delivery_delayed"]);
  const before = entries(Array.from({ length: LONG }, () => "delivery_delayed"));
  await engine.sql`update email set history = history || ${before}::text::jsonb
    where workspace_id = ${ws.id} and id = ${id}`;
  const long = await costOf(["delivery_delayed"]);
  expect(long - short).toBeLessThan((await costOfAll()) / 3);

  await engine.sql.begin((tx) => numberEvents(tx, Number.MAX_SAFE_INTEGER));
  const rows = await engine.sql<{ entry: number; type: string }[]>`
    select entry, type from outbox where workspace_id = ${ws.id} and subject_id = ${id} and entry is not null
    order by sequence`;
  const [{ count = 0 } = {}] = await engine.sql<{ count: number }[]>`
    select jsonb_array_length(history) as count from email where workspace_id = ${ws.id} and id = ${id}`;
  expect(rows.map(({ entry }) => entry)).toEqual(Array.from({ length: count }, (_, place) => place));
  expect(rows.slice(0, 4).map(({ type }) => type)).toEqual([
    ...["email.delivery_delayed", "email.delivered", "email.delivery_delayed", "email.delivered"],
  ]);
});
