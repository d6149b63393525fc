/**
 * A contact is erased while an automation's mail to them is on its way into the record. Either the mail is
 * committed before and the erasure finds it, or it is not written: nothing of the person stays.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Reservations } from "../../src/admission/reserve.ts";
import { eraseMail } from "../../src/audience/erasure.ts";
import type { Clock } from "../../src/clock.ts";
import { newId } from "../../src/ids.ts";
import { deleteContacts, keepContacts } from "../../src/record/contacts/contacts.ts";
import { insertErasures } from "../../src/record/contacts/erasures.ts";
import { connectRecord, type Tx } from "../../src/record/db/connect.ts";
import { type MailCommit, mailCommit } from "../../src/record/mail/commit.ts";
import type { NewEmail } from "../../src/record/mail/emails.ts";
import { ownSubmitter } from "../../src/submit.ts";
import { eventually } from "../rig/eventually.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { tablesWith } from "../rig/traces.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const TIMEOUT_MS = 10_000;
const ADDRESS = "anna@overtaken.example";
const clock: Clock = { now: () => Date.now(), given: () => 0 };

let database: OwnDatabase;
let api: TestApi;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url, timeoutMs: TIMEOUT_MS });
});
afterAll(async () => {
  await api.stop();
  await database.drop();
});

let ws: TestWorkspace;
let contacts: string;
let commit: MailCommit;
beforeEach(async () => {
  ws = await api.workspace();
  const { body } = await ws.client.post<{ id: string }>("/audiences", { name: "People" });
  contacts = `/audiences/${body.id}/contacts`;
  const connect = () => connectRecord(database.url, "commits", TIMEOUT_MS);
  commit = mailCommit({ connect, timeoutMs: TIMEOUT_MS }, () => {}, Buffer.from);
});
afterEach(() => commit.close());

test("mail that comes after the erasure has looked through the mail is not written, and counts nothing", async () => {
  const [anna, bob] = [await add(ADDRESS), await add("bob@kept.example")];
  const emails = [mailTo(anna), mailTo(bob), mailTo(anna)];
  await erase(anna);
  await submit(emails);
  expect(await tablesWith(api.sql, "anna@overtaken")).toEqual([]);
  expect(await kept()).toEqual([{ id: emails[1]?.id, status: "accepted" }]);
  expect(await monthUsed()).toBe(1);
  await submit(emails);
  expect(await monthUsed()).toBe(1);
});

test("an erasure waits for mail that is being committed, and strikes it out", async () => {
  const anna = await add(ADDRESS);
  const email = mailTo(anna);
  let writing: Promise<unknown> | undefined;
  let erasing: Promise<unknown> | undefined;
  await api.sql.begin(async (tx) => {
    await tx`select from ledger where workspace_id = ${ws.id} for update`;
    writing = submit([email]);
    await waitersAre(1);
    erasing = erase(anna);
    await waitersAre(2);
  });
  await Promise.all([writing, erasing]);
  expect(await tablesWith(api.sql, "anna@overtaken")).toEqual([]);
  expect(await kept()).toEqual([{ id: email.id, status: "canceled" }]);
});

test("mail waits for an erasure that is being committed, and is not written after it", async () => {
  const anna = await add(ADDRESS);
  let writing: Promise<unknown> | undefined;
  await api.sql.begin(async (tx) => {
    await deleted(tx, anna);
    writing = submit([mailTo(anna)]);
    await waitersAre(1);
  });
  await writing;
  expect(await kept()).toEqual([]);
});

test("mail waits for an erasure that is being committed, and is written when that fails", async () => {
  const anna = await add(ADDRESS);
  const email = mailTo(anna);
  let writing: Promise<unknown> | undefined;
  const failing = api.sql.begin(async (tx) => {
    await deleted(tx, anna);
    writing = submit([email]);
    await waitersAre(1);
    throw new Error("rolled back");
  });
  await expect(failing).rejects.toThrow("rolled back");
  await writing;
  expect(await kept()).toEqual([{ id: email.id, status: "accepted" }]);
});

test("an erasure of several takes them in the order in which mail does, so that neither waits for the other", async () => {
  const [anna, bob] = [await add(ADDRESS), await add("bob@overtaken.example")];
  const of = ({ id }: Person) => ({ workspaceId: ws.id, id });
  let erasing: Promise<unknown> | undefined;
  await api.sql.begin(async (tx) => {
    await keepContacts(tx, [of(anna)]);
    erasing = api.sql.begin((other) => deleted(other, bob, anna));
    await waitersAre(1);
    expect(await keepContacts(tx, [of(bob)])).toEqual(new Set([bob.id]));
  });
  await erasing;
  expect(await api.sql`select id from contact where workspace_id = ${ws.id}`).toEqual([]);
});

type Person = { id: string; address: string };

async function add(address: string): Promise<Person> {
  const { body } = await ws.client.post<{ id: string }>(contacts, { email: address });
  return { id: body.id, address };
}

/** Answered, and all mail that is there looked through. */
async function erase({ address }: Person): Promise<void> {
  expect((await ws.client.call("DELETE", `${contacts}/${address}?mode=erase`)).status).toBe(200);
  expect(await eraseMail(api.sql, ws.id, clock)).toBe(false);
}

async function deleted(tx: Tx, ...people: Person[]): Promise<void> {
  const erased = people.map(({ id, address }) => ({ workspaceId: ws.id, id, identity: address }));
  const now = new Date();
  await Promise.all([...deleteContacts(tx, erased, now), insertErasures(tx, erased, now)]);
}

function mailTo({ id, address }: Person): NewEmail {
  const head = {
    from: "a@x.example",
    to: [address],
    cc: [],
    bcc: [],
    reply_to: [],
    subject: `For ${address}`,
  };
  return {
    workspaceId: ws.id,
    id: newId(Date.now()),
    keyId: null,
    contactId: id,
    bulk: true,
    stream: "",
    head: JSON.stringify(head),
    weight: 1,
    bytes: 200,
    html: null,
    plain: `Hello ${address}`,
    extra: null,
    scheduledAt: null,
  };
}

async function submit(emails: NewEmail[]): Promise<void> {
  const reservations = new Reservations(api.redis, api.sql, clock);
  const parts = { reservations, commit, reads: api.sql, clock, shortage: () => null, onLag: () => {} };
  const { handle } = ws;
  const submitted = await ownSubmitter(parts)({ workspaceId: ws.id, handle, bulk: true, emails });
  expect(submitted).toEqual({ kind: "written", ids: emails.map(({ id }) => id) });
}

async function kept() {
  return [...(await api.sql`select id, status from email where workspace_id = ${ws.id}`)];
}

async function monthUsed(): Promise<number> {
  const [row] = await api.sql`select month_used from ledger where workspace_id = ${ws.id}`;
  return Number(row?.month_used);
}

function waitersAre(count: number): Promise<void> {
  return eventually(async () => {
    const waiting = await api.sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    expect(waiting).toHaveLength(count);
  });
}
