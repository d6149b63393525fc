/**
 * Revoking a key tells what it scheduled, and cancels that when asked to; what other keys scheduled stays.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type Client, mail } from "../rig/workspace.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine(["api"]);
});
afterAll(() => engine.stop());

const { postrider, json } = commandLine();

async function schedule(client: Client, more: object = {}): Promise<string> {
  const scheduled = mail({ scheduled_at: new Date(Date.now() + 3_600_000).toISOString(), ...more });
  const { status, body } = await client.post<{ id: string }>("/emails", scheduled);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

test("what a revoked key scheduled is told, and canceled with --cancel-scheduled", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 50 });
  const [leaked, kept] = [await ws.key(["emails:send"]), await ws.key(["emails:send"])];
  const planned = [await schedule(leaked.client), await schedule(leaked.client)];
  const others = await schedule(kept.client);
  const atOnce = (await leaked.client.post<{ id: string }>("/emails", mail())).body.id;
  // its time has come, and the cap was full
  const waiting = await schedule(leaked.client);
  await engine.sql`update email set status = 'waiting' where id = ${waiting}`;
  await engine.sql`update due set why = 'cap_hour' where email_id = ${waiting}`;
  await engine.sql`update ledger set waiting = 1 where workspace_id = ${ws.id}`;

  const told = await postrider("key", "revoke", leaked.id);
  expect(told.out).toContain("3 scheduled e-mails sent with it will still go out");
  expect(told.out).toContain(`key revoke ${leaked.id} --cancel-scheduled`);
  expect(await json("key", "revoke", leaked.id)).toEqual({ id: leaked.id, revoked: true, scheduled: 3 });
  const canceled = await json("key", "revoke", leaked.id, "--cancel-scheduled");
  expect(canceled).toEqual({ id: leaked.id, revoked: true, canceled: 3 });

  const rows = await engine.sql<{ id: string; status: string }[]>`
    select id, status from email where workspace_id = ${ws.id}`;
  const statusOf = new Map(rows.map(({ id, status }) => [id, status]));
  for (const id of [...planned, waiting]) expect(statusOf.get(id)).toBe("canceled");
  expect(statusOf.get(others)).toBe("scheduled");
  expect(statusOf.get(atOnce)).toBe("accepted");
  const [ledger] = await engine.sql`select waiting from ledger where workspace_id = ${ws.id}`;
  expect(ledger).toEqual({ waiting: 0 });
  const { body } = await ws.client.get<{ events: { type: string; detail?: string }[] }>(
    `/emails/${planned[0]}`,
  );
  expect(body.events.at(-1)).toMatchObject({
    type: "canceled",
    detail: "canceled with the key that scheduled it",
  });
});
