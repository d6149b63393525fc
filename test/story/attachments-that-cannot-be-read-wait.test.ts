/**
 * What is attached is read when the mail leaves: while it cannot be, the mail waits; when it is gone, the
 * mail fails.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const PATIENCE_MS = 40_000;
let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

const startDelivery = () => startEngine(["deliver", "keeper"], stage);

async function send(ws: TestWorkspace, content: string): Promise<string> {
  const attachments = [{ filename: "a.txt", content: Buffer.from(content).toString("base64") }];
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail({ attachments }));
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

test("read too late, it leaves when it can be read", async () => {
  const ws = await engine.workspace("pro");
  const id = await send(ws, "locked away");
  const other = connectRecord(stage.databaseUrl, "setup", PATIENCE_MS);
  let unlock = () => {};
  const locked = new Promise<void>((resolve, reject) => {
    other
      .begin(async (tx) => {
        await tx`lock table attachment in access exclusive mode`;
        const isEnough = new Promise<void>((enough) => {
          unlock = enough;
        });
        resolve();
        await isEnough;
      })
      .catch(reject);
  });
  await locked;
  const delivery = await startDelivery();
  const waiting = async () =>
    (await engine.sql`select reply from due where workspace_id = ${ws.id} and email_id = ${id}`)[0];
  await expect
    .poll(waiting, { timeout: PATIENCE_MS })
    .toMatchObject({ reply: expect.stringMatching(/^its attachments could not be read: /) });
  unlock();
  expect(await settled(engine.sql, ws.id, PATIENCE_MS)).toEqual({ delivered: 1 });
  const { body } = await ws.client.get<{ events: { type: string }[] }>(`/emails/${id}`);
  expect(body.events.map((event) => event.type)).toEqual(["queued", "sent", "delivered"]);
  await Promise.all([delivery.stop(), other.end()]);
});

test("gone, it fails and says so", async () => {
  const ws = await engine.workspace("pro");
  const id = await send(ws, "lost");
  await engine.sql`delete from attachment where workspace_id = ${ws.id}`;
  const delivery = await startDelivery();
  expect(await settled(engine.sql, ws.id, PATIENCE_MS)).toEqual({ failed: 1 });
  const { body } = await ws.client.get<{ events: object[] }>(`/emails/${id}`);
  expect(body.events).toContainEqual(
    expect.objectContaining({
      type: "failed",
      detail: "The e-mail could not be composed: the content of a.txt is gone",
    }),
  );
  await delivery.stop();
});
