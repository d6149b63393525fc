/**
 * Automations and contacts that are as long as they may be, of many runs that are due at once. Whoever leads
 * runs sends mail of others too: its event loop is asked for the work that it did in one turn.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { apply } from "../../src/automation/apply.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
/** As many as are taken up together. */
const RUNS = 500;
/** So many versions of a document are followed by runs that are due together. */
const VERSIONS = 30;

let stage: Stage;
let engine: Engine;
let automate: EngineProcess;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  automate = await startProcess(["automate"], { ...stage, watchesLoop: true });
  ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
});
afterAll(async () => {
  await automate?.stop();
  await engine?.stop();
  await stage?.close();
});

const SENDER = { from: "shop@example.com", subject: "Hello" };
// biome-ignore lint/suspicious/noThenProperty: the word of the document
const splitOn = (condition: object) => ({ split: [{ if: { or: [condition] }, then: [{ wait: "1h" }] }] });

/** Properties as long as they may be, of many names and of one. */
const PROPERTIES: Record<string, object> = {
  "of many names": Object.fromEntries(Array.from({ length: 1_300 }, (_, n) => [`k${n}`, n])),
  "of many values": { a: Array(3_000).fill([]) },
  "of one text": { a: "\u00e9".repeat(7_000) },
};

/** Runs of a document, each of a contact with these properties; all due at once, again and again. */
async function manyRuns(document: object, properties: object): Promise<() => Promise<void>> {
  const { body } = await ws.client.post<{ id: string }>("/audiences", { name: "A" });
  const audience_id = body.id;
  const whole = { name: audience_id, audience_id, event: "signup", entry: "every", ...document };
  const { applied } = await apply(engine.sql, ws.id, whole, Date.now());
  if (!("id" in applied)) throw new Error(applied.kind);
  await engine.sql`
    insert into contact (workspace_id, audience_id, id, email, identity, status, properties, created_at, updated_at)
    select ${ws.id}, ${audience_id}, gen_random_uuid(), 'a' || n || '@example.net', 'a' || n || '@example.net', 'subscribed',
      ${JSON.stringify(properties)}::text::jsonb, now(), now()
    from generate_series(1, ${RUNS}) n`;
  return async () => {
    await engine.sql`
      insert into automation_version (workspace_id, automation_id, version, document, created_at)
      select v.workspace_id, v.automation_id, m.last + n, v.document, now()
      from automation_version v cross join generate_series(1, ${VERSIONS}) n
      cross join (select max(version) as last from automation_version where automation_id = ${applied.id}) m
      where v.automation_id = ${applied.id} and v.version = 1`;
    await engine.sql`
      insert into run (workspace_id, id, automation_id, version, audience_id, contact_id, event_id, position,
        wake_at, created_at)
      select workspace_id, gen_random_uuid(), ${applied.id},
        (select max(version) from automation_version where automation_id = ${applied.id})
          - (row_number() over ())::int % ${VERSIONS}, audience_id, id,
        gen_random_uuid()::text, '0', now(), now()
      from contact where workspace_id = ${ws.id} and audience_id = ${audience_id}`;
    const left = async () =>
      (
        await engine.sql<{ n: number }[]>`
          select count(*)::int as n from run
          where automation_id = ${applied.id} and state = 'active' and wake_at <= now() + interval '1 minute'`
      )[0]?.n;
    await expect.poll(left, { timeout: 60_000, interval: 50 }).toBe(0);
  };
}

test.each(Object.entries(PROPERTIES))("contacts with properties %s", async (_, properties) => {
  const again = await manyRuns({ steps: [splitOn({ field: "contact.properties.b", eq: 1 })] }, properties);
  expect(await workedBy(automate, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test.each(Object.entries(PROPERTIES))(
  "mails and tags to contacts with properties %s",
  async (_, properties) => {
    const tags = Array.from({ length: 50 }, (_, n) => `${"t".repeat(90)}${n}`);
    const html = `{{ first_name }}${"a".repeat(100_000)}`;
    const steps = [{ tag: { add: tags } }, { send: { ...SENDER, html } }, { tag: { remove: tags } }];
    const again = await manyRuns({ steps }, properties);
    expect(await workedBy(automate, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
  },
);

const branches = (count: number) =>
  Array.from({ length: count }, (_, n) => ({
    if: {
      or: Array.from({ length: 9 }, (_, m) => ({
        field: `contact.properties.k${n}${m}`,
        in: Array(100).fill("x".repeat(9)),
      })),
    },
    // biome-ignore lint/suspicious/noThenProperty: the word of the document
    then: [{ wait: "1h" }],
  }));
const DOCUMENTS: Record<string, object> = {
  "of many conditions": { steps: [{ split: branches(20) }] },
  "of many mails": {
    steps: [
      { wait: "1h" },
      ...Array.from({ length: 99 }, () => ({ send: { ...SENDER, html: "a".repeat(5_000) } })),
    ],
  },
  "of many waits": {
    steps: Array.from({ length: 150 }, () => ({ wait: { until: "09:00", timezone: "Europe/Berlin" } })),
  },
};

test.each(Object.entries(DOCUMENTS))("documents %s", async (_, document) => {
  const again = await manyRuns(document, {});
  expect(await workedBy(automate, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
