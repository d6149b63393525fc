/**
 * Between two cells: what meets the switch of a workspace is done or refused, and nothing earlier replaces
 * what is later.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Links } from "../../src/audience/links.ts";
import { dropFence, raiseFence } from "../../src/record/cells/fence.ts";
import {
  arrive,
  type Copied,
  catchUp,
  copyStep,
  handOver,
  noteArriving,
  noteLeaving,
} from "../../src/record/cells/moves.ts";
import { workspaceTables } from "../../src/record/cells/tables.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { heldUntilItArrived, openCells, startApiOf, type TwoCells } from "../rig/cells.ts";
import { type Engine, SERVER_SECRET } from "../rig/engine.ts";
import { isTakenBack, switchOver } from "../rig/moves.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 20_000, interval: 20 };
let cells: TwoCells;
let engine: Engine;
/** Of the other cell, beside the connections that write there. */
let watcher: Sql;
beforeAll(async () => {
  cells = await openCells();
  engine = await startApiOf(cells);
  watcher = connectRecord(cells.other.databaseUrl, "setup", 5_000);
});
afterAll(async () => {
  await engine.stop();
  await watcher.end({ timeout: 1 });
  await cells.close();
});

const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();

async function scheduled({ client }: TestWorkspace): Promise<string> {
  const { status, body } = await client.post<{ id: string }>("/emails", mail({ scheduled_at: inAnHour() }));
  expect(status).toBe(200);
  return body.id;
}

/** All of it is copied to the other cell, and what changes from now on is noted. */
async function copied(workspace: TestWorkspace) {
  const { home, other } = cells;
  const run = { workspaceId: workspace.id, id: randomUUID() };
  const move = { ...run, handle: workspace.handle };
  const tables = await workspaceTables(home.sql);
  expect(await noteLeaving(home.sql, { ...move, cell: other.name })).toBe(true);
  await noteArriving(other.sql, { ...move, cell: home.name }, home.sql);
  await raiseFence(other.sql, tables, move);
  await raiseFence(home.sql, tables, move);
  for (let done: Copied | null = null; !(done && "isWhole" in done); )
    done = await copyStep(home.sql, other.sql, tables, { ...run, copied: done });
  return { run, move, tables };
}

/** Statements of the api that wait for a lock. */
async function waiters(sql: Sql): Promise<number> {
  const rows = await sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  return rows.length;
}

test("a cancel that waits for the ledger while its workspace leaves is not answered as done", async () => {
  const workspace = await cells.home.workspace(engine.url);
  const { sql } = cells.home;
  const id = await scheduled(workspace);
  let canceling: Promise<{ status: number }> | null = null;
  await sql.begin(async (tx) => {
    await tx`select from ledger where workspace_id = ${workspace.id} for update`;
    canceling = workspace.client.post(`/emails/${id}/cancel`);
    await expect.poll(() => waiters(engine.sql), POLL).toBe(1);
    // as the switch does it
    await tx`delete from ledger where workspace_id = ${workspace.id}`;
  });
  expect(await canceling).toMatchObject({ status: 404 });
  const [email] = await sql`select status from email where id = ${id}`;
  expect(email?.status).toBe("scheduled");
});

test("a switch that took too long has written all that it will, when it says so", async () => {
  const { home, other } = cells;
  const workspace = await home.workspace(engine.url);
  const id = await scheduled(workspace);
  const { run, tables } = await copied(workspace);
  await other.sql.unsafe(`
    create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.4); return new; end $$;
    create trigger slow before insert on due for each row execute function slow();
    alter table due enable always trigger slow;
    create trigger slow before insert on email for each row execute function slow();
    alter table email enable always trigger slow`);

  await workspace.client.call("PATCH", `/emails/${id}`, { scheduled_at: inAnHour() });
  await expect(handOver(home.sql, other.sql, tables, { ...run, cell: other.name })).rejects.toSatisfy(
    isTakenBack,
  );
  const writing = await watcher`
    select query from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and state <> 'idle' and pid <> pg_backend_pid()`;
  expect(writing).toEqual([]);

  expect((await workspace.client.post(`/emails/${id}/cancel`)).status).toBe(200);
  await other.sql`drop function slow() cascade`;
  await catchUp(home.sql, other.sql, tables, run);
  const [email] = await other.sql`select status from email where id = ${id}`;
  expect(email?.status).toBe("canceled");
  expect(await other.sql`select from due where workspace_id = ${workspace.id}`).toHaveLength(0);
});

test("who pressed the button of a link just after the switch is unsubscribed in the new cell", async () => {
  const { home, other } = cells;
  const workspace = await home.workspace(engine.url);
  const { client, id: workspaceId } = workspace;
  const audience = await client.post<{ id: string }>("/audiences", { name: "Readers" });
  const audienceId = audience.body.id;
  const path = `/audiences/${audienceId}/contacts`;
  const contact = await client.post<{ id: string }>(path, { email: "ann@example.net" });
  const contactId = contact.body.id;
  const link = new Links(SERVER_SECRET, engine.url).unsubscribeUrl({ workspaceId, audienceId, contactId });
  expect((await fetch(link)).status).toBe(200);

  const { run, move, tables } = await copied(workspace);
  await switchOver(cells, tables, run);
  const pressed = heldUntilItArrived(() =>
    fetch(link, { method: "POST", body: "List-Unsubscribe=One-Click" }),
  );
  await arrive(other.sql, workspaceId);
  await dropFence(other.sql, tables, move);
  expect((await pressed).status).toBe(200);
  expect(await other.sql`select status from contact where id = ${contactId}`).toEqual([
    { status: "unsubscribed" },
  ]);
});
