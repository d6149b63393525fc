import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const EVENTS = 3_000;
/**
 * Under way on all connections of an endpoint, and answered but not written down yet: 12 for each of them.
 */
const REPEATED_MAX = 32 * 12;

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
let workspace: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  receiver = await openReceiver();
  engine = await startEngine(["api"], { ...stage, settings: TO_LOOPBACK });
  workspace = await engine.workspace();
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
});

test("what a killed worker had under way is sent again under the same ids by another, and nothing else", async () => {
  const { body } = await workspace.client.post<{ id: string }>("/webhooks", { endpoint: receiver.url() });
  const subjects = Array.from({ length: EVENTS / 3 }, () => newId(Date.now()));
  for (const type of ["email.accepted", "email.sent", "email.delivered"])
    await engine.sql`
      insert into outbox (workspace_id, at, type, subject_id)
      select ${workspace.id}, now(), ${type}, id from unnest(${subjects}::uuid[]) as s(id)`;
  const first = await startProcess(["webhooks"], { ...stage, settings: TO_LOOPBACK });
  await receiver.until(({ heard }) => heard.length > EVENTS / 3, 60_000);
  await first.kill();
  const second = await startProcess(["webhooks"], { ...stage, settings: TO_LOOPBACK });
  const ids = () => new Set(receiver.heard.map(({ headers }) => headers["webhook-id"]));
  await receiver.until(() => ids().size === EVENTS, 90_000);
  await expect
    .poll(() => engine.sql`select from webhook where id = ${body.id} and cursor = ${EVENTS}`, {
      timeout: 20_000,
    })
    .toHaveLength(1);
  await second.stop();
  expect(receiver.heard.length - EVENTS).toBeLessThanOrEqual(REPEATED_MAX);
  // the order of each e-mail holds, repetitions left out
  const orders = new Map<string, string[]>();
  const seen = new Set<unknown>();
  for (const { headers, event } of receiver.heard) {
    if (seen.has(headers["webhook-id"])) continue;
    seen.add(headers["webhook-id"]);
    const id = String(event.data.email_id);
    orders.set(id, [...(orders.get(id) ?? []), event.type]);
  }
  for (const order of orders.values())
    expect(order).toEqual(["email.accepted", "email.sent", "email.delivered"]);
}, 240_000);
