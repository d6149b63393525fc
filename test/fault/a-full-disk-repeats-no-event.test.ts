/**
 * While Postgres cannot write down which events an endpoint was told, as on a full disk, they are not sent
 * again and again; when it can, the endpoint goes on behind them.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 60_000, interval: 100 };

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
let workspace: TestWorkspace;
beforeAll(async () => {
  [stage, receiver] = await Promise.all([openStage(), openReceiver()]);
  engine = await startEngine(["api", "webhooks"], { ...stage, settings: TO_LOOPBACK });
  workspace = await engine.workspace();
  expect((await workspace.client.post("/webhooks", { endpoint: receiver.url() })).status).toBe(201);
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
});

const cursor = async () => (await engine.sql`select cursor::int from webhook`)[0]?.cursor;

test("what could not be written down is written when the disk has room, and not sent again", async () => {
  await engine.sql.unsafe(`
    create function no_space() returns trigger language plpgsql as $$ begin
      raise exception 'could not extend file: No space left on device' using errcode = '53100';
    end $$;
    create trigger no_space before insert on webhook_attempt execute function no_space()`);
  const ids = await workspace.client.send([mail(), mail(), mail()]);
  await receiver.until(() => receiver.heard.length === ids.length);
  // whoever let go of the endpoint takes it up again when its lease has run out
  const isFree = async () =>
    (await engine.sql`select from webhook where lease_until < clock_timestamp()`).length;
  await expect.poll(isFree, POLL).toBe(1);
  const said = engine.complaints.length;
  await expect.poll(() => engine.complaints.length, POLL).toBeGreaterThan(said + 3);
  expect(receiver.heard.length).toBe(ids.length);
  await engine.sql`drop trigger no_space on webhook_attempt`;
  await expect.poll(cursor, POLL).toBe(ids.length);
  const [next] = await workspace.client.send([mail()]);
  await receiver.until(() => receiver.about(next as string).length > 0);
  expect(receiver.heard.length).toBe(ids.length + 1);
  await expect.poll(cursor, POLL).toBe(ids.length + 1);
});
