import { afterAll, beforeAll, expect, test } from "vitest";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Read = {
  status: string;
  attempts: number;
  reason: string | null;
  next_attempt_at: string | null;
  events: { type: string; recipient?: string; detail?: string }[];
};
type View = {
  destinations: { domain: string; count: number; next_attempt_at: string | null }[];
  holds: { destination: string; kind: string; until: string | null; reason: string; waiting: number }[];
};

let stage: Stage;
let engine: Engine;
let shell: CommandLine;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "keeper"], stage);
  shell = commandLine(stage);
  ws = await engine.workspace();
});
afterAll(async () => {
  expect(engine.complaints).toEqual([]);
  await engine.stop();
  await stage.close();
});

const send = async (...to: string[]): Promise<string> =>
  (await ws.client.post<{ id: string }>("/emails", mail({ to }))).body.id;
const read = async (id: string) => (await ws.client.get<Read>(`/emails/${id}`)).body;
/** Workers hear of a suspension within a second or two: what was sent before that is delivered. */
async function sendHeld(...to: string[]): Promise<string> {
  for (;;) {
    const id = await send(...to);
    await expect
      .poll(async () => (await read(id)).status, { timeout: 40_000 })
      .toMatch(/^(deferred|delivered)$/);
    if ((await read(id)).status === "deferred") return id;
  }
}
const becomes = (id: string, expected: Partial<Read>) =>
  expect.poll(() => read(id), { timeout: 40_000 }).toMatchObject(expected);

test("its mail waits without an attempt, says why, and goes when it is resumed; others are not held up", async () => {
  await shell.json("queue", "suspend", "Held.example", "--reason", "their postmaster asked");
  const id = await sendHeld("one@held.example");
  await becomes(id, {
    status: "deferred",
    attempts: 0,
    next_attempt_at: null,
    reason: "Mail to held.example is suspended until an operator resumes it: their postmaster asked.",
  });
  const other = await send("one@free.example");
  await becomes(other, { status: "delivered" });
  const view = await shell.json<View>("queue");
  expect(view.holds).toMatchObject([
    {
      destination: "held.example",
      kind: "suspended",
      until: null,
      reason: "their postmaster asked",
      waiting: 1,
    },
  ]);
  expect(view.destinations).toMatchObject([{ domain: "held.example", count: 1, next_attempt_at: null }]);
  const { out } = await shell.postrider("queue");
  expect(out).toContain("their postmaster asked");
  await shell.json("queue", "resume", "held.example");
  await becomes(id, { status: "delivered", attempts: 1 });
  expect((await shell.json<View>("queue")).holds).toEqual([]);
});

test("a suspension with an end ends by itself", async () => {
  await shell.json("queue", "suspend", "brief.example", "--for", "30m");
  const id = await sendHeld("one@brief.example");
  await becomes(id, { status: "deferred", attempts: 0 });
  const { next_attempt_at, reason } = await read(id);
  const endsAt = Date.parse(next_attempt_at as string);
  expect(endsAt).toBeGreaterThan(Date.now() + 29 * 60_000);
  expect(endsAt).toBeLessThan(Date.now() + 31 * 60_000);
  expect(reason).toMatch(/^Mail to brief\.example is suspended until 20.* UTC: suspended by an operator\.$/);
  await engine.sql`update destination_hold set until = now() + interval '1 second' where destination = 'brief.example'`;
  await becomes(id, { status: "delivered", attempts: 1 });
});

test("of an e-mail to several, the others get theirs", async () => {
  await shell.json("queue", "suspend", "part.example");
  await sendHeld("one@part.example");
  const id = await send("one@part.example", "two@whole.example");
  await becomes(id, { status: "deferred", attempts: 1, next_attempt_at: null });
  await shell.json("queue", "resume", "part.example");
  await becomes(id, { status: "delivered", attempts: 2 });
  expect(stage.sink.ledger.repliesTo("two@whole.example")).toHaveLength(1);
});

test("a suspension survives a restart; what waits for it can be bounced", async () => {
  await shell.json("queue", "suspend", "gone.example", "--reason", "the domain was given up");
  const restarted = await startEngine(["deliver"], stage);
  await engine.stop();
  await restarted.stop();
  engine = await startEngine(["api", "deliver", "keeper"], stage);
  ws = await engine.workspace();
  const id = await send("one@gone.example");
  const both = await send("one@gone.example", "two@stays.example");
  await becomes(id, { status: "deferred", attempts: 0 });
  await becomes(both, { status: "deferred", attempts: 1 });
  const refused = await shell.postrider("queue", "bounce", "gone.example");
  expect(refused).toMatchObject({ status: 1, err: expect.stringContaining("Add --yes to do it.") });
  const args = ["queue", "bounce", "gone.example", "--reason", "the domain was given up", "--yes"];
  expect(await shell.json(...args)).toEqual({ bounced: 2 });
  const bounced = await read(id);
  expect(bounced).toMatchObject({ status: "bounced", reason: "one@gone.example: the domain was given up." });
  await becomes(both, { status: "bounced" });
  expect(
    (await read(both)).events.slice(-2).map(({ type, recipient, detail }) => [type, recipient, detail]),
  ).toEqual([
    ["delivered", "two@stays.example", expect.any(String)],
    ["bounced", "one@gone.example", "the domain was given up"],
  ]);
  await shell.json("queue", "resume", "gone.example");
});

test("the smarthost as a whole can be suspended", async () => {
  await shell.json("queue", "suspend", "smarthost", "--for", "1h");
  const id = await sendHeld("one@any.example");
  await becomes(id, {
    status: "deferred",
    attempts: 0,
    reason: expect.stringContaining("Mail to smarthost is suspended"),
  });
  await shell.json("queue", "resume", "smarthost");
  await becomes(id, { status: "delivered" });
});

test("what is no destination is refused with what to write", async () => {
  const unknown = await shell.postrider("queue", "suspend", "gogle");
  expect(unknown).toMatchObject({
    status: 1,
    err: expect.stringContaining("gogle is neither a domain nor a provider of the shaping file."),
  });
  const free = await shell.postrider("queue", "resume", "free.example");
  expect(free).toMatchObject({ status: 1, err: expect.stringContaining("free.example is not suspended.") });
  const span = await shell.postrider("queue", "suspend", "free.example", "--for", "soon");
  expect(span).toMatchObject({ status: 1, err: expect.stringContaining("30m, 12h or 7d") });
});
