/** What a statement does to many e-mails is written as one row, and told as an event of each. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { numberEvents } from "../../src/record/outbox/outbox.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const MANY = 40;
/** Less than a batch: each step takes one. */
const FEW = 7;
const IN_AN_HOUR = new Date(Date.now() + 3_600_000).toISOString();

type Row = { sequence: number; type: string; id: string; entry: number | null };

let stage: Stage;
let engine: Engine;
let workspace: TestWorkspace;
let ids: string[];
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  workspace = await engine.workspace();
  await engine.sql`update workspace set logs_events = true where id = ${workspace.id}`;
  const mails = Array.from({ length: MANY }, () => mail({ scheduled_at: IN_AN_HOUR }));
  const sent = await workspace.client.post<{ data: { id: string }[] }>("/emails/batch", mails);
  ids = sent.body.data.map(({ id }) => id).sort();
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

const entriesOf = (...types: string[]) =>
  JSON.stringify(types.map((type) => ({ type, at: "2026-01-01T00:00:00Z" })));

async function numberAll(): Promise<number[]> {
  const steps: number[] = [];
  for (;;) {
    const step = await engine.sql.begin((tx) => numberEvents(tx, FEW));
    if (step === 0) return steps;
    steps.push(step);
  }
}

async function told(): Promise<Row[]> {
  return engine.sql<Row[]>`
    select sequence::int as sequence, type, subject_id as id, entry from outbox
    where workspace_id = ${workspace.id} order by sequence`;
}

test("one row for each statement becomes an event for each change, in order, without gaps", async () => {
  const { sql } = engine;
  await sql`update email set updated_at = now() where workspace_id = ${workspace.id}`; // which is told to nobody
  await sql`
    update email set history = ${entriesOf("delivery_delayed", "delivered")}::text::jsonb, sent_at = now()
    where workspace_id = ${workspace.id}`;
  const contact = { email: "ada@example.net" };
  const audience = await workspace.client.post<{ id: string }>("/audiences", { name: "People" });
  await workspace.client.post(`/audiences/${audience.body.id}/contacts`, contact);
  await sql`
    update email set history = history || ${entriesOf("complained")}::text::jsonb where workspace_id = ${workspace.id}`;
  expect(await sql`select events from outbox_batch order by number`).toEqual(
    [MANY, 3 * MANY, MANY].map((events) => ({ events })),
  );
  expect(await numberAll()).toEqual([MANY, 3 * MANY, 1 + MANY]);
  expect(await sql`select from outbox_batch`).toEqual([]);

  const rows = await told();
  expect(rows.map(({ sequence }) => sequence)).toEqual(rows.map((_, n) => n + 1));
  const created = rows.findIndex(({ type }) => type === "contact.created");
  expect(created).toBe(4 * MANY);
  for (const id of ids)
    expect(rows.filter((row) => row.id === id).map(({ type, entry }) => [type, entry])).toEqual([
      ["email.scheduled", null],
      ["email.sent", null],
      ["email.delivery_delayed", 0],
      ["email.delivered", 1],
      ["email.complained", 2],
    ]);
});

test("two who number at once give each sequence once", async () => {
  const before = (await told()).length;
  for (const id of ids)
    await engine.sql`
      update email set history = history || ${entriesOf("opened")}::text::jsonb
      where workspace_id = ${workspace.id} and id = ${id}`;
  const steps = await Promise.all([numberAll(), numberAll()]);
  const all = steps.flat().reduce((sum, step) => sum + step, 0);
  expect(all).toBe(MANY);
  const rows = await told();
  expect(rows.map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: before + MANY }, (_, n) => n + 1),
  );
});

test("what happened while nothing was numbered for days is told all the same", async () => {
  const [first] = ids;
  await engine.sql`
    update email set history = history || ${entriesOf("clicked")}::text::jsonb
    where workspace_id = ${workspace.id} and id = ${first as string}`;
  await engine.sql`update outbox_batch set kept_at = now() - interval '40 days'`;
  expect(await numberAll()).toEqual([1]);
});
