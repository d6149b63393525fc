/**
 * While a workspace leaves for another cell, whatever comes in by whichever way is done there, and nothing is
 * told wrongly.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hashOf } from "../../src/admission/bearer.ts";
import { Keyring } from "../../src/admission/keyring.ts";
import { Reservations } from "../../src/admission/reserve.ts";
import { Owners } from "../../src/domain/owners.ts";
import { Intake } from "../../src/inbound/intake.ts";
import { Mover, type MovingCell } from "../../src/process/mover.ts";
import { isMoving } from "../../src/record/cells/moving.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { insertReports } from "../../src/record/mail/reports.ts";
import { keyspace } from "../../src/redis/keyspace.ts";
import { openCells, type TwoCells } from "../rig/cells.ts";
import { type Engine, SERVER_SECRET, startEngine } from "../rig/engine.ts";
import { beginToLeave } from "../rig/moves.ts";
import { pause } from "../rig/pause.ts";
import { idIn, loggedIn, submit } from "../rig/submitting.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 20_000, interval: 20 };
/** Longer than ten tries, which are as many as a key has in a second. */
const PAUSE_MS = 600;
const HOOK = { endpoint: "https://hooks.example.com/", events: ["email.sent"] };
let cells: TwoCells;
let engine: Engine;
beforeAll(async () => {
  cells = await openCells();
  const { databaseUrl, redisUrl } = cells.home;
  engine = await startEngine(["api", "submission", "keeper"], {
    ...{ databaseUrl, redisUrl, smtpUrl: "smtp://127.0.0.1:1" },
    settings: { CELLS_FILE: cells.file, SUBMISSION_TLS_PORT: "0" },
  });
});
afterAll(async () => {
  await engine.stop();
  await cells.close();
});

test("a request that is held through the pause counts once for its rate", async () => {
  const workspace = await cells.home.workspace(engine.url, "pro", { requests_per_second: 10 });
  await workspace.client.post("/emails", mail());
  const leaving = await beginToLeave(cells, workspace);
  await leaving.pause(PAUSE_MS);
  const { status, body } = await workspace.client.post("/emails", mail());
  expect(status, JSON.stringify(body)).toBe(200);
});

test("a mail by SMTP whose workspace has left since the login is taken where it is", async () => {
  const workspace = await cells.home.workspace(engine.url);
  const client = await loggedIn(engine.submissionTlsPort, workspace.client.key);
  const leaving = await beginToLeave(cells, workspace);
  await leaving.letGo();
  const submitting = submit(client, "reader@example.net", "From: a@shop.example\nSubject: Hi\n\nHello");
  await leaving.arrive();
  const id = idIn(await submitting);
  expect(await cells.other.sql`select from email where id = ${id}`).toHaveLength(1);
  client.destroy();
});

test("feedback that is accepted is kept where the workspace is", async () => {
  const workspace = await cells.home.workspace(engine.url);
  const { client } = workspace;
  const sent = await client.post<{ id: string }>("/emails", mail());
  const leaving = await beginToLeave(cells, workspace);
  await leaving.letGo();
  const posting = client.post("/feedback", [{ email_id: sent.body.id, type: "bounce" }]);
  await leaving.arrive();
  expect((await posting).status).toBe(202);
  const kept = ({ sql }: { sql: typeof cells.home.sql }) =>
    sql`select from report where workspace_id = ${workspace.id}`;
  expect(await kept(cells.home)).toHaveLength(0);
  expect(await kept(cells.other)).toHaveLength(1);
});

test("a report that meets the fence waits, and is not given up", async () => {
  const workspace = await cells.home.workspace(engine.url);
  const sent = await workspace.client.post<{ id: string }>("/emails", mail());
  await cells.home.sql`
    update email set status = 'delivered', marks = 'd', sent_at = now(), delivered_at = now() where id = ${sent.body.id}`;
  const { sql } = cells.other;
  const leaving = await beginToLeave(cells, workspace);
  const id = randomUUID();
  const said = { type: "bounce", recipient: null, category: "hard", detail: "gone", at: null };
  // as one to an address for all, which names its workspace only when it is read
  await sql`alter table report disable trigger user`;
  const report = {
    id,
    source: "api" as const,
    handle: null,
    workspaceId: workspace.id,
    emailId: sent.body.id,
  };
  await insertReports(sql, [
    { ...report, place: null, network: null, raw: Buffer.from(JSON.stringify(said)) },
  ]);
  const found = async () => (await sql`select tries, result from report where id = ${id}`)[0];
  await expect.poll(async () => (await found())?.tries, POLL).toBeGreaterThan(0);
  await sql`alter table report enable trigger user`;
  expect((await found())?.result).toBeNull();
  await leaving.letGo();
  await leaving.arrive();
  await expect.poll(async () => (await found())?.result, POLL).toBe("bounced");
});

