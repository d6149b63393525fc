/**
 * Each filter of GET /emails, which is the console's list, too, is an index scan of a bounded number of rows:
 * no plan reads a table of e-mails from its beginning, or sorts more than one page looks at.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DAY_MS } from "../../src/clock.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import { makePartitions } from "../../src/record/db/partitions.ts";
import { WALK_MAX } from "../../src/record/mail/search.ts";
import { cutBlocks, readBlocks } from "../../src/record/mail/searchblocks.ts";
import { outsideTransactions } from "../rig/outside.ts";
import { explaining, nodesOf, type PlanNode, rowsReadBy } from "../rig/plans.ts";
import { ownDatabase } from "../rig/services.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

/** Of each of two workspaces, in four days. */
const EMAILS = 24_000;
const DAYS = 4;
const BLOCKS_OF_OTHERS = 2_000;
const SETUP_MS_MAX = 150_000;
/** Of which `explain` tells what was done; the rest is small, whatever the workspace has. */
const TABLES = /^(?:email|email_ending|body)_\d{8}$|^(?:due|bag|search_block)$/;
/** A smaller table is read as a whole more quickly. */
const ROWS_MIN = 1_000;
/** A page looks at so many, at their bodies or the candidates beside them, and at blocks. */
const ROWS_MAX = 2 * WALK_MAX + 500;

let database: { url: string; drop(): Promise<void> };
let api: TestApi;
let ws: TestWorkspace;
let large: Set<string>;
let plans: PlanNode[] = [];
beforeAll(async () => {
  database = await ownDatabase();
  const lists = (sql: Sql) => explaining(sql, (plan) => plans.push(plan));
  api = await testApi({ databaseUrl: database.url, timeoutMs: SETUP_MS_MAX, lists });
  ws = await api.workspace();
  const neighbour = await api.workspace();
  for (let day = DAYS; day > 0; day--) await makePartitions(api.sql, Date.now() - day * DAY_MS);
  await fill(ws);
  await fill(neighbour);
  await addBlocksOfOthers();
  for (const { id } of [ws, neighbour]) while ((await cutBlocks(api.sql, id, Date.now(), 50)) === 50);
  while ((await readBlocks(api.sql, 10)) === 10);
  await outsideTransactions(api.sql, "vacuum (analyze)");
  const tables = await api.sql<{ name: string; rows: number }[]>`
    select relname as name, reltuples::float8 as rows from pg_class where relkind = 'r'`;
  large = new Set(
    tables.filter(({ name, rows }) => TABLES.test(name) && rows >= ROWS_MIN).map(({ name }) => name),
  );
}, SETUP_MS_MAX);
afterAll(async () => {
  await api.stop();
  await database.drop();
});

/** The n-th from the oldest on; a third has bounced, a third is open, the rest was delivered. */
async function fill({ id: workspaceId, keyId }: TestWorkspace): Promise<void> {
  const { sql } = api;
  const from = Date.now() - DAYS * DAY_MS;
  const step = (DAYS * DAY_MS - 600_000) / EMAILS;
  const status = sql`case n % 6 when 0 then 'bounced' when 1 then 'bounced' when 2 then 'scheduled'
    when 3 then case n % 5 when 0 then 'deferred' when 1 then 'accepted' else 'waiting' end else 'delivered' end`;
  await sql`
    insert into email (workspace_id, id, key_id, bulk, status, head, weight, bytes, created_at, updated_at)
    select ${workspaceId}, (lpad(to_hex((${from}::float8 + n * ${step}::float8)::bigint), 12, '0')
        || '70008' || right(md5(n::text), 3) || lpad(to_hex(n), 12, '0'))::uuid, ${keyId}, n % 2 = 0, ${status},
      ('{"from":"a@example.com","to":["person' || n % 2000 || '@example.net"],"cc":[],"bcc":[],"reply_to":[],"subject":"Order '
        || n || '"}')::json, 1, 500, at, at
    from (select n, to_timestamp((${from}::float8 + n * ${step}::float8) / 1000) as at
      from generate_series(0, ${EMAILS - 1}) n) e`;
  await sql`
    insert into body (workspace_id, id, html, extra)
    select workspace_id, id, '<p>Thanks</p>', '{"tags":[{"name":"kind","value":"order"}]}' from email
    where workspace_id = ${workspaceId}`;
  await sql`
    insert into due (workspace_id, email_id, at, why, bulk, weight, bytes)
    select workspace_id, id, now() + interval '1 day', case status when 'waiting' then 'cap_day' else status end,
      bulk, 1, 500
    from email where workspace_id = ${workspaceId} and status in ('scheduled', 'waiting', 'deferred')`;
  await sql`
    insert into bag (workspace_id, id, shard, email_ids, bytes, created_at)
    select workspace_id, gen_random_uuid(), 0, array_agg(id), 500, now()
    from (select *, row_number() over (order by id) / 100 as bag from email
      where workspace_id = ${workspaceId} and status = 'accepted') e
    group by workspace_id, bag`;
}

