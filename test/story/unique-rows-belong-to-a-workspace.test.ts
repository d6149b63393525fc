/**
 * A workspace may live in another database than its neighbours only if no row of one has to be unlike those
 * of another: every primary key and unique index leads with the workspace. The exceptions are named, each
 * with its reason.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { services } from "../rig/services.ts";

/** By table: of all workspaces together, or of none. */
const EXCEPTIONS: Record<string, string> = {
  "workspace(id)": "it is the workspace",
  "workspace(handle)": "a key names its workspace by it, before anything else is known",
  "domain(domain)": "a verified domain has one owner among all workspaces",
  "account(id)": "a person may belong to several workspaces",
  "account(email)": "a person signs in with it, before a workspace is known",
  "session(hash)": "of a person, found by the secret in their browser",
  "invitation(hash)": "found by the secret in its link",
  "password_reset(hash)": "of a person, found by the secret in its link",
  "password_reset(account_id)": "of a person",
  "report(id)": "it is taken before anybody knows which workspace it is about",
  "destination_hold(destination,source,kind)": "receivers are the same for all workspaces",
  "sts_policy(domain)": "of receivers",
  "tls_report_in(domain,organization,report_id,policy,begins_at)": "of receivers about us",
  "tls_report_in(id)": "of receivers about us",
  "tls_report_out(day,domain)": "to receivers, about the mail of all workspaces",
  "tls_sessions(day,domain,policy,result,mx_host,mx_ip,source_ip)":
    "connections carry the mail of all workspaces",
  "brake(name)": "of the installation",
  "cap_policy(version)": "of the installation",
  "shadow_policy(is_only)": "of the installation",
  "migration(name)": "of the installation",
  "queue_shards(is_only)": "of the installation",
  "secret_check(is_only)": "of the installation",
  "shaping_file(is_only)": "of the installation",
  "tick_lease(name)": "of the installation",
};

let sql: Sql;
beforeAll(() => {
  sql = connectRecord(services().databaseUrl, "setup", 5_000);
});
afterAll(() => sql.end({ timeout: 1 }));

type UniqueIndex = { table: string; columns: string[] };

test("every unique constraint leads with the workspace", async () => {
  const all = await sql<UniqueIndex[]>`
    select c.relname as table, array_agg(a.attname::text order by k.place) as columns
    from pg_index i join pg_class c on c.oid = i.indrelid
    cross join unnest(i.indkey) with ordinality as k(number, place)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
    where i.indisunique and c.relnamespace = 'public'::regnamespace and not c.relispartition
    group by c.oid, c.relname, i.indexrelid order by c.relname`;
  const others = all
    .filter(({ columns }) => columns[0] !== "workspace_id")
    .map(({ table, columns }) => `${table}(${columns.join(",")})`);
  expect(others.filter((one) => !(one in EXCEPTIONS))).toEqual([]);
  expect(Object.keys(EXCEPTIONS).filter((one) => !others.includes(one))).toEqual([]);
});
