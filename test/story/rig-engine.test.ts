/** The rig's engine answers over HTTP, and its mail arrives at the sink. */
import { afterEach, expect, test } from "vitest";
import { startEngine } from "../rig/engine.ts";
import { startProcess } from "../rig/process.ts";
import { openStage } from "../rig/stage.ts";
import { Client, mail } from "../rig/workspace.ts";

/** Far above need: what these tests are about is not held back. */
const CAPS = { cap_hour: 1_000_000, cap_day: 1_000_000 };

const running: { stop(): Promise<unknown> }[] = [];

afterEach(async () => {
  for (const one of running.splice(0).reverse()) await one.stop();
});

test("a fresh workspace sends with its key, others are not known", async () => {
  const engine = await startEngine();
  running.push(engine);
  const { client } = await engine.workspace("pro", CAPS);
  const sent = await client.post<{ id: string }>("/emails", mail());
  expect(sent.status).toBe(200);
  expect(await client.get(`/emails/${sent.body.id}`)).toMatchObject({
    status: 200,
    body: { subject: "Order 1" },
  });
  expect((await new Client(engine.url, "pr_live_unknown").post("/emails", mail())).status).toBe(401);
  expect(engine.complaints).toEqual([]);
});

test("with stores of its own and a sink it delivers", async () => {
  const stage = await openStage();
  running.push({ stop: stage.close });
  const engine = await startEngine(["api", "deliver"], stage);
  running.push(engine);
  const { client } = await engine.workspace("pro", CAPS);
  const sent = await client.post<{ data: { id: string }[] }>("/emails/batch", Array(100).fill(mail()));
  expect(sent.body.data).toHaveLength(100);
  await stage.sink.ledger.received(100);
  expect(stage.sink.ledger.faults).toEqual([]);
});

test("a worker in a process of its own is killed, and the next one delivers what it left", async () => {
  const stage = await openStage();
  running.push({ stop: stage.close });
  const [engine, first] = await Promise.all([
    startEngine(["api", "keeper"], stage),
    startProcess(["deliver"], stage),
  ]);
  running.push(engine);
  await first.kill();
  const { client } = await engine.workspace("pro", CAPS);
  await client.post("/emails", mail());
  running.push(await startProcess(["deliver"], stage));
  await stage.sink.ledger.received(1);
});
