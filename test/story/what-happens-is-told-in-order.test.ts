import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const TIMEOUT_MS = 15_000;

type Told = {
  sequence: number;
  id: string;
  type: string;
  created_at: string;
  data: {
    email_id?: string;
    id?: string;
    to?: string[];
    recipient?: string;
    detail?: string;
    email?: string;
  };
};
type Log = { object: "list"; data: Told[]; has_more: boolean };

let stage: Stage;
let engine: Engine;
let listening: TestWorkspace;
let silent: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "keeper"], stage);
  [listening, silent] = [await engine.workspace(), await engine.workspace()];
  await engine.sql`update workspace set logs_events = true where id = ${listening.id}`;
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

async function read(workspace: TestWorkspace, query = ""): Promise<Log> {
  const { status, body } = await workspace.client.get<Log>(`/events/log${query}`);
  expect(status).toBe(200);
  return body;
}

/** All that was told of one e-mail or contact, once the last of it is there. */
async function toldOf(id: string, last: string): Promise<Told[]> {
  return expect
    .poll(
      async () => {
        const { data } = await read(listening, "?limit=1000");
        const own = data.filter(({ data: { email_id, id: contact } }) => [email_id, contact].includes(id));
        return own.at(-1)?.type === last ? own : null;
      },
      { timeout: 15_000, interval: 50 },
    )
    .not.toBeNull()
    .then(async () =>
      (await read(listening, "?limit=1000")).data.filter(({ data: { email_id, id: contact } }) =>
        [email_id, contact].includes(id),
      ),
    );
}

test("an e-mail is told of from its acceptance to its end, without gaps", async () => {
  const { body } = await listening.client.post<{ id: string }>(
    "/emails",
    mail({ to: "refuse-550@example.net" }),
  );
  const told = await toldOf(body.id, "email.bounced");
  expect(told.map(({ type }) => type)).toEqual(["email.accepted", "email.sent", "email.bounced"]);
  expect(told[2]?.data).toMatchObject({ email_id: body.id, recipient: "refuse-550@example.net" });
  expect(told[2]?.data.detail).toContain("550");
});

test("a scheduled e-mail that is canceled is told of", async () => {
  const { body } = await listening.client.post<{ id: string }>(
    "/emails",
    mail({ scheduled_at: new Date(Date.now() + 3_600_000).toISOString() }),
  );
  await listening.client.post(`/emails/${body.id}/cancel`, {});
  expect((await toldOf(body.id, "email.canceled")).map(({ type }) => type)).toEqual([
    "email.scheduled",
    "email.canceled",
  ]);
});

test("contacts are told of, and one that is gone without its address", async () => {
  const audience = await listening.client.post<{ id: string }>("/audiences", { name: "People" });
  const path = `/audiences/${audience.body.id}/contacts`;
  const email = `${randomUUID()}@example.net`;
  const { body } = await listening.client.post<{ id: string }>(path, { email });
  await listening.client.call("PATCH", `${path}/${body.id}`, { first_name: "Ada" });
  expect((await toldOf(body.id, "contact.updated")).at(-1)?.data).toMatchObject({ email });
  await listening.client.call("DELETE", `${path}/${body.id}`);
  const told = await toldOf(body.id, "contact.deleted");
  expect(told.map(({ type }) => type)).toEqual(["contact.created", "contact.updated", "contact.deleted"]);
  expect(JSON.stringify(told)).not.toContain(email);
});

test("a workspace that does not listen costs no row", async () => {
  await silent.client.post("/emails", mail());
  expect((await read(silent)).data).toEqual([]);
  expect(await engine.sql`select from outbox where workspace_id = ${silent.id}`).toEqual([]);
});

test("a reader goes on where it was, and pages are whole", async () => {
  await listening.client.post("/emails/batch", Array(30).fill(mail()));
  await expect
    .poll(async () => (await read(listening, "?limit=1000")).data.length, { timeout: 15_000 })
    .toBeGreaterThanOrEqual(90);
  const all = (await read(listening, "?limit=1000")).data.map(({ sequence }) => sequence);
  expect(all).toEqual(all.map((_, n) => n + 1));
  const paged: number[] = [];
  for (let after = 0; ; after = paged.at(-1) as number) {
    const page = await read(listening, `?after=${after}&limit=7`);
    paged.push(...page.data.map(({ sequence }) => sequence));
    if (!page.has_more) break;
  }
  expect(paged.slice(0, all.length)).toEqual(all);
});

test("what is asked for wrongly is refused", async () => {
  for (const query of ["?after=-1", "?after=x", "?limit=0", "?limit=1001"]) {
    const { status } = await listening.client.get(`/events/log${query}`);
    expect(status, query).toBe(422);
  }
});

test("a slow transaction is told of when it is there, behind what was faster, and nothing slips in before", async () => {
  const workspace = await engine.workspace();
  await engine.sql`update workspace set logs_events = true where id = ${workspace.id}`;
  const tell = (type: string) => ({
    workspace_id: workspace.id,
    at: new Date(),
    type,
    subject_id: newId(Date.now()),
  });
  const told = async () => (await read(workspace)).data.map((one) => [one.sequence, one.type]);
  let commitSlow = (): void => {};
  const slowMayEnd = new Promise<void>((resolve) => {
    commitSlow = resolve;
  });
  let slowWrote = (): void => {};
  const written = new Promise<void>((resolve) => {
    slowWrote = resolve;
  });
  const other = connectRecord(stage.databaseUrl, "setup", TIMEOUT_MS);
  const slow = other.begin(async (tx) => {
    const { workspace_id, at, type, subject_id } = tell("email.sent");
    await tx`insert into outbox (workspace_id, at, type, subject_id) values (${workspace_id}, ${at}, ${type}, ${subject_id})`;
    slowWrote();
    await slowMayEnd;
  });
  await written;
  const { workspace_id, at, type, subject_id } = tell("email.delivered");
  await engine.sql`insert into outbox (workspace_id, at, type, subject_id) values (${workspace_id}, ${at}, ${type}, ${subject_id})`;
  await expect.poll(told, { timeout: 10_000 }).toEqual([[1, "email.delivered"]]);
  commitSlow();
  await slow;
  await other.end();
  await expect.poll(told, { timeout: 10_000 }).toEqual([
    [1, "email.delivered"],
    [2, "email.sent"],
  ]);
});
