/** Accounts of people: their passwords, the secrets of their codes, and links to a new password. */
import type { Sql, Tx } from "../db/connect.ts";
import { boolean, bytes, orNull, type RowOf, text, typed } from "../db/rowshape.ts";

const accountOfPersonRow = {
  id: text,
  email: text,
  passwordHash: text,
  /** Sealed; null: no codes are asked for. */
  totpSecret: orNull(bytes),
  isOperator: boolean,
};
export type AccountOfPerson = RowOf<typeof accountOfPersonRow>;

/** However the address is written; of two that differ in case only, the one that is written so. */
export async function findAccount(sql: Sql, email: string): Promise<AccountOfPerson | null> {
  const [row] = await typed(sql, accountOfPersonRow)`
    select ${columns(sql)} from account where lower(email) = lower(${email}) order by email = ${email} desc,
      id limit 1`;
  return row ?? null;
}

export async function findAccountById(sql: Sql, id: string): Promise<AccountOfPerson | null> {
  const [row] = await typed(sql, accountOfPersonRow)`select ${columns(sql)} from account where id = ${id}`;
  return row ?? null;
}

/**
 * Ends its sessions, but for one, and every link to a new password. `former`: the one that was shown to be
 * known; null: whichever it is. false: it is another by now, and stays.
 */
export async function setPassword(
  sql: Sql,
  accountId: string,
  passwordHash: string,
  { former, sessionKept }: { former: string | null; sessionKept: Buffer | null },
): Promise<boolean> {
  return sql.begin(async (tx) => {
    const known = await tx`
      update account set password_hash = ${passwordHash}
      where id = ${accountId} and password_hash = coalesce(${former}, password_hash) returning 1`;
    if (known.length === 0) return false;
    await endWithPassword(tx, accountId, sessionKept);
    return true;
  });
}

/** What a former password has opened. */
async function endWithPassword(tx: Tx, accountId: string, sessionKept: Buffer | null): Promise<void> {
  await tx`
    with ended as materialized (
      select hash from session where account_id = ${accountId} and hash is distinct from ${sessionKept}::bytea
      order by hash for update
    )
    delete from session s using ended where s.hash = ended.hash`;
  await tx`delete from password_reset where account_id = ${accountId}`;
}

/** null: no codes are asked for any more. */
export async function setTotpSecret(sql: Sql, accountId: string, sealed: Buffer | null): Promise<void> {
  await sql`update account set totp_secret = ${sealed} where id = ${accountId}`;
}

/** Whether the code of this step, or of a later one, was not taken before. */
export async function takeTotpStep(sql: Sql, accountId: string, step: number): Promise<boolean> {
  const rows = await sql`
    update account set totp_step = ${step} where id = ${accountId} and totp_step < ${step} returning 1`;
  return rows.length > 0;
}

export async function setOperator(sql: Sql, accountId: string, isOperator: boolean): Promise<void> {
  await sql`update account set is_operator = ${isOperator} where id = ${accountId}`;
}

/** A link that was asked for before no longer works. */
export async function keepReset(sql: Sql, accountId: string, hash: Buffer, now: Date): Promise<void> {
  await sql`
    insert into password_reset (account_id, hash, created_at) values (${accountId}, ${hash}, ${now})
    on conflict (account_id) do update set hash = excluded.hash, created_at = excluded.created_at`;
}

/**
 * As `setPassword`, for whoever has a link to it: it works once, and is used up with the new password only.
 * Hands back whose it was; null: there is none, or it is too old.
 */
export async function resetPassword(
  sql: Sql,
  { link, since }: { link: Buffer; since: Date },
  passwordHash: string,
): Promise<string | null> {
  return sql.begin(async (tx) => {
    const ownerOf = (lock: ReturnType<typeof tx>) => typed(tx, { id: text })`
      select a.id from password_reset r join account a on a.id = r.account_id
      where r.hash = ${link} and r.created_at > ${since} ${lock}`;
    await ownerOf(tx`for update of a`);
    // of two with the same link, the second has waited for that lock, and finds the link gone
    const [owner] = await ownerOf(tx``);
    if (!owner) return null;
    await tx`update account set password_hash = ${passwordHash} where id = ${owner.id}`;
    await endWithPassword(tx, owner.id, null);
    return owner.id;
  });
}

/**
 * Who writes the operator's mail to an account: the workspace of the operator's sender (`domains`, upwards),
 * where it is signed; else one of the account, its own first; else one of an operator. None that is
 * suspended.
 */
export async function workspaceToWriteFrom(
  sql: Sql,
  accountId: string,
  domains: readonly string[],
): Promise<{ id: string; handle: string } | null> {
  const [row] = await typed(sql, { id: text, handle: text })`
    select w.id, w.handle from (
      select workspace_id, -length(domain) as place from domain
        where domain = any(${[...domains]}::text[]) and verified_at is not null
      union all
      select m.workspace_id, case when m.account_id <> ${accountId} then 2 when m.role = 'owner' then 0 else 1 end
        from member m join account a on a.id = m.account_id
        where m.account_id = ${accountId} or (a.is_operator and m.role = 'owner')
    ) c join workspace w on w.id = c.workspace_id
    where w.suspended_at is null order by c.place, w.id limit 1`;
  return row ?? null;
}

function columns(sql: Sql) {
  return sql`id, email, password_hash as "passwordHash", totp_secret as "totpSecret", is_operator as "isOperator"`;
}
