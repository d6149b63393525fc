/**
 * Deleting an audience of 20,000 looks through the mail of its workspace once, not once per some of its
 * contacts. Who is erased while that is under way is looked for in one more pass, all of them together.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { emptyAudiences, eraseMail } from "../../src/audience/erasure.ts";
import { newId } from "../../src/ids.ts";
import { insertContacts } from "../../src/record/contacts/contacts.ts";
import { beginErasure, insertErasures } from "../../src/record/contacts/erasures.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import type { Contact } from "../../src/rules/contact.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { tablesWith } from "../rig/traces.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const CONTACTS = 20_000;
const EMAILS = 30_000;
/** Every how many e-mails one is to a contact of the audience. */
const EVERY = 3;
const TIMEOUT_MS = 10_000;
const DAY_MS = 86_400_000;
const NOW = new Date();
const clock = { now: () => Date.now(), given: () => 0 };

let database: OwnDatabase;
let api: TestApi;
let sql: Sql;
let workspaceId: string;
const audienceId = newId(Date.now());
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url, timeoutMs: TIMEOUT_MS });
  sql = api.sql;
  workspaceId = (await api.workspace()).id;
  await sql`
    insert into audience (workspace_id, id, name, created_at, deleted_at)
    values (${workspaceId}, ${audienceId}, 'All', ${NOW}, ${NOW})`;
  await insertContacts(
    sql,
    Array.from({ length: CONTACTS }, (_, n) => contact(n)),
  );
  await fill(NOW.getTime());
  await fill(NOW.getTime() - DAY_MS);
});
afterAll(async () => {
  await api.stop();
  await database.drop();
});

test("an audience of 20,000 is one erasure, and nothing of it is left", async () => {
  while (await emptyAudiences(sql, clock)) {}
  expect(await sql`select 1 from contact`).toHaveLength(0);
  expect(await sql`select 1 from audience where not is_default`).toHaveLength(0);
  expect(await sql`select is_begun from erasure`).toEqual([{ is_begun: false }]);
  expect(await count(sql`select count(*)::int as n from erased_address`)).toBe(CONTACTS);

  while (await eraseMail(sql, workspaceId, clock)) {}
  expect(await tablesWith(sql, "gone[0-9]+@")).toEqual([]);
  const struck = sql`select count(*)::int as n from email where head::text like '%erased@erased.invalid%' and status = 'delivered'`;
  expect(await count(struck)).toBe(EMAILS / EVERY);
  const kept = sql`select count(*)::int as n from body where html is not null`;
  expect(await count(kept)).toBe(EMAILS - EMAILS / EVERY);
  for (const table of ["erasure", "erased_address"])
    expect(await sql`select 1 from ${sql(table)}`).toHaveLength(0);
});

test("whoever is erased while a pass is under way shares the next one", async () => {
  await insertErasures(sql, [{ workspaceId, identity: "first@x.example" }], NOW);
  expect(await beginErasure(sql, null)).toMatchObject({ only: "first@x.example" });
  for (const identity of ["second@x.example", "third@x.example", "second@x.example"])
    await insertErasures(sql, [{ workspaceId, identity }], NOW);
  const passes = await sql`
    select is_begun, array(select identity from erased_address a where a.erasure_id = e.id order by 1) as identities
    from erasure e order by id`;
  expect(passes).toEqual([
    { is_begun: true, identities: ["first@x.example"] },
    { is_begun: false, identities: ["second@x.example", "third@x.example"] },
  ]);
  while (await eraseMail(sql, null, clock)) {}
  expect(await sql`select 1 from erasure`).toHaveLength(0);
});

function contact(n: number): Contact {
  const address = `gone${n}@x.example`;
  return {
    workspaceId,
    audienceId,
    id: newId(Date.now()),
    identity: address,
    email: address,
    firstName: null,
    lastName: null,
    properties: {},
    tags: [],
    status: "subscribed",
    createdAt: NOW,
    updatedAt: NOW,
    archivedAt: null,
  };
}

/** Half of the e-mails, as if they had been sent and settled on that day. */
async function fill(at: number): Promise<void> {
  const ids = Array.from({ length: EMAILS / 2 }, () => newId(at));
  const heads = ids.map((_, n) => {
    const to = n % EVERY === 0 ? `Gone${n}@x.example` : `kept${n}@x.example`;
    return JSON.stringify({ from: "a@x.example", to: [to], cc: [], bcc: [], reply_to: [], subject: "Hi" });
  });
  await sql`
    insert into email (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at, marks)
    select ${workspaceId}, id, false, 'delivered', head::json, 1, 500, now(), now(), 'd'
    from unnest(${ids}::uuid[], ${heads}::text[]) as e(id, head)`;
  await sql`
    insert into body (workspace_id, id, html) select ${workspaceId}, id, '<p>Hi</p>' from unnest(${ids}::uuid[]) as e(id)`;
}

async function count(rows: PromiseLike<readonly { n?: number }[]>): Promise<number | undefined> {
  return (await rows)[0]?.n;
}
