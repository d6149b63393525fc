/**
 * Workspaces, their limits and their people. Every change of plan or limits raises `version` in the same
 * statement.
 */
import {
  CAP_DAY_START,
  CAP_HOUR_START,
  type Overrides,
  PLANS,
  type Plan,
  RESERVED_SHARE,
} from "../../rules/plans.ts";
import { insertDefaultAudience } from "../contacts/audiences.ts";
import type { Sql, Tx } from "../db/connect.ts";
import {
  boolean,
  integer,
  json,
  oneOf,
  onlyRow,
  orNull,
  pick,
  type RowOf,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";

const workspaceRow = {
  id: text,
  handle: text,
  name: text,
  plan: oneOf(...PLANS),
  limits: json<Overrides>(),
  version: integer,
  createdAt: timestamp,
  suspendedAt: orNull(timestamp),
  suspendedFor: orNull(text),
  resumedAt: orNull(timestamp),
  resumedFor: orNull(text),
  logsEvents: boolean,
};
export type Workspace = RowOf<typeof workspaceRow>;

export async function insertWorkspace(
  sql: Sql,
  workspace: Pick<Workspace, "id" | "handle" | "name" | "plan" | "limits">,
  now: Date,
): Promise<void> {
  const { id, handle, name, plan, limits } = workspace;
  await sql.begin((tx) => [
    tx`insert into workspace (id, handle, name, plan, limits, changed_at, created_at)
       values (${id}, ${handle}, ${name}, ${plan}, ${tx.json(limits)}, ${now}, ${now})`,
    tx`insert into ledger (workspace_id, cap_day, cap_hour, reserved_share)
       values (${id}, ${CAP_DAY_START}, ${CAP_HOUR_START}, ${RESERVED_SHARE})`,
    insertDefaultAudience(tx, id, now),
  ]);
}

export async function findWorkspace(sql: Sql, id: string): Promise<Workspace | null> {
  const rows = await selectWorkspaces(sql, id);
  return rows[0] ?? null;
}

export async function listWorkspaces(sql: Sql | Tx): Promise<Workspace[]> {
  return selectWorkspaces(sql, null);
}

/** Of the workspaces behind this one, in the order of their ids; null: of the first. */
export async function workspaceIdsAfter(
  sql: Sql | Tx,
  after: string | null,
  most: number,
): Promise<string[]> {
  const rows = await typed(sql, pick(workspaceRow, "id"))`
    select id from workspace where ${after}::uuid is null or id > ${after} order by id limit ${most}`;
  return rows.map(({ id }) => id);
}

const workspaceItemRow = {
  ...pick(
    workspaceRow,
    "id",
    "handle",
    "name",
    "plan",
    "createdAt",
    "suspendedAt",
    "suspendedFor",
    "resumedAt",
    "resumedFor",
  ),
  members: integer,
};
export type WorkspaceItem = RowOf<typeof workspaceItemRow>;

/** A page and one more row, newest first; those whose name or handle holds the text. */
export async function pageOfWorkspaces(
  sql: Sql,
  text: string,
  { after, limit }: Page,
): Promise<WorkspaceItem[]> {
  return typed(sql, workspaceItemRow)`
    select w.id, w.handle, w.name, w.plan, w.created_at as "createdAt", w.suspended_at as "suspendedAt",
      w.suspended_for as "suspendedFor", w.resumed_at as "resumedAt", w.resumed_for as "resumedFor",
      (select count(*)::int from member m where m.workspace_id = w.id) as members
    from workspace w
    where (${after}::uuid is null or w.id < ${after}) and strpos(lower(w.name || ' ' || w.handle),
      lower(${text})) > 0
    order by w.id desc limit ${limit + 1}`;
}

/** The ids of those that these handles name, also of those on their way to this record or from it. */
export async function workspacesOfHandles(
  sql: Sql | Tx,
  handles: readonly string[],
): Promise<Map<string, string>> {
  const rows = await typed(sql, { handle: text, id: text })`
    select handle, id from workspace where handle = any(${[...handles]}::text[])
    union all
    select handle, workspace_id from workspace_move
    where handle = any(${[...handles]}::text[]) and state <> 'leaving'`;
  return new Map(rows.map(({ handle, id }) => [handle, id]));
}

export type WorkspaceName = { handle: string } | { id: string };

/**
 * Whether the workspace is in this record; or else whether it is on its way between this one and another. One
 * that moves has its handle where it is.
 */
export async function seekWorkspace(
  sql: Sql,
  who: WorkspaceName,
): Promise<{ isHere: boolean; isOnItsWay: boolean }> {
  const rows = await ("handle" in who
    ? typed(sql, soughtRow)`
        select exists (select from workspace where handle = ${who.handle}) as "isHere",
          exists (select from workspace_move where handle = ${who.handle}
            and state <> 'leaving') as "isOnItsWay"`
    : typed(sql, soughtRow)`
        select exists (select from workspace where id = ${who.id} and strpos(handle, ' ') = 0) as "isHere",
          exists (select from workspace_move where workspace_id = ${who.id}
            and state <> 'leaving') as "isOnItsWay"`);
  return onlyRow(rows);
}
const soughtRow = {
  isHere: boolean,
  isOnItsWay: boolean,
};

/**
 * Changes plan and limits (null takes a limit back to the plan's); hands back the new version, or null if
 * unknown.
 */
export async function changeWorkspace(
  sql: Sql,
  id: string,
  change: { plan?: Plan; limits?: Record<string, number | null> },
  now: Date,
): Promise<Workspace | null> {
  const rows = await typed(sql, workspaceRow)`
    update workspace set
      plan = coalesce(${change.plan ?? null}, plan),
      limits = jsonb_strip_nulls(limits || ${sql.json(change.limits ?? {})}),
      version = version + 1, changed_at = ${now}
    where id = ${id}
    returning ${columns(sql)}`;
  return rows[0] ?? null;
}

/** Which workspaces changed since: what a Redis that comes back must hear of before it is asked. */
export async function changedSince(sql: Sql, since: Date): Promise<{ handle: string; version: number }[]> {
  return sql`select handle, version::int from workspace where changed_at >= ${since}`;
}

/** An account that is there keeps its password. `isNew`: it was made. */
export async function insertOwner(
  sql: Sql,
  owner: { id: string; workspaceId: string; email: string; passwordHash: string },
  now: Date,
): Promise<{ accountId: string; isNew: boolean }> {
  return sql.begin(async (tx) => {
    const accounts = await typed(tx, { id: text })`
      insert into account (id, email, password_hash, created_at)
      values (${owner.id}, ${owner.email}, ${owner.passwordHash}, ${now})
      on conflict (email) do update set email = excluded.email returning id`;
    const { id } = onlyRow(accounts);
    await tx`insert into member (workspace_id, account_id, role)
      values (${owner.workspaceId}, ${id}, 'owner') on conflict do nothing`;
    return { accountId: id, isNew: id === owner.id };
  });
}

async function selectWorkspaces(sql: Sql | Tx, id: string | null): Promise<Workspace[]> {
  return typed(sql, workspaceRow)`
    select ${columns(sql)} from workspace where ${id}::uuid is null or id = ${id} order by id`;
}

function columns(sql: Sql | Tx) {
  return sql`id, handle, name, plan, limits, version::int, created_at as "createdAt", suspended_at as "suspendedAt",
    suspended_for as "suspendedFor", resumed_at as "resumedAt", resumed_for as "resumedFor", logs_events as "logsEvents"`;
}
