/**
 * Erasing: afterwards the database does not hold the address, whatever was mailed to it and however it was
 * spelt.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { eraseMail } from "../../src/audience/erasure.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { tablesWith } from "../rig/traces.ts";
import { type Client, mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let database: OwnDatabase;
let api: TestApi;
let workspace: TestWorkspace;
let client: Client;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url });
  workspace = await api.workspace();
  client = workspace.client;
});
afterAll(async () => {
  await api.stop();
  await database.drop();
});

type Email = {
  status: string;
  to: string[];
  cc: string[];
  html: string | null;
  events: { type: string; recipient?: string; detail?: string }[];
  delivery_attempts: { recipient: string; host: string | null; reply: string | null }[];
};

const IN_A_DAY = new Date(Date.now() + 86_400_000).toISOString();
const STRUCK = "erased@erased.invalid";

test("contact, consent, mail that was sent and mail that was to go", async () => {
  const audience = await newAudience();
  const address = "Person.To-Forget@Example.NET";
  const contacts = `/audiences/${audience}/contacts`;
  await client.post(contacts, {
    email: address,
    first_name: "Person",
    properties: { alias: "person.to-forget@example.net" },
    consent: { source: "form of person.to-forget@example.net", captured_at: "2026-01-01T00:00:00Z" },
  });
  const sent = await send({ to: address, html: `<p>Dear ${address}</p>`, subject: `For ${address}` });
  const shared = await send({
    to: ["other@example.org"],
    cc: [`Someone <${address}>`],
    scheduled_at: IN_A_DAY,
  });
  const scheduled = await send({ to: address, scheduled_at: IN_A_DAY, headers: { "X-To": address } });
  const untouched = await send({ to: "xperson.to-forget@example.net", html: "<p>Another</p>" });
  await api.sql`
    update email set status = 'bounced', marks = 'b', history = ${api.sql.json([
      { type: "bounced", at: IN_A_DAY, recipient: address, detail: `550 no ${address} here` },
    ])} where id = ${sent}`;

  await client.call("DELETE", `${contacts}/${address}`);
  expect(await erase(audience, address)).toMatchObject({
    status: 200,
    body: { object: "contact", contact: address, deleted: true },
  });

  expect(await tablesWith(api.sql, "[^x]person.to-forget@example.net")).toEqual([]);
  expect(await email(sent)).toMatchObject({ status: "bounced", to: [STRUCK], html: null });
  expect((await email(sent)).events.at(-1)).toEqual({ type: "bounced", at: IN_A_DAY, recipient: STRUCK });
  expect(await email(scheduled)).toMatchObject({ status: "canceled", to: [STRUCK] });
  expect((await email(scheduled)).events).toContainEqual(
    expect.objectContaining({ type: "canceled", detail: "the contact was erased" }),
  );
  const left = await email(shared);
  expect(left).toMatchObject({
    status: "scheduled",
    to: ["other@example.org"],
    cc: ["erased-2@erased.invalid"],
  });
  const [row] = await api.sql`select marks from email where id = ${shared}`;
  expect(row?.marks).toBe("ox");
  expect((await email(untouched)).html).toBe("<p>Another</p>");
  const due = await api.sql`select email_id as id from due where workspace_id = ${workspace.id}`;
  expect(due.map(({ id }) => id)).toEqual([shared]);
});

test("an address that Postgres would not find by itself", async () => {
  const audience = await newAudience();
  const address = "Ünïcode.Straße@bücher.example";
  await client.post(`/audiences/${audience}/contacts`, { email: address });
  const sent = await send({ to: "ÜNÏCODE.STRASSE@xn--bcher-kva.example" });
  const same = await send({ to: "ünïcode.straße@xn--bcher-kva.example" });
  await erase(audience, address);
  expect((await email(same)).to).toEqual([STRUCK]);
  expect((await email(sent)).to).toEqual(["ÜNÏCODE.STRASSE@xn--bcher-kva.example"]);
});

test("an address whose local part was quoted needlessly, or with a backslash", async () => {
  const audience = await newAudience();
  const address = "quoted.person@example.net";
  await client.post(`/audiences/${audience}/contacts`, { email: address });
  const quoted = await send({ to: '"Quoted.Person"@example.net' });
  const escaped = await send({ to: 'A <"quoted\\.person"@example.net>' });
  await erase(audience, address);
  expect((await email(quoted)).to).toEqual([STRUCK]);
  expect((await email(escaped)).to).toEqual([STRUCK]);
});

test("what a receiver said about another recipient, and whose hosts they were", async () => {
  const audience = await newAudience();
  const address = "named@personal.example";
  await client.post(`/audiences/${audience}/contacts`, { email: address });
  const sent = await send({ to: [address, "other@example.org"] });
  const entry = { type: "bounced", at: IN_A_DAY, attempt: "dot 9 mx.personal.example 192.0.2.1" };
  await api.sql`
    update email set status = 'bounced', marks = 'bb', history = ${api.sql.json([
      { ...entry, recipient: address, detail: "550 no" },
      {
        ...entry,
        recipient: "other@example.org",
        attempt: "dot 9 mx.example.org 192.0.2.1",
        detail: "550 Not to <Named@Personal.example>",
      },
    ])} where id = ${sent}`;
  await erase(audience, address);
  expect(await tablesWith(api.sql, "named@personal|mx.personal")).toEqual([]);
  const [, other] = (await email(sent)).delivery_attempts;
  expect(other).toMatchObject({ recipient: "other@example.org", host: "mx.example.org", reply: null });
});

test("what waits for a cap is canceled, and its place is free again", async () => {
  const small = await api.workspace("pro", { cap_hour: 50, cap_day: 50 });
  const audience = (await small.client.post<{ id: string }>("/audiences", { name: "A" })).body.id;
  await small.client.post(`/audiences/${audience}/contacts`, { email: "waits@example.net" });
  for (let n = 0; n < 2; n++)
    await small.client.post(
      "/emails/batch",
      Array.from({ length: 30 }, () => mail({ to: "waits@example.net" })),
    );
  await erase(audience, "waits@example.net", small);
  const [ledger] = await api.sql`select waiting from ledger where workspace_id = ${small.id}`;
  expect(ledger?.waiting).toBe(0);
  const statuses = await api.sql`select distinct status from email where workspace_id = ${small.id}`;
  expect(statuses.map(({ status }) => status)).toEqual(["canceled"]);
});

async function newAudience(): Promise<string> {
  return (await client.post<{ id: string }>("/audiences", { name: "People" })).body.id;
}

/** As the keeper goes on with it where the second that a caller waits is not enough. */
async function erase(audience: string, address: string, { id, client } = workspace) {
  const path = `/audiences/${audience}/contacts/${encodeURIComponent(address)}?mode=erase`;
  const answer = await client.call("DELETE", path);
  while (await eraseMail(api.sql, id, { now: () => Date.now(), given: () => 0 })) {}
  return answer;
}

async function send(more: Record<string, unknown>): Promise<string> {
  const { status, body } = await client.post<{ id: string }>("/emails", mail(more));
  expect(status).toBe(200);
  return body.id;
}

async function email(id: string): Promise<Email> {
  return (await client.get<Email>(`/emails/${id}`)).body;
}
