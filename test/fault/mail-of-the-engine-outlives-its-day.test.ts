/**
 * The id of the engine's own mail is dated by what caused it. Retention may have dropped that day when the
 * mail is written: it is written all the same, and once.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { DAY_MS } from "../../src/clock.ts";
import { derivedId, newId, timeOfId } from "../../src/ids.ts";
import { dayName, makePartitions } from "../../src/record/db/partitions.ts";
import type { NewEmail } from "../../src/record/mail/emails.ts";
import { insertWebhook } from "../../src/record/outbox/webhooks.ts";
import { letGoOn } from "../../src/record/workspaces/suspension.ts";
import { insertOwner } from "../../src/record/workspaces/workspaces.ts";
import type { SubmitOwn } from "../../src/submit.ts";
import { tellOwners } from "../../src/webhooks/tell.ts";
import { type Flows, type Shop, startFlows, told } from "../rig/flows.ts";

const LEASE_MS = 20_000;
const RETRY_MS = 5_000;

let flows: Flows;
let shop: Shop;
let automationId: string;
beforeAll(async () => {
  flows = await startFlows();
});
afterAll(() => flows.stop());
beforeEach(async () => {
  await makePartitions(flows.sql, flows.clock.now());
  shop = await flows.shop();
  automationId = await shop.automate({ steps: [letter("Welcome")] });
  await shop.contact("ann@example.net");
  await shop.contact("bob@example.net");
});
afterEach(() => expect(flows.faults.splice(0)).toEqual([]));

test("a run that a suspension has held for long goes on, as of today", async () => {
  await shop.track("ann@example.net");
  await suspend(true);
  await flows.go();
  expect(await flows.sql`select is_held, stepped_at from run where workspace_id = ${shop.id}`).toEqual([
    { is_held: true, stepped_at: null },
  ]);
  await days(10, ["body"]);
  await suspend(false);
  await shop.track("bob@example.net");
  await flows.go();
  expect(await steps()).toEqual([["send done"], ["send done"]]);
  expect((await written()).map(({ id }) => dayOf(timeOfId(id)))).toEqual([today(), today()]);
});

test.each([
  ["its body", ["body"]],
  ["its row", ["email"]],
  ["both", ["body", "email"]],
] as const)("a step is taken once although the day it was begun has lost %s", async (_, tables) => {
  await shop.track("ann@example.net");
  await dying((_submit) => async () => {
    throw new Error("the disk is nearly full");
  });
  await days(10, tables);
  await shop.track("bob@example.net");
  await flows.go();
  expect(await steps()).toEqual([["send done"], ["send done"]]);
  expect(await written()).toHaveLength(2);
  const [ann] = await shop.runs(automationId);
  expect(ann?.steps[0]?.detail).toBe((await written())[0]?.id);
});

test("a mail of which the answer was lost is written once, also when its body and later its next day are gone", async () => {
  await shop.track("ann@example.net");
  await dying(lostAnswer);
  expect(await written()).toHaveLength(1);
  await days(10, ["body"]);
  await flows.go();
  expect(await steps()).toEqual([["send done"]]);
  expect(await written()).toHaveLength(1);

  // begun, and not written: then written on the first day that is left, and the answer is lost
  await shop.track("bob@example.net");
  await dying((_submit) => async () => {
    throw new Error("the disk is nearly full");
  });
  await days(10, ["body"]);
  await dying(lostAnswer);
  const bob = (await written()).at(-1);
  expect(await written()).toHaveLength(2);
  // the day on which it was written goes as well
  await days(8, ["body"], dayOf(timeOfId(bob?.id as string)));
  await flows.go();
  expect(await steps()).toEqual([["send done"], ["send done"]]);
  expect(await written()).toHaveLength(2);
  expect((await shop.runs(automationId))[1]?.steps[0]?.detail).toBe(bob?.id);
});

test("whoever is stopped until the day that was chosen has gone writes nothing, and another writes one mail", async () => {
  const { id: workspaceId, handle } = await handleOf();
  const submitOwn = await submitter();
  const emails = [mailOf(workspaceId, derivedId(flows.clock.now(), "a cause"))];
  let stopped: Promise<unknown> = Promise.resolve();
  await flows.sql.begin(async (tx) => {
    await tx`select from ledger where workspace_id = ${workspaceId} for update`;
    stopped = submitOwn({ workspaceId, handle, bulk: false, emails }).catch((error: unknown) => error);
    const waiting = () => flows.sql`
      select from pg_locks where not granted and locktype in ('transactionid', 'tuple')
        and pid in (select pid from pg_stat_activity where datname = current_database())`;
    await expect.poll(waiting).not.toHaveLength(0);
    await days(3, ["body"]);
  });
  expect(await stopped).toMatchObject({ lacking: "partition" });
  expect(await written()).toHaveLength(0);
  await submitOwn({ workspaceId, handle, bulk: false, emails });
  await submitOwn({ workspaceId, handle, bulk: false, emails });
  expect(await written()).toHaveLength(1);
});

test("whatever its cause, such mail is written, and its repetition is known by the id it got", async () => {
  const submitted: string[] = [];
  const causes = ["TLS report of yesterday", "a confirmation that was asked for", "an endpoint that fails"];
  const asked = flows.clock.now();
  const submitOwn = await submitter();
  await days(3, ["body"]);
  for (const cause of [...causes, ...causes]) {
    const { id: workspaceId, handle } = await handleOf();
    const emails = [mailOf(workspaceId, derivedId(asked, cause))];
    const answer = await submitOwn({ workspaceId, handle, bulk: false, emails });
    if (answer.kind === "written") submitted.push(...answer.ids);
  }
  expect(submitted).toHaveLength(6);
  expect(submitted.slice(3)).toEqual(submitted.slice(0, 3));
  expect((await written()).map(({ id }) => id).sort()).toEqual(submitted.slice(0, 3).sort());
});

test("an owner is told once that an endpoint fails, also when the answer was lost before midnight", async () => {
  const { id: workspaceId } = await handleOf();
  const owner = { id: newId(0), workspaceId, email: "owner@example.net", passwordHash: "" };
  await insertOwner(flows.sql, owner, new Date());
  const webhook = {
    workspaceId,
    id: newId(0),
    endpoint: "https://a.example/",
    events: null,
    publicKey: null,
  };
  await insertWebhook(flows.sql, { ...webhook, secrets: Buffer.alloc(1) }, 50, new Date());
  await flows.sql`
    update webhook set failures = 9, failing_since = ${new Date(flows.clock.now() - 2 * DAY_MS)} where id = ${webhook.id}`;
  const submitOwn = await submitter();
  const faults: unknown[] = [];
  const onFault = (error: unknown) => void faults.push(error);
  const parts = { sql: flows.sql, from: "Operator <ops@example.com>", onFault };
  await tellOwners({ ...parts, write: lostAnswer(submitOwn) }, flows.clock.now());
  expect(faults).toHaveLength(1);
  await days(1, []);
  await tellOwners({ ...parts, write: submitOwn }, flows.clock.now());
  expect(faults).toHaveLength(1);
  const told = await flows.sql`select told_by as id from webhook where id = ${webhook.id}`;
  expect(await written()).toEqual(told);
});

function letter(subject: string) {
  return { send: { from: "Shop <shop@example.com>", subject, html: "<p>Hi</p>" } };
}

function lostAnswer(submitOwn: SubmitOwn): SubmitOwn {
  return async (mail) => {
    await submitOwn(mail);
    throw new Error("no answer");
  };
}

/** A worker that takes up what is due, and of which nothing is heard afterwards but that it failed. */
async function dying(around: (submitOwn: SubmitOwn) => SubmitOwn): Promise<void> {
  await flows.newWorker(around).tick();
  flows.faults.splice(0);
  flows.clock.advance(Math.max(LEASE_MS, RETRY_MS));
}

