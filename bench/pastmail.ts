/**
 * E-mails of the last 30 days that have ended, put straight into the record, with the search blocks that the
 * keeper would have made of them. What is looked for is rare and lies anywhere.
 */
import { makePartitions } from "../src/record/db/partitions.ts";
import { cutBlocks, readBlocks } from "../src/record/mail/searchblocks.ts";
import { outsideTransactions } from "../test/rig/outside.ts";
import type { Bench, Workspace } from "./machine.ts";

export const DAYS = 30;
export const DAY_MS = 86_400_000;
export const PEOPLE = 200_000;
const INSERTED_MAX = 100_000;
/** One e-mail in so many is one that is looked for. */
const RARE = 10_000;
const BOUNCED = 50;

/** By SQL alone, in the form that the api writes; the n-th from the oldest on is at an even place in time. */
export async function fillDays(
  { sql }: Pick<Bench, "sql">,
  { id: workspaceId }: Pick<Workspace, "id">,
  count: number,
  rareKey: string,
  tell: (text: string) => void,
): Promise<void> {
  // the bench is not about checkpoints
  await outsideTransactions(sql, "alter system set max_wal_size = '4GB'");
  await sql`select pg_reload_conf()`;
  const now = Date.now();
  for (let day = DAYS; day >= 0; day -= 3) await makePartitions(sql, now - day * DAY_MS);
  const [key] = await sql<{ id: string }[]>`select id from api_key where workspace_id = ${workspaceId}`;
  const from = now - DAYS * DAY_MS;
  const step = (DAYS * DAY_MS - 600_000) / count;
  const idOf = sql`(lpad(to_hex((${from}::float8 + n * ${step}::float8)::bigint), 12, '0')
    || '70008' || right(md5(n::text), 3) || lpad(to_hex(n), 12, '0'))::uuid`;
  for (let at = 0; at < count; at += INSERTED_MAX) {
    const last = Math.min(at + INSERTED_MAX, count) - 1;
    await Promise.all([
      sql`insert into email (workspace_id, id, key_id, bulk, status, head, weight, bytes, created_at, updated_at, sent_at,
          delivered_at, attempts, marks, history)
        select ${workspaceId}, id, case when n % ${RARE} = 7 then ${rareKey}::uuid else ${key?.id ?? null}::uuid end, false,
          case when n % ${BOUNCED} = 0 then 'bounced' when n % ${RARE} = 3 then 'suppressed' else 'delivered' end,
          ('{"from":"Acme <orders@example.com>","to":["person' || n % ${PEOPLE} || '@example.net"],"cc":[],"bcc":[],"reply_to":[],"subject":"'
            || case when n % ${RARE} = 5 then 'Your refund ' else 'Your order ' end || n || '"}')::json,
          1, 500, at, at, at, at, 1, 'd', '[{"type":"delivered","at":"2026-11-20T10:00:00.000Z","detail":"250 2.0.0 ok"}]'
        from (select n, ${idOf} as id, to_timestamp((${from}::float8 + n * ${step}::float8) / 1000) as at
          from generate_series(${at}::int, ${last}::int) n) e`,
      // one in ten has a body
      sql`insert into body (workspace_id, id, html, extra)
        select ${workspaceId}, ${idOf}, '<p>Thanks</p>', ('{"tags":[{"name":"kind","value":"'
          || case when n % ${RARE} = 9 then 'refund' else 'order' end || '"}]}')::json
        from generate_series(${at}::int, ${last}::int) n where n % 10 = 9`,
    ]);
    tell(`${last + 1} e-mails put into the record`);
  }
  // as the autovacuum of an engine that got there by itself would have
  for (const table of ["email", "body", "email_ending"])
    await outsideTransactions(sql, `vacuum (analyze) ${table}`);
}

export async function indexAll(
  { sql }: Pick<Bench, "sql">,
  { id }: Pick<Workspace, "id">,
  tell: (text: string) => void,
): Promise<void> {
  let cut = 0;
  for (let more = 1; more > 0; cut += more) more = await cutBlocks(sql, id, Date.now(), 100);
  for (let read = 0, more = 1; more > 0; read += more) {
    more = await readBlocks(sql, 50);
    tell(`${read} of ${cut} search blocks`);
  }
  await outsideTransactions(sql, "vacuum (analyze) search_block");
}
