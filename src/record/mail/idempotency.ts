/**
 * Idempotency claims: which request of a workspace was answered 2xx, with what, for 24 hours. The unique row
 * decides; it is written in the transaction of what it claims, so the two exist together or not at all.
 */
import { fencedNow } from "../cells/moving.ts";
import { hasBegun } from "../db/begun.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { integer, type RowOf, text, typed } from "../db/rowshape.ts";
import { nowIn } from "../db/time.ts";

export const CLAIM_HOURS = 24;

const claimRow = {
  workspaceId: text,
  scope: text,
  key: text,
  digest: text,
  answer: text,
};
export type Claim = RowOf<typeof claimRow>;

/**
 * Writes the claims that are free, or whose day is over; hands back those that are held, with what they
 * answered. Only after `markBegun`: a claim that is kept without what it claims would refuse that for a day.
 */
export async function takeClaims(tx: Tx, claims: readonly Claim[], given: number): Promise<Claim[]> {
  const of = (pick: (claim: Claim) => string): string[] => claims.map(pick);
  const taken = await typed(tx, { n: integer })`
    with asked as (
      select * from unnest(${of((c) => c.workspaceId)}::uuid[], ${of((c) => c.scope)}::text[],
        ${of((c) => c.key)}::text[],
        ${of((c) => c.digest)}::text[], ${of((c) => c.answer)}::text[]) with ordinality as a(workspace_id,
        scope, key, digest, answer, n)
    ), taken as (
      insert into claim as held (workspace_id, scope, key, digest, answer, created_at)
      select workspace_id, scope, key, decode(digest, 'hex'), answer::json, ${nowIn(tx, given)} from asked
      where ${hasBegun(tx)}
      order by workspace_id, scope, key
      on conflict (workspace_id, scope, key) do update
        set digest = excluded.digest, answer = excluded.answer, created_at = excluded.created_at
        where held.created_at <= excluded.created_at - make_interval(hours => ${CLAIM_HOURS})
      returning workspace_id, scope, key
    )
    select n::int from asked join taken using (workspace_id, scope, key)`.execute();
  if (taken.length === claims.length) return [];
  const free = new Set(taken.map((row) => row.n - 1));
  return findClaims(
    tx,
    claims.filter((_, n) => !free.has(n)),
    given,
  );
}

/** The claims that are held, of those asked for. */
export async function findClaims(
  sql: Tx | Sql,
  claims: readonly Pick<Claim, "workspaceId" | "scope" | "key">[],
  given: number,
): Promise<Claim[]> {
  return typed(sql, claimRow)`
    select c.workspace_id as "workspaceId", c.scope, c.key, encode(c.digest, 'hex') as digest, c.answer::text
    from claim c
    join unnest(${claims.map((c) => c.workspaceId)}::uuid[], ${claims.map((c) => c.scope)}::text[],
                ${claims.map((c) => c.key)}::text[]) as a(workspace_id, scope, key) using (workspace_id,
                scope, key)
    where c.created_at > ${nowIn(sql, given)} - make_interval(hours => ${CLAIM_HOURS})`;
}

/** For claims that are taken before their answer is known: in the same transaction. */
export function answerClaims(tx: Tx | Sql, claims: readonly Claim[]): Statement {
  return tx`
    update claim c set answer = a.answer::json
    from unnest(${claims.map((c) => c.workspaceId)}::uuid[], ${claims.map((c) => c.scope)}::text[],
                ${claims.map((c) => c.key)}::text[],
                ${claims.map((c) => c.answer)}::text[]) as a(workspace_id, scope, key, answer)
    where c.workspace_id = a.workspace_id and c.scope = a.scope and c.key = a.key`;
}

export function dropClaims(
  tx: Tx | Sql,
  claims: readonly Pick<Claim, "workspaceId" | "scope" | "key">[],
): Statement {
  return tx`
    delete from claim c
    using unnest(${claims.map((c) => c.workspaceId)}::uuid[], ${claims.map((c) => c.scope)}::text[],
                 ${claims.map((c) => c.key)}::text[]) as a(workspace_id, scope, key)
    where c.workspace_id = a.workspace_id and c.scope = a.scope and c.key = a.key`;
}

export async function dropOldClaims(sql: Tx | Sql, now: Date, most: number): Promise<number> {
  const fenced = await fencedNow(sql);
  const rows = await sql`
    delete from claim where (workspace_id, scope, key) in (
      select workspace_id, scope, key from claim
      where created_at <= ${now}::timestamptz - make_interval(hours => ${CLAIM_HOURS})
        and workspace_id <> all(${fenced}::uuid[])
      limit ${most} for update skip locked) returning 1`;
  return rows.length;
}
