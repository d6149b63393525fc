/**
 * 200,000 contacts in one audience, half of them archived: a page, a lookup and an upsert go by the index
 * that leads to their rows. What is explained is what the engine's own functions prepared, as the hot pools
 * plan it.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { lockAudiences } from "../../src/record/contacts/audiences.ts";
import {
  findContact,
  holdContacts,
  insertContacts,
  listContacts,
  updateContacts,
} from "../../src/record/contacts/contacts.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import type { Contact } from "../../src/rules/contact.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const CONTACTS = 200_000;
const CHUNK = 20_000;
const TIMEOUT_MS = 60_000;
const SETUP_MS_MAX = 300_000;
const WORKSPACE = newId(Date.now());
const AUDIENCE = newId(Date.now());
const AT = new Date("2026-01-01T00:00:00Z");
const LARGE = { name: "the large audience", audienceId: AUDIENCE };
/** Its contacts came before those of the large one. */
const SMALL = { name: "a small and old one", audienceId: newId(Date.now()) };
const SMALL_CONTACTS = 50;
const SCOPE = { workspaceId: WORKSPACE, audienceId: AUDIENCE };
/** In the order of the contacts. */
const ids: string[] = [];

let database: OwnDatabase;
let setup: Sql;
beforeAll(async () => {
  database = await ownDatabase();
  setup = connectRecord(database.url, "setup", TIMEOUT_MS);
  await setup`
    insert into workspace (id, handle, name, plan, changed_at, created_at)
    values (${WORKSPACE}, 'large', 'Large', 'pro', ${AT}, ${AT})`;
  await setup`
    insert into audience (workspace_id, id, name, created_at) values (${WORKSPACE}, ${AUDIENCE}, 'All', ${AT})`;
  await insertContacts(
    setup,
    Array.from({ length: SMALL_CONTACTS }, (_, n) => ({
      ...contact(n),
      id: newId(Date.now()),
      audienceId: SMALL.audienceId,
    })),
  );
  ids.length = 0;
  for (let at = 0; at < CONTACTS; at += CHUNK)
    await insertContacts(
      setup,
      Array.from({ length: CHUNK }, (_, n) => contact(at + n)),
    );
  await setup`analyze contact`;
}, SETUP_MS_MAX);
afterAll(async () => {
  await setup.end();
  await database.drop();
});

const FIRST = { after: null, before: null, limit: 20 };
const MIDDLE = CONTACTS / 2;
const byAddress = (n: number) => ({ ...SCOPE, who: { identity: addressOf(n) } });
const byId = (n: number) => ({ ...SCOPE, who: { id: idOf(n) } });

type Asked = {
  what: string;
  ask(sql: Sql): PromiseLike<unknown>;
  /** The condition of the index that leads to the rows. */
  by: RegExp;
  isPage?: boolean;
};
const ASKED: Asked[] = [
  {
    what: "the first page",
    ask: (sql) => listContacts(sql, WORKSPACE, AUDIENCE, FIRST),
    isPage: true,
    by: /ROW\(audience_id, id\) > .*ROW\(audience_id, id\) </,
  },
  {
    what: "a page in the middle",
    ask: (sql) => listContacts(sql, WORKSPACE, AUDIENCE, { ...FIRST, after: idOf(MIDDLE) }),
    isPage: true,
    by: /ROW\(audience_id, id\) > .*ROW\(audience_id, id\) </,
  },
  {
    what: "a page back",
    ask: (sql) => listContacts(sql, WORKSPACE, AUDIENCE, { ...FIRST, before: idOf(MIDDLE) }),
    isPage: true,
    by: /ROW\(audience_id, id\) > .*ROW\(audience_id, id\) </,
  },
  {
    what: "one by its address",
    ask: (sql) => findContact(sql, byAddress(MIDDLE)),
    by: /identity =/,
  },
  {
    what: "one by its id",
    ask: (sql) => findContact(sql, byId(MIDDLE)),
    by: /\bid =/,
  },
  {
    what: "those an upsert may change",
    ask: (sql) => holdContacts(sql, [byAddress(7), byAddress(9)]),
    by: /identity =/,
  },
  {
    what: "those a change by id is of",
    ask: (sql) => holdContacts(sql, [byId(7), byId(9)]),
    by: /\bid =/,
  },
  {
    what: "the change of some",
    ask: (sql) => updateContacts(sql, [contact(7), contact(9)]),
    by: /\bid =/,
  },
  {
    what: "the lock of their audience",
    ask: (sql) => lockAudiences(sql, [SCOPE]),
    by: /\bid =/,
  },
];

