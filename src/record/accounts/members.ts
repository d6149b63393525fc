/** Who belongs to a workspace, and who is invited. A workspace keeps an owner. */
import { mayAppoint, PERSON_ROLES, type PersonRole } from "../../rules/people.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { boolean, oneOf, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const memberRow = {
  id: text,
  email: text,
  role: oneOf(...PERSON_ROLES),
  hasTotp: boolean,
};
export type MemberRow = RowOf<typeof memberRow>;

const invitationRow = {
  id: text,
  email: text,
  role: oneOf(...PERSON_ROLES),
  /** Their address; null: the account is gone. */
  invitedBy: orNull(text),
  createdAt: timestamp,
};
export type InvitationRow = RowOf<typeof invitationRow>;

const openInvitationRow = { ...invitationRow, workspaceId: text, workspaceName: text };
export type OpenInvitation = RowOf<typeof openInvitationRow>;

export type MemberChanged = "changed" | "unknown" | "last owner" | "not allowed";

export async function listMembers(sql: Sql, workspaceId: string): Promise<MemberRow[]> {
  return typed(sql, memberRow)`
    select a.id, a.email, m.role, a.totp_secret is not null as "hasTotp"
    from member m join account a on a.id = m.account_id where m.workspace_id = ${workspaceId} order by a.id`;
}

/**
 * `role` null: removes the member. What `by` may do is decided under the lock: their role may have just been
 * taken.
 */
export async function changeMember(
  sql: Sql,
  workspaceId: string,
  accountId: string,
  role: PersonRole | null,
  by: string,
): Promise<MemberChanged> {
  return sql.begin(async (tx): Promise<MemberChanged> => {
    const members = await lockMembers(tx, workspaceId);
    const before = members.find((one) => one.accountId === accountId);
    if (!before) return "unknown";
    const own = roleOf(members, by);
    const leaves = by === accountId && role === null;
    const may = own !== null && mayAppoint(own, before.role) && (role === null || mayAppoint(own, role));
    if (!leaves && !may) return "not allowed";
    const owners = members.filter((one) => one.role === "owner");
    if (before.role === "owner" && role !== "owner" && owners.length === 1) return "last owner";
    // what they were allowed to offer, they may offer no longer
    await tx`
      with ended as materialized (
        select id from invitation where workspace_id = ${workspaceId} and invited_by = ${accountId}
          order by id for update
      )
      delete from invitation i using ended where i.workspace_id = ${workspaceId} and i.id = ended.id`;
    if (role === null)
      await tx`delete from member where workspace_id = ${workspaceId} and account_id = ${accountId}`;
    else
      await tx`
        update member set role = ${role} where workspace_id = ${workspaceId} and account_id = ${accountId}`;
    return "changed";
  });
}

const lockedMemberRow = {
  accountId: text,
  role: oneOf(...PERSON_ROLES),
};
type LockedMember = RowOf<typeof lockedMemberRow>;

function roleOf(members: readonly LockedMember[], accountId: string): PersonRole | null {
  return members.find((one) => one.accountId === accountId)?.role ?? null;
}

async function lockMembers(tx: Tx, workspaceId: string): Promise<LockedMember[]> {
  return typed(tx, lockedMemberRow)`
    select account_id as "accountId", role from member where workspace_id = ${workspaceId}
    order by account_id for update`;
}

/**
 * One for each address: an older one no longer works. "not allowed": who invites may not offer this role, or
 * not take back what the address was offered before.
 */