/** As of an installation with many workspaces. */
async function addBlocksOfOthers(): Promise<void> {
  await api.sql`
    insert into search_block (workspace_id, from_id, until_id, emails, terms)
    select gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1000,
      (select array_agg(n * 1000 + term) from generate_series(1, 50) term)
    from generate_series(1, ${BLOCKS_OF_OTHERS}::bigint) n`;
}

const day = (n: number) => new Date(Date.now() - n * DAY_MS).toISOString();
/** By the filter that decides, alone and beside others. */
const QUERIES: Record<string, readonly string[]> = {
  status: [
    ...["accepted", "scheduled", "waiting", "deferred", "delivered", "bounced", "complained", "suppressed"],
    ...["failed", "canceled"],
  ].map((status) => `status=${status}`),
  to: ["to=person77@example.net", "to=nobody@example.net", "status=bounced&to=person77@example.net"],
  subject: ["subject=order 777", "subject=order", "subject=nothing"],
  tag: ["tag=kind:order", "tag=kind:refund", "status=bounced&tag=kind:refund"],
  stream: ["stream=bulk", "stream=transactional", "stream=none"],
  api_key_id: ["api_key_id=KEY", "api_key_id=00000000-0000-7000-8000-000000000000"],
  since: [`since=${day(1)}`, `since=${day(2)}&to=person77@example.net`],
  until: [`until=${day(1)}`, `since=${day(3)}&until=${day(2)}&subject=order`],
  nothing: [""],
};

function faultsOf(plan: PlanNode): string[] {
  const nodes = nodesOf(plan);
  const faults = nodes.flatMap((node) => {
    const { "Node Type": type, "Relation Name": table = "" } = node;
    if (type === "Seq Scan" && large.has(table)) return [`all of ${table} is read`];
    const sorted = type.endsWith("Sort") ? Math.max(0, ...(node.Plans ?? []).map(rowsReadBy)) : 0;
    return sorted > WALK_MAX ? [`${sorted} rows are sorted`] : [];
  });
  const read = nodes
    .filter(
      (node) => TABLES.test(node["Relation Name"] ?? "") && !node["Node Type"].startsWith("Bitmap Index"),
    )
    .reduce((sum, node) => sum + rowsReadBy(node), 0);
  return read > ROWS_MAX ? [...faults, `${read} rows are read`] : faults;
}

async function planned(query: string): Promise<{ next: string | null; used: PlanNode[] }> {
  plans = [];
  type Page = { next_cursor: string | null };
  const { status, body } = await ws.client.get<Page>(`/emails?${query.replace("KEY", ws.keyId)}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return { next: body.next_cursor, used: plans };
}

describe.each(Object.entries(QUERIES))("by %s", (_, queries) => {
  test.each(queries)("%s", async (query) => {
    const first = await planned(query);
    const second = first.next === null ? [] : (await planned(`${query}&cursor=${first.next}`)).used;
    const newest = (await planned(`${query}&before=00000000-0000-7000-8000-000000000000`)).used;
    const used = [...first.used, ...second, ...newest];
    expect(used.flatMap(nodesOf).some((node) => /Index/.test(node["Node Type"]))).toBe(true);
    expect(used.flatMap(faultsOf)).toEqual([]);
  });
});

const textOf = (path: string) =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");

test("no filter is missing here, in the console's list, or in the table of the docs", () => {
  const pages = ["limit", "after", "before", "cursor"];
  const route = api.routes.find(({ method, path }) => method === "GET" && path === "/api/v1/emails");
  const filters = (route?.query ?? []).map(({ name }) => name).filter((name) => !pages.includes(name));
  expect(Object.keys(QUERIES)).toEqual(expect.arrayContaining(filters));
  const screen = textOf("console/screens/emails.tsx").split("const COLUMNS")[0] ?? "";
  expect([...screen.matchAll(/name: "(\w+)"/g)].map(([, name]) => name).sort()).toEqual([...filters].sort());
  const table = textOf("docs/bench.md").split("| filter of `GET /emails` |")[1]?.split("\n\n")[0] ?? "";
  for (const name of filters) expect(table).toContain(`\`${name}\``);
});
