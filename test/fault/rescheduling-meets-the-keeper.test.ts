/**
 * Thirty callers move scheduled e-mails again and again while the keeper packs those whose time has come.
 * Callers hear that an e-mail was moved or that it is too late, never that the engine failed; and every
 * e-mail that was not moved far away leaves.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const CALLERS = 30;
const EMAILS = 300;
const BATCH = 100;
const PATCHES_EACH = 60;
/** E-mails come due all the time, and the keeper looks every 500 ms. */
const AHEAD_MS_MAX = 1_500;
const PATIENCE_MS = 30_000;

let stage: Stage;
let engine: Engine;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "keeper"], stage);
  ws = await engine.workspace("pro", { cap_hour: 10_000, cap_day: 10_000 });
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("no caller hears of the keeper", async () => {
  const ids: string[] = [];
  while (ids.length < EMAILS) {
    const batch = Array.from({ length: BATCH }, () => mail({ scheduled_at: "in 1 hour" }));
    const { status, body } = await ws.client.post<{ data: { id: string }[] }>("/emails/batch", batch);
    expect(status).toBe(200);
    ids.push(...body.data.map(({ id }) => id));
  }
  let moved = 0;
  const failures: unknown[] = [];
  // each e-mail is moved once at least, and none has left before
  const patch = async (_: unknown, caller: number): Promise<void> => {
    for (let n = 0; n < PATCHES_EACH; n++) {
      const own = caller + n * CALLERS;
      const id = ids[own < ids.length ? own : Math.floor(Math.random() * ids.length)];
      const { status, body } = await ws.client.call("PATCH", `/emails/${id}`, { scheduled_at: soon() });
      if (status === 200) moved++;
      else if (status !== 422) failures.push(body);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, patch));
  expect(failures).toEqual([]);
  expect(moved).toBeGreaterThanOrEqual(EMAILS);
  const scheduled = () => engine.sql`select 1 from due where workspace_id = ${ws.id} limit 1`;
  await expect.poll(async () => (await scheduled()).length, { timeout: PATIENCE_MS }).toBe(0);
  const bagged = await engine.sql<{ id: string; count: number }[]>`
    select e.id, count(*)::int from bag, unnest(email_ids) as e(id) where workspace_id = ${ws.id} group by e.id`;
  expect(bagged.map(({ id }) => id).sort()).toEqual(ids.sort());
  expect(bagged.filter(({ count }) => count !== 1)).toEqual([]);
  expect(engine.complaints).toEqual([]);
});

function soon(): string {
  return new Date(Date.now() + Math.floor(Math.random() * AHEAD_MS_MAX)).toISOString();
}
