/** From an event to the receiver; and whoever unsubscribes while the mail waits to leave does not get it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { apply } from "../../src/automation/apply.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { runsEnded, settled } from "../rig/settled.ts";
import { openSink, type Sink } from "../rig/sink.ts";

const PATIENCE_MS = 20_000;
let database: OwnDatabase;
let redis: OwnRedis;
let sink: Sink;
let engine: Engine;
beforeAll(async () => {
  [database, redis, sink] = await Promise.all([ownDatabase(), ownRedis(), openSink()]);
  engine = await startEngine(["api", "automate"], { databaseUrl: database.url, redisUrl: redis.url });
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([sink.close(), redis.stop(), database.drop()]);
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
  const delivery = await startEngine(["deliver", "keeper"], {
    databaseUrl: database.url,
    redisUrl: redis.url,
    smtpUrl: sink.url,
  });
  expect(await settled(engine.sql, ws.id, PATIENCE_MS)).toEqual({ delivered: 1, canceled: 1 });
  await delivery.stop();
  const [canceled] = await engine.sql<{ id: string }[]>`
    select id from email where workspace_id = ${ws.id} and status = 'canceled'`;
  const { body } = await ws.client.get<{ to: string[]; events: object[] }>(`/emails/${canceled?.id}`);
  expect(body.to).toEqual(["leaves@example.net"]);
  expect(body.events).toContainEqual(
    expect.objectContaining({ type: "canceled", detail: "The contact is unsubscribed." }),
  );
}, 60_000);