describe.each(["none", "half"])("%s archived", (archived) => {
  beforeAll(async () => {
    if (archived === "none") return;
    // the newer half, which a page from the beginning would have to pass
    for (let at = MIDDLE; at < CONTACTS; at += CHUNK)
      await setup`update contact set archived_at = now() where id = any(${ids.slice(at, at + CHUNK)}::uuid[])`;
    await setup`analyze contact`;
  }, SETUP_MS_MAX);

  test.each(ASKED)("$what", async ({ ask, by, isPage }) => {
    // one connection, so that it knows what was prepared, and the settings of the pools that read and commit
    const sql = connectRecord(database.url, "hints", TIMEOUT_MS);
    await ask(sql);
    const nodes = (await plansOf(sql)).flatMap(nodesOf);
    await sql.end();
    const scans = nodes.filter(
      (node) => node["Relation Name"] !== undefined && /Scan/.test(node["Node Type"]),
    );
    expect(scans.map((node) => node["Node Type"])).not.toContain("Seq Scan");
    expect(scans.map((node) => node["Index Cond"]).join("; ")).toMatch(by);
    // the index gives a page in its order: nothing is sorted, so nothing beyond the page is read
    if (isPage) expect(nodes.map((node) => node["Node Type"])).not.toContain("Sort");
  });

  test.each([LARGE, SMALL])("a page of $name reads no more than its rows", async ({ audienceId }) => {
    const sql = connectRecord(database.url, "hints", TIMEOUT_MS);
    await sql`begin`;
    const rows = await listContacts(sql, WORKSPACE, audienceId, FIRST);
    const [{ read = null } = {}] = await sql<{ read: number }[]>`
      select (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as read
      from pg_stat_xact_user_tables where relname = 'contact'`;
    await sql`commit`;
    await sql.end();
    expect(rows).toHaveLength(FIRST.limit + 1);
    expect(read).toBe(FIRST.limit + 1);
  });
});

type Node = {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Index Cond"?: string;
  Plans?: Node[];
};

/** What this connection has prepared, by the plan it would go by for any values. */
async function plansOf(sql: Sql): Promise<Node[]> {
  const prepared = await sql<{ name: string; parameters: number }[]>`
    select name, coalesce(array_length(parameter_types, 1), 0) as parameters from pg_prepared_statements
    where statement ~ '(contact|audience)'`;
  const plans: Node[] = [];
  for (const { name, parameters } of prepared) {
    const values = Array(parameters).fill("null").join(",");
    const [row] = await sql.unsafe<{ "QUERY PLAN": [{ Plan: Node }] }[]>(
      `explain (format json) execute "${name}"${parameters > 0 ? `(${values})` : ""}`,
    );
    if (row) plans.push(row["QUERY PLAN"][0].Plan);
  }
  return plans;
}

function nodesOf(plan: Node): Node[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
}

function idOf(n: number): string {
  ids[n] ??= newId(Date.now());
  return ids[n];
}

function addressOf(n: number): string {
  return `person.${n}@example.net`;
}

function contact(n: number): Contact {
  return {
    ...SCOPE,
    id: idOf(n),
    identity: addressOf(n),
    email: addressOf(n),
    firstName: "Person",
    lastName: null,
    properties: { city: "Köln", visits: n },
    tags: ["beta", "vip"],
    status: "subscribed",
    createdAt: AT,
    updatedAt: AT,
    archivedAt: null,
  };
}
