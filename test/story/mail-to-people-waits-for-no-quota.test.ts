/**
 * A link to a new password and an invitation are the operator's mail: they leave whatever the quota and the
 * caps of the workspace say, and a suspended workspace keeps its owner from no account.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { giveDomain, nameDomain } from "../../src/record/workspaces/domains.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser, person, signedIn } from "../rig/people.ts";
import { FAIR } from "../rig/sink.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const SETTINGS = {
  CONSOLE_PORT: "0",
  MAIL_FROM: "Postrider <no-reply@mail.operator.example>",
  RETRY_SCHEDULE: "1",
};
const POLL = { interval: 50 };

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "keeper", "console"], { ...stage, settings: SETTINGS });
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

const receivedBy = (address: string) => stage.sink.ledger.received(1, ({ to }) => to.includes(address));

async function askReset(email: string): Promise<void> {
  expect((await new Browser(engine.consoleUrl).post("reset", { email })).status).toBe(200);
}

/** Nothing has room any more: month and caps are of the same size. */
async function usedUp(): Promise<TestWorkspace> {
  const ws = await engine.workspace("pro", { cap_hour: 50, cap_day: 50, emails_per_month: 50 });
  const batch = Array.from({ length: 50 }, (_, n) => mail({ to: `fill${n}@example.net` }));
  const sent = new Set((await ws.client.send(batch)).map((id) => `${id}@example.com`));
  await stage.sink.ledger.received(sent.size, ({ messageId }) => sent.has(messageId));
  expect((await ws.client.post("/emails", mail())).status).toBe(429);
  return ws;
}

async function ledgerOf(ws: TestWorkspace) {
  const [row] = await engine.sql<{ month: number; day: number; waiting: number }[]>`
    select month_used as month, cap_day_used as day, waiting from ledger where workspace_id = ${ws.id}`;
  return row;
}

/** What stands there got its place in the caps an hour ago. Hands back how much that is. */
async function age(table: "bag" | "due", workspaceId: string, { sql } = engine): Promise<number> {
  const aged = await sql`
    update ${sql(table)} set granted_at = now() - interval '1 hour'
    where workspace_id = ${workspaceId} and granted_at is not null returning 1`;
  return aged.length;
}

test("a link to a new password leaves where month and caps are used up, and takes nothing of the month", async () => {
  const ws = await usedUp();
  const { email } = await person(engine.sql, ws.id);
  await askReset(email);
  await receivedBy(email);
  // what receivers were sent counts for the caps, which have nothing left for others
  expect(await ledgerOf(ws)).toEqual({ month: 50, day: 51, waiting: 0 });
  expect((await ws.client.post("/emails", mail())).status).toBe(429);
});

test("an invitation does, too", async () => {
  const ws = await usedUp();
  const owner = await signedIn(engine.consoleUrl, engine.sql, ws.id);
  const invited = { email: "new.colleague@example.net", role: "member" };
  expect((await owner.post("members", invited)).status).toBe(201);
  await receivedBy(invited.email);
  expect(await ledgerOf(ws)).toEqual({ month: 50, day: 51, waiting: 0 });
});

test("a receiver that wants to be asked again makes it ask for no place in the caps", async () => {
  const ws = await usedUp();
  const { email } = await person(engine.sql, ws.id);
  stage.sink.weather = { ...FAIR, deferPercent: 100 };
  await askReset(email);
  await expect.poll(() => age("due", ws.id), POLL).toBe(1);
  stage.sink.weather = FAIR;
  await receivedBy(email);
  expect((await ledgerOf(ws))?.waiting).toBe(0);
});

test("who belongs to suspended workspaces only, or to none, is written to from an operator's workspace", async () => {
  const [ws, house] = [await engine.workspace(), await engine.workspace()];
  const { id: operator } = await person(engine.sql, house.id);
  await engine.sql`update account set is_operator = true where id = ${operator}`;
  const [held, alone] = [await person(engine.sql, ws.id), await person(engine.sql, ws.id)];
  await engine.sql`delete from member where account_id = ${alone.id}`;
  await engine.keyring.suspend(ws.id, "phishing");
  for (const { email } of [held, alone]) {
    await askReset(email);
    await receivedBy(email);
  }
  const [sent] = await engine.sql<{ n: number }[]>`
    select count(*)::int as n from email where workspace_id = ${house.id}`;
  expect(sent?.n).toBe(2);
});

test("the workspace of the sender's domain writes it where there is one: there it is signed", async () => {
  const [ws, house] = [await engine.workspace(), await engine.workspace()];
  const now = new Date();
  await nameDomain(engine.sql, house.id, "operator.example", now);
  await giveDomain(engine.sql, "operator.example", { to: house.id, from: null }, { now, checkAt: now });
  const { email } = await person(engine.sql, ws.id);
  await askReset(email);
  await receivedBy(email);
  const [sent] = await engine.sql<{ workspace: string }[]>`
    select workspace_id as workspace from email where head -> 'to' ->> 0 = ${email}`;
  expect(sent?.workspace).toBe(house.id);
});

test("it outlives a queue that stands still, and is said to be impossible where nobody may write it", async () => {
  const lone = await openStage();
  const door = await startEngine(["api", "console"], { ...lone, settings: SETTINGS });
  const ws = await door.workspace("pro", { cap_hour: 50, cap_day: 50 });
  const { id, email } = await person(door.sql, ws.id);
  const reset = () => new Browser(door.consoleUrl).post("reset", { email });
  const fill = Array.from({ length: 50 }, (_, n) => mail({ to: `fill${n}@example.net` }));
  expect((await ws.client.post("/emails/batch", fill)).status).toBe(200);
  await reset();
  await expect.poll(() => age("bag", ws.id, door), POLL).toBe(2);
  const worker = await startEngine(["deliver", "keeper"], { ...lone, settings: SETTINGS });
  await lone.sink.ledger.received(1, ({ to }) => to.includes(email));
  await worker.stop();

  await door.keyring.suspend(ws.id, "phishing");
  expect((await reset()).status).toBe(200);
  await expect.poll(() => door.complaints.length, POLL).toBe(1);
  const said = JSON.stringify(door.complaints);
  expect(said).toContain(id);
  expect(said).toContain("postrider account password");
  await door.stop();
  await lone.close();
});
