/** Sessions of the console: who is signed in, and what they may do now. Tokens are kept as hashes. */

import { PERSON_ROLES } from "../../rules/people.ts";
import type { Overrides } from "../../rules/plans.ts";
import { PLANS } from "../../rules/plans.ts";
import type { StreamDefinitions } from "../../rules/stream.ts";
import type { Sql } from "../db/connect.ts";
import { boolean, integer, json, oneOf, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

/** Sessions begun and used since then live. */
export type SessionSpan = { begunSince: Date; usedSince: Date };

const signedInRow = {
  accountId: text,
  email: text,
  isOperator: boolean,
  hasTotp: boolean,
  usedAt: timestamp,
};
export type SignedIn = RowOf<typeof signedInRow>;

const workspaceOfPersonRow = {
  id: text,
  handle: text,
  name: text,
  plan: oneOf(...PLANS),
  limits: json<Overrides>(),
  streams: json<StreamDefinitions>(),
  version: integer,
  isSuspended: boolean,
  role: oneOf(...PERSON_ROLES),
};
export type WorkspaceOfPerson = RowOf<typeof workspaceOfPersonRow>;

/**
 * Ends the session that this one replaces, those that are over, and the oldest beyond `most`. false: the
 * account is gone, or its password is another by now, which was to end every session of the former one.
 */
export async function beginSession(
  sql: Sql,
  session: { hash: Buffer; accountId: string; passwordHash: string; replaced: Buffer | null },
  { begunSince, usedSince }: SessionSpan,
  most: number,
  now: Date,
): Promise<boolean> {
  const { hash, accountId, passwordHash, replaced } = session;
  return sql.begin(async (tx) => {
    const known = await tx`
      select from account where id = ${accountId} and password_hash = ${passwordHash} for update`;
    if (known.length === 0) return false;
    await tx`
      with kept as (
        select hash from session where account_id = ${accountId} and created_at > ${begunSince}
          and used_at > ${usedSince}
        order by created_at desc limit ${most - 1}
      ), ended as materialized (
        select hash from session
        where (account_id = ${accountId} and hash not in (select hash from kept)) or hash = ${replaced}::bytea
        order by hash for update
      )
      delete from session s using ended where s.hash = ended.hash`;
    await tx`insert into session (hash, account_id, created_at, used_at) values (${hash}, ${accountId}, ${now}, ${now})`;
    return true;
  });
}

export async function findSession(
  sql: Sql,
  hash: Buffer,
  { begunSince, usedSince }: SessionSpan,
): Promise<SignedIn | null> {
  const [row] = await typed(sql, signedInRow)`
    select a.id as "accountId", a.email, a.is_operator as "isOperator",
      a.totp_secret is not null as "hasTotp",
      s.used_at as "usedAt"
    from session s join account a on a.id = s.account_id
    where s.hash = ${hash} and s.created_at > ${begunSince} and s.used_at > ${usedSince}`;
  return row ?? null;
}

export async function noteSessionUse(sql: Sql, hash: Buffer, now: Date): Promise<void> {
  await sql`update session set used_at = ${now} where hash = ${hash} and used_at < ${now}`;
}

export async function endSession(sql: Sql, hash: Buffer): Promise<void> {
  await sql`delete from session where hash = ${hash}`;
}

/** All of an account; says how many. */
export async function endSessions(sql: Sql, accountId: string): Promise<number> {
  const ended = await sql`
    with ended as materialized (
      select hash from session where account_id = ${accountId} order by hash for update
    )
    delete from session s using ended where s.hash = ended.hash`;
  return ended.count;
}

/** A workspace as a member of it may see it; null: the account is no member. */
export async function findMembership(
  sql: Sql,
  accountId: string,
  workspaceId: string,
): Promise<WorkspaceOfPerson | null> {
  const [row] = await typed(sql, workspaceOfPersonRow)`
    select ${columns(sql)} from member m join workspace w on w.id = m.workspace_id
    where m.account_id = ${accountId} and m.workspace_id = ${workspaceId}`;
  return row ?? null;
}

export async function listMemberships(
  sql: Sql,
  accountId: string,
  most: number,
): Promise<WorkspaceOfPerson[]> {
  return typed(sql, workspaceOfPersonRow)`
    select ${columns(sql)} from member m join workspace w on w.id = m.workspace_id
    where m.account_id = ${accountId} order by w.id limit ${most}`;
}

function columns(sql: Sql) {
  return sql`w.id, w.handle, w.name, w.plan, w.limits, w.streams, w.version::int, w.suspended_at is not null as "isSuspended", m.role`;
}
