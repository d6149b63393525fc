import { afterAll, beforeAll, expect, test } from "vitest";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type View = {
  bags: { in_line: number; held_back: number; leased: number; oldest: string | null };
  emails: { in_bags: number; in_flight: number; scheduled: number; waiting: number; deferred: number };
  replies: { reply: string; count: number }[];
  destinations: { domain: string; count: number; next_attempt_at: string; last_reply: string }[];
};
type Read = {
  status: string;
  last_event: string;
  attempts: number;
  next_attempt_at: string | null;
  events: { type: string; detail?: string }[];
};
type Finding = { what: string; state: string; detail: string };

let stage: Stage;
let engine: Engine;
let shell: CommandLine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "keeper"], stage);
  shell = commandLine(stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

async function send(ws: TestWorkspace, ...recipients: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const to of recipients)
    ids.push((await ws.client.post<{ id: string }>("/emails", mail({ to }))).body.id);
  return ids;
}

const read = async (ws: TestWorkspace, id: string) => (await ws.client.get<Read>(`/emails/${id}`)).body;
const isDeferred = (ws: TestWorkspace, id: string) =>
  expect.poll(async () => (await read(ws, id)).status, { timeout: 45_000 }).toBe("deferred");

test("deferred mail by destination, with the last reply; retried at once, or given up", async () => {
  const ws = await engine.workspace();
  const ids = await send(
    ws,
    "defer-451@grey.example",
    "Defer-451@grey.example",
    "defer-452@full.example",
    "fine@ok.example",
  );
  for (const id of ids.slice(0, 3)) await isDeferred(ws, id);
  const view = await shell.json<View>("queue");
  expect(view.emails.deferred).toBe(3);
  expect(view.destinations).toMatchObject([
    { domain: "grey.example", count: 2, last_reply: expect.stringContaining("greylisted") },
    { domain: "full.example", count: 1, last_reply: expect.stringContaining("452 4.2.2 mailbox full") },
  ]);
  expect(view.replies.map(({ count }) => count)).toEqual([2, 1]);
  for (const { next_attempt_at } of view.destinations)
    expect(Date.parse(next_attempt_at)).toBeGreaterThan(Date.now() + 30_000);
  const { out } = await shell.postrider("queue");
  expect(out).toContain("grey.example");
  expect(out).toContain("452 4.2.2 mailbox full");

  expect(await shell.json("queue", "retry", "--domain", "full.example")).toEqual({ retried: 1 });
  await stage.sink.ledger.replied("defer-452@full.example", 2);
  expect(stage.sink.ledger.repliesTo("defer-451@grey.example")).toHaveLength(2);

  for (const change of ["retry", "cancel"]) {
    const nowhere = await shell.postrider("queue", change, "--workspace", ws.id, "--domain", "");
    expect(nowhere).toMatchObject({ status: 1, err: expect.stringContaining("neither a domain nor") });
  }
  const stranger = await engine.workspace();
  expect(await shell.json("queue", "cancel", "--workspace", stranger.id)).toEqual({ canceled: 0 });
  expect(await shell.json("queue", "cancel", "--workspace", ws.id, "--domain", "grey.example")).toEqual({
    canceled: 2,
  });
  const canceled = await read(ws, ids[0] as string);
  expect(canceled).toMatchObject({ status: "canceled", last_event: "canceled", next_attempt_at: null });
  expect(canceled.events.at(-1)).toMatchObject({ type: "canceled", detail: "canceled by an operator" });
  await isDeferred(ws, ids[2] as string);
  expect((await shell.json<View>("queue")).destinations.map(({ domain }) => domain)).toEqual([
    "full.example",
  ]);
  await shell.json("queue", "cancel", "--workspace", ws.id);
  expect(await settled(engine.sql, ws.id, 20_000)).toEqual({ canceled: 3, delivered: 1 });
});

test("what is under way, what is scheduled, what waits for a cap, and since when", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1 });
  const before = Date.now();
  await send(ws, "hang-after-data@example.net", "waits@example.net");
  await ws.client.post("/emails", mail({ scheduled_at: "in 1 hour" }));
  await expect
    .poll(async () => (await shell.json<View>("queue")).emails, { timeout: 20_000 })
    .toEqual({ in_bags: 1, in_flight: 1, scheduled: 1, waiting: 1, deferred: 0 });
  const { bags } = await shell.json<View>("queue");
  expect(bags).toMatchObject({ in_line: 0, held_back: 0, leased: 1 });
  expect(Date.parse(bags.oldest as string)).toBeGreaterThanOrEqual(before - 1);
});

test("a sender that the smarthost refuses is our trouble: nobody's mail bounces, and an operator is told", async () => {
  const ws = await engine.workspace();
  const { body } = await ws.client.post<{ id: string }>(
    "/emails",
    mail({ from: "mail-from-550-5.7.1@example.com" }),
  );
  await isDeferred(ws, body.id);
  const email = await read(ws, body.id);
  expect(email).toMatchObject({ attempts: 1, last_event: "delivery_delayed" });
  const { replies } = await shell.json<View>("queue");
  expect(replies[0]?.reply).toMatch(/^550 5\.7\.1/);
  expect(engine.complaints.map(({ err }) => err?.message)).toContainEqual(
    expect.stringMatching(/an operator has to act: 550 5\.7\.1/),
  );
  await shell.json("queue", "cancel", "--workspace", ws.id);
});

test("a smarthost that turns us away keeps the mail waiting a sensible while, the doctor says why, and a retry sends it", async () => {
  const ws = await engine.workspace();
  const findings = async () =>
    (JSON.parse((await shell.postrider("doctor", "--json")).out) as Finding[]).find(
      ({ what }) => what === "smarthost",
    );
  expect(await findings()).toMatchObject({ state: "ok" });
  stage.sink.turn({ greetingCode: 554 });
  stage.sink.breakConnections();
  const [id] = (await send(ws, "one@example.net")) as [string];
  expect(await findings()).toMatchObject({ state: "fail", detail: expect.stringMatching(/^greeting: 554/) });
  // as long as the courier waits for a connection
  await isDeferred(ws, id);
  const email = await read(ws, id);
  expect(email).toMatchObject({ attempts: 0, last_event: "delivery_delayed" });
  expect(Date.parse(email.next_attempt_at as string)).toBeGreaterThan(Date.now() + 40_000);
  const { replies } = await shell.json<View>("queue");
  expect(replies.map(({ reply }) => reply)).toContainEqual(expect.stringMatching(/^554/));
  stage.sink.clearUp();
  expect(await shell.json("queue", "retry", "--workspace", ws.id)).toEqual({ retried: 1 });
  expect(await settled(engine.sql, ws.id, 20_000)).toEqual({ delivered: 1 });
});
