/** From an event to the receiver; and whoever unsubscribes while the mail waits to leave does not get it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { apply } from "../../src/automation/apply.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { runsEnded, settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const PATIENCE_MS = 20_000;
let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "automate"], stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

test("of two mails that wait to leave, the one to whom has unsubscribed is canceled", async () => {
  const ws = await engine.workspace("pro");
  const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "All" });
  const document = {
    name: "Welcome",
    audience_id: audience.id,
    event: "signup",
    entry: "once",
    steps: [{ send: { from: "shop@example.com", subject: "Hi", text: "Hi" } }],
  };
  await apply(engine.sql, ws.id, document, Date.now());
  for (const email of ["stays@example.net", "leaves@example.net"]) {
    await ws.client.post(`/audiences/${audience.id}/contacts`, { email });
    await ws.client.post("/events", { audience_id: audience.id, email, name: "signup" });
  }
  expect(await runsEnded(engine.sql, ws.id, PATIENCE_MS)).toEqual({ finished: 2 });
  await ws.client.call("PATCH", `/audiences/${audience.id}/contacts/leaves@example.net`, {
    unsubscribed: true,
  });
  const delivery = await startEngine(["deliver", "keeper"], stage);
  expect(await settled(engine.sql, ws.id, PATIENCE_MS)).toEqual({ delivered: 1, canceled: 1 });
  await delivery.stop();
  const [canceled] = await engine.sql<{ id: string }[]>`
    select id from email where workspace_id = ${ws.id} and status = 'canceled'`;
  const { body } = await ws.client.get<{ to: string[]; events: object[] }>(`/emails/${canceled?.id}`);
  expect(body.to).toEqual(["leaves@example.net"]);
  expect(body.events).toContainEqual(
    expect.objectContaining({ type: "canceled", detail: "The contact is unsubscribed." }),
  );
});