test("a report to who has left costs no other report that came with it", async () => {
  const [workspace, neighbour] = await Promise.all([1, 2].map(() => cells.home.workspace(engine.url)));
  const leaving = await beginToLeave(cells, workspace as TestWorkspace);
  await leaving.letGo();
  const intake = new Intake(cells.home.sql, () => {});
  const keep = ({ handle, id: workspaceId }: TestWorkspace) =>
    intake.keep([
      {
        ...{ id: randomUUID(), source: "return_path", handle, workspaceId, emailId: randomUUID(), place: 0 },
        ...{ network: null, raw: Buffer.from("") },
      },
    ]);
  const kept = await Promise.allSettled([keep(workspace as TestWorkspace), keep(neighbour as TestWorkspace)]);
  expect(kept.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  await leaving.arrive();
});

test("what has left with the workspace is not told to be missing", async () => {
  const workspace = await cells.home.workspace(engine.url);
  const { client } = workspace;
  expect((await client.post("/webhooks", HOOK)).status).toBe(201);
  const leaving = await beginToLeave(cells, workspace);
  await leaving.letGo();
  const listing = client.get<{ data: unknown[] }>("/webhooks");
  const owners = new Owners({ sql: cells.home.sql, isRequired: true, onFault() {} });
  const asking = { workspaceId: workspace.id, version: 1 };
  const refused = await Promise.resolve(owners.refused(asking, ["shop.example"])).catch(isMoving);
  expect(refused).toBe(true);
  await leaving.arrive();
  expect((await listing).body.data).toHaveLength(1);
});

/** Statements that wait for a lock. */
async function waiters(): Promise<number> {
  const rows = await engine.sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  return rows.length;
}

test("who waits for a domain or a webhook that leaves meanwhile is not told that it is done", async () => {
  const { client, id: workspaceId } = await cells.home.workspace(engine.url);
  const hook = await client.post<{ id: string }>("/webhooks", HOOK);
  const domain = await client.post<{ id: string }>("/domains", { name: `${randomUUID()}.example` });
  const { sql } = cells.home;
  for (const [table, id, ask] of [
    ["domain", domain.body.id, () => client.call("DELETE", `/domains/${domain.body.id}`)],
    ["webhook", hook.body.id, () => client.post(`/webhooks/${hook.body.id}/replay`, { failed: true })],
  ] as const) {
    let asking: Promise<{ status: number }> | null = null;
    await sql.begin(async (tx) => {
      await tx`select from ${tx(table)} where workspace_id = ${workspaceId} and id = ${id} for update`;
      asking = ask();
      await expect.poll(waiters, POLL).toBe(1);
      // as the switch does it
      await tx`select set_config('session_replication_role', 'replica', true)`;
      await tx`delete from ${tx(table)} where workspace_id = ${workspaceId}`;
    });
    expect([table, (await asking)?.["status" as never]]).toEqual([table, 404]);
  }
});

test("an abort amid the switch takes nothing away", async () => {
  const workspace = await cells.home.workspace(engine.url);
  const { home, other } = cells;
  const leaving = await beginToLeave(cells, workspace);
  const connections = [other, home].map(({ databaseUrl }) => connectRecord(databaseUrl, "setup", 5_000));
  const opened = [other, home].map(({ name }, n) => ({ name, sql: connections[n] }));
  const mover = new Mover({ cells: opened as MovingCell[], onPhase() {}, wait: pause });
  let aborting: Promise<unknown> = Promise.resolve();
  await leaving.letGo(async (atHome) => {
    aborting = mover.abort(workspace.id).catch((error: unknown) => String(error));
    const waits = () => engine.sql`
      select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%workspace_move%'`;
    await expect.poll(async () => (await Promise.all([waits(), atHome`select`]))[0], POLL).toHaveLength(1);
  });
  expect(await aborting).toContain("Another command");
  await Promise.all(connections.map((one) => one.end({ timeout: 1 })));
  await leaving.arrive();
  expect(await other.sql`select from ledger where workspace_id = ${workspace.id}`).toHaveLength(1);
  expect((await workspace.client.post("/emails", mail())).status).toBe(200);
});

test("a key that is revoked does not come back with the workspace to where it was known", async () => {
  const { home, other } = cells;
  const workspace = await home.workspace(engine.url);
  const { id, handle, keyId, client } = workspace;
  const known = keyspace.apiKey(handle, hashOf(client.key));
  // as an earlier stay leaves it behind, for a minute
  await other.redis.hset(known, { state: "active", until: Date.now() + 60_000 });
  const leaving = await beginToLeave(cells, workspace);
  await engine.keyring.revokeKey(keyId, "operator");
  await leaving.letGo();
  await home.sql`update workspace_move set gone_at = now() - interval '2 min' where workspace_id = ${id}`;
  const clock = { now: Date.now, given: () => 0 };
  const opened = [home, other].map(
    ({ name, sql, redis }): MovingCell => ({
      ...{ name, sql, reservations: new Reservations(redis, sql, clock) },
      keyring: new Keyring({ redis, sql, serverSecret: SERVER_SECRET, clock }),
    }),
  );
  await new Mover({ cells: opened, onPhase() {}, wait: pause }).move(id, other.name);
  expect(await other.redis.hget(known, "state")).toBe("revoked");
});