export async function insertInvitation(
  sql: Sql,
  invitation: Pick<InvitationRow, "id" | "email" | "role"> & {
    workspaceId: string;
    hash: Buffer;
    invitedBy: string;
  },
  since: Date,
  most: number,
  now: Date,
): Promise<"changed" | "too many" | "not allowed"> {
  const { workspaceId, id, email, role, hash, invitedBy } = invitation;
  return sql.begin(async (tx) => {
    const own = roleOf(await lockMembers(tx, workspaceId), invitedBy);
    const ended = await typed(tx, { id: text, role: oneOf(...PERSON_ROLES), isOpen: boolean })`
      select id, role, created_at > ${since} as "isOpen" from invitation
      where workspace_id = ${workspaceId} and (lower(email) = lower(${email}) or created_at <= ${since})
      order by id for update`;
    const touched = [role, ...ended.filter(({ isOpen }) => isOpen).map((one) => one.role)];
    if (own === null || !touched.every((one) => mayAppoint(own, one))) return "not allowed" as const;
    await tx`
      delete from invitation where workspace_id = ${workspaceId}
        and id = any(${ended.map((one) => one.id)}::uuid[])`;
    const rows = await tx`
      insert into invitation (workspace_id, id, email, role, hash, invited_by, created_at)
      select ${workspaceId}, ${id}, ${email}, ${role}, ${hash}, ${invitedBy}, ${now}
      where (select count(*) from invitation where workspace_id = ${workspaceId}) < ${most} returning 1`;
    return rows.length > 0 ? ("changed" as const) : ("too many" as const);
  });
}

export async function listInvitations(sql: Sql, workspaceId: string, since: Date): Promise<InvitationRow[]> {
  return typed(sql, invitationRow)`
    select i.id, i.email, i.role, a.email as "invitedBy", i.created_at as "createdAt"
    from invitation i left join account a on a.id = i.invited_by
    where i.workspace_id = ${workspaceId} and i.created_at > ${since} order by i.id desc`;
}

/** `mayTouch` knows the role that was offered. */
export async function dropInvitation(
  sql: Sql,
  workspaceId: string,
  id: string,
  mayTouch: (role: PersonRole) => boolean,
): Promise<"changed" | "unknown" | "not allowed"> {
  return sql.begin(async (tx) => {
    const [found] = await typed(tx, { role: oneOf(...PERSON_ROLES) })`
      select role from invitation where workspace_id = ${workspaceId} and id = ${id} for update`;
    if (!found) return "unknown" as const;
    if (!mayTouch(found.role)) return "not allowed" as const;
    await tx`delete from invitation where workspace_id = ${workspaceId} and id = ${id}`;
    return "changed" as const;
  });
}

export async function findInvitation(sql: Sql, hash: Buffer, since: Date): Promise<OpenInvitation | null> {
  const [row] = await typed(sql, openInvitationRow)`
    select i.id, i.email, i.role, a.email as "invitedBy", i.created_at as "createdAt",
      i.workspace_id as "workspaceId", w.name as "workspaceName"
    from invitation i join workspace w on w.id = i.workspace_id left join account a on a.id = i.invited_by
    where i.hash = ${hash} and i.created_at > ${since}`;
  return row ?? null;
}

/** Who takes it: an account that is there, or a new one. */
export type Invitee = { id: string } | { id: string; email: string; passwordHash: string };

/** Takes the invitation, once; false: somebody was faster, or a new account's address is taken meanwhile. */
export async function acceptInvitation(
  sql: Sql,
  { workspaceId, id, role }: Pick<OpenInvitation, "workspaceId" | "id" | "role">,
  invitee: Invitee,
  now: Date,
): Promise<boolean> {
  const accept = async (tx: Tx): Promise<void> => {
    if ("email" in invitee) {
      const made = await tx`
        insert into account (id, email, password_hash, created_at)
        select ${invitee.id}, ${invitee.email}, ${invitee.passwordHash}, ${now}
        where not exists (select from account where lower(email) = lower(${invitee.email}))
        on conflict do nothing returning 1`;
      if (made.length === 0) throw new Overtaken();
    }
    await lockMembers(tx, workspaceId);
    const taken =
      await tx`delete from invitation where workspace_id = ${workspaceId} and id = ${id} returning 1`;
    if (taken.length === 0) throw new Overtaken();
    await tx`
      insert into member (workspace_id, account_id, role) values (${workspaceId}, ${invitee.id}, ${role})
      on conflict do nothing`;
  };
  try {
    await sql.begin(accept);
    return true;
  } catch (error) {
    if (error instanceof Overtaken) return false;
    throw error;
  }
}

/** Rolls everything back. */
class Overtaken extends Error {}
