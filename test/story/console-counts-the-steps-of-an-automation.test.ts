/**
 * The graph of an automation counts what the runs of a version did at each step, and who stands there now.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type Browser, signedIn } from "../rig/people.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

let engine: Engine;
let workspace: TestWorkspace;
let browser: Browser;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
  workspace = await engine.workspace();
  browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "member");
});
afterAll(() => engine.stop());

type Flow = { version: number; document: { steps: unknown[] }; places: object[]; versions: object[] };

test("of each version by itself", async () => {
  const { client } = workspace;
  const make = async (path: string, body: object) => (await client.post<{ id: string }>(path, body)).body.id;
  const audience = await make("/audiences", { name: "Customers" });
  const steps = [{ wait: "2h" }, { tag: { add: ["greeted"] } }];
  const terms = { name: "Welcome", audience_id: audience, event: "signed.up", entry: "every" };
  const id = await make("/automations", { ...terms, steps });
  for (const email of ["ann@example.net", "bob@example.net", "cleo@example.net"]) {
    await make(`/audiences/${audience}/contacts`, { email });
    await client.post("/events", { audience_id: audience, email, name: "signed.up" });
  }
  await client.call("PATCH", `/automations/${id}`, { steps: [{ wait: "3h" }] });
  await client.post("/events", { audience_id: audience, email: "ann@example.net", name: "signed.up" });
  // two have gone on, one of them past a step that was skipped
  await engine.sql`
    with gone as (
      select r.id, row_number() over (order by r.id) as n from run r
      where r.workspace_id = ${workspace.id} and r.version = 1 order by r.id limit 2
    ), waited as (
      insert into run_step (workspace_id, run_id, seq, position, kind, result, began_at, ended_at)
      select ${workspace.id}, id, 1, '0', 'wait', 'done', now(), now() from gone
    ), tagged as (
      insert into run_step (workspace_id, run_id, seq, position, kind, result, began_at, ended_at)
      select ${workspace.id}, id, 2, '1', 'tag', 'skipped', now(), now() from gone where n = 1
    )
    update run r set state = 'finished', wake_at = null, ended_at = now() from gone
    where r.workspace_id = ${workspace.id} and r.id = gone.id`;

  const now = await browser.get<Flow>(`automations/${id}/flow`);
  expect(now).toMatchObject({
    status: 200,
    body: {
      ...{ object: "automation_flow", id, version: 2 },
      document: { steps: [{ wait: "3h" }] },
      places: [{ step: "0", done: 0, skipped: 0, standing: 1 }],
      versions: [
        { version: 2, runs: 1, is_current: true },
        { version: 1, runs: 3, is_current: false },
      ],
    },
  });
  const before = await browser.get<Flow>(`automations/${id}/flow?version=1`);
  expect(before.body.document.steps).toEqual(steps);
  expect(before.body.places).toEqual([
    { step: "0", done: 2, skipped: 0, standing: 1 },
    { step: "1", done: 0, skipped: 1, standing: 0 },
  ]);
  expect((await browser.get(`automations/${id}/flow?version=3`)).status).toBe(404);
  expect((await browser.get(`automations/${id}/flow?version=x`)).status).toBe(422);
});
