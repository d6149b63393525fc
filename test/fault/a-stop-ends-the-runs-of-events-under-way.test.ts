/**
 * An automation is stopped, or deleted, while an event that starts it is being committed: the run of that
 * event ends with the others, though it was not there yet when the automation was paused.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../rig/eventually.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

let database: OwnDatabase;
let api: TestApi;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url });
});
afterAll(async () => {
  await api.stop();
  await database.drop();
});

async function waitingForLocks(): Promise<number> {
  const waiting = await api.sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  return waiting.length;
}

test.each([
  ["POST", "/stop"],
  ["DELETE", ""],
])("%s /automations/{id}%s", async (method, below) => {
  const { id: workspaceId, client } = await api.workspace("pro");
  const { id: audienceId } = (await client.post<{ id: string }>("/audiences", { name: "People" })).body;
  for (const email of ["ann@x.example", "bob@x.example"])
    await client.post(`/audiences/${audienceId}/contacts`, { email });
  const { id } = (
    await client.post<{ id: string }>("/automations", {
      ...{ name: "Flow", audience_id: audienceId, event: "signup", steps: [{ wait: "2d" }] },
    })
  ).body;
  const key = randomUUID();
  const event = { audience_id: audienceId, email: "ann@x.example", name: "signup" };
  const track = () => client.post("/events", event, { "idempotency-key": key });
  // the filters are known from then on, or the automation would be looked at once more
  await client.post("/events", { ...event, email: "bob@x.example" });

  let tracked: ReturnType<typeof track> | undefined;
  let ended: Promise<{ status: number }> | undefined;
  let isOver = false;
  await api.sql
    .begin(async (tx) => {
      // the event has found the automation, and waits for a claim that comes to nothing
      await tx`
        insert into claim (workspace_id, scope, key, digest, answer, created_at)
        values (${workspaceId}, ${`event ${audienceId}`}, ${key}, '\\x00', 'null', now())`;
      tracked = track();
      await eventually(async () => expect(await waitingForLocks()).toBe(1));
      ended = client.call(method, `/automations/${id}${below}`);
      const over = () => {
        isOver = true;
      };
      ended.then(over, over);
      await eventually(async () => expect(isOver || (await waitingForLocks()) === 2).toBe(true));
      throw new Error("no claim");
    })
    .catch((error: Error) => expect(error.message).toBe("no claim"));
  expect(await tracked).toMatchObject({ status: 202 });
  expect(await ended).toMatchObject({ status: 200 });
  const runs = await api.sql`select state from run where workspace_id = ${workspaceId}`;
  expect([...runs]).toEqual([{ state: "stopped" }, { state: "stopped" }]);
  const entries = await api.sql`select is_open from entry where workspace_id = ${workspaceId}`;
  expect([...entries]).toEqual(method === "DELETE" ? [] : [{ is_open: false }, { is_open: false }]);
});