async function submitter(): Promise<SubmitOwn> {
  let found: SubmitOwn | undefined;
  flows.newWorker((submitOwn) => {
    found = submitOwn;
    return submitOwn;
  });
  return found as SubmitOwn;
}

async function suspend(isSuspended: boolean): Promise<void> {
  await flows.sql`update workspace set suspended_at = ${isSuspended ? new Date() : null} where id = ${shop.id}`;
  if (!isSuspended) await flows.sql.begin((tx) => letGoOn(tx, 100));
}

/** Days go by, and retention drops one. */
async function days(many: number, dropped: readonly ("body" | "email")[], day = today()): Promise<void> {
  flows.clock.advance(many * DAY_MS);
  await makePartitions(flows.sql, flows.clock.now());
  for (const table of dropped) await flows.sql.unsafe(`drop table ${table}_${dayName(day)}`);
}

function today(): number {
  return dayOf(flows.clock.now());
}

function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

async function steps(): Promise<string[][]> {
  return (await shop.runs(automationId)).map((run) => told(run));
}

async function written() {
  return flows.sql<{ id: string }[]>`
    select id from email where workspace_id = ${shop.id} order by head->'to'->>0`;
}

async function handleOf(): Promise<{ id: string; handle: string }> {
  const [row] = await flows.sql<
    { id: string; handle: string }[]
  >`select id, handle from workspace where id = ${shop.id}`;
  return row as { id: string; handle: string };
}

function mailOf(workspaceId: string, id: string): NewEmail {
  const head = { from: "a@example.com", to: ["b@example.net"], cc: [], bcc: [], reply_to: [], subject: "s" };
  return {
    ...{ workspaceId, id, keyId: null, bulk: false, stream: "", head: JSON.stringify(head) },
    ...{ weight: 1, bytes: 100, html: null, plain: "Hello", extra: null, scheduledAt: null },
  };
}
