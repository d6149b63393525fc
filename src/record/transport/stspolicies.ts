/** MTA-STS policies of receivers, as they were found. They hold for every process, until they expire. */
import type { Sql } from "../db/connect.ts";
import { arrayOf, integer, onlyRow, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const storedPolicyRow = {
  domain: text,
  id: text,
  mode: text,
  mx: arrayOf(text),
  maxAgeSeconds: integer,
  expiresAt: timestamp,
  usedAt: timestamp,
};
export type StoredPolicy = RowOf<typeof storedPolicyRow>;

export async function findStsPolicy(sql: Sql, domain: string): Promise<StoredPolicy | null> {
  const [row] = await typed(
    sql,
    storedPolicyRow,
  )`select ${columns(sql)} from sts_policy where domain = ${domain}`;
  return row ?? null;
}

/** The newest counts: of two processes that found different ones, the one that asked later. */
export async function keepStsPolicy(
  sql: Sql,
  { domain, id, mode, mx, maxAgeSeconds }: Omit<StoredPolicy, "expiresAt" | "usedAt">,
  { fetchedAt, refreshAt }: { fetchedAt: Date; refreshAt: Date },
): Promise<void> {
  const expiresAt = new Date(fetchedAt.getTime() + maxAgeSeconds * 1_000);
  await sql`
    insert into sts_policy as p (domain, policy_id, mode, mx, max_age_s, fetched_at, expires_at, refresh_at,
      used_at)
    values (${domain}, ${id}, ${mode}, ${mx}, ${maxAgeSeconds}, ${fetchedAt}, ${expiresAt}, ${refreshAt},
      ${fetchedAt})
    on conflict (domain) do update set
      policy_id = excluded.policy_id, mode = excluded.mode, mx = excluded.mx, max_age_s = excluded.max_age_s,
      fetched_at = excluded.fetched_at, expires_at = excluded.expires_at, refresh_at = excluded.refresh_at
    where p.fetched_at <= excluded.fetched_at`;
}

export async function noteStsPolicyUsed(sql: Sql, domain: string, now: Date): Promise<void> {
  await sql`update sts_policy set used_at = ${now} where domain = ${domain} and used_at < ${now}`;
}

/** Those to be fetched again, which nobody else takes until `againAt`. */
export async function takeStsPolicies(
  sql: Sql,
  { now, usedSince, againAt }: { now: Date; usedSince: Date; againAt: Date },
  most: number,
): Promise<StoredPolicy[]> {
  return typed(sql, storedPolicyRow)`
    with due as materialized (
      select domain from sts_policy
      where refresh_at <= ${now} and expires_at > ${now} and used_at > ${usedSince}
      order by refresh_at limit ${most} for update skip locked
    )
    update sts_policy set refresh_at = ${againAt} from due where sts_policy.domain = due.domain
    returning ${columns(sql)}`;
}

export async function dropExpiredStsPolicies(sql: Sql, now: Date, most: number): Promise<number> {
  const dropped = await sql`
    delete from sts_policy where domain in (
      select domain from sts_policy where expires_at < ${now} limit ${most} for update skip locked)`;
  return dropped.count;
}

export async function countStsPolicies(sql: Sql, now: Date): Promise<{ all: number; enforced: number }> {
  const rows = await typed(sql, { all: integer, enforced: integer })`
    select count(*)::int as all, count(*) filter (where mode = 'enforce')::int as enforced
    from sts_policy where expires_at > ${now}`;
  return onlyRow(rows);
}

function columns(sql: Sql) {
  return sql`sts_policy.domain, policy_id as id, mode, mx, max_age_s as "maxAgeSeconds",
    expires_at as "expiresAt", used_at as "usedAt"`;
}
