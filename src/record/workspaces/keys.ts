/**
 * API keys: only their hash and the part that lists show. Creating and revoking lock the workspace row, so
 * that the number of active keys is exact and the workspace's version rises with the change.
 */
import type { Plan } from "../../rules/plans.ts";
import { PLANS } from "../../rules/plans.ts";
import { isBuiltIn, isDefined, type StreamDefinitions, type StreamShares } from "../../rules/stream.ts";
import type { Sql } from "../db/connect.ts";
import {
  arrayOf,
  boolean,
  float,
  integer,
  json,
  oneOf,
  orNull,
  type RowOf,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";

const apiKeyRow = {
  id: text,
  name: text,
  shown: text,
  permissions: integer,
  audienceIds: orNull(arrayOf(text)),
  stream: text,
  createdAt: timestamp,
  revokedAt: orNull(timestamp),
  lastUsedAt: orNull(timestamp),
};
export type ApiKey = RowOf<typeof apiKeyRow>;

export type NewApiKey = {
  id: string;
  workspaceId: string;
  hash: string;
  shown: string;
  name: string;
  permissions: number;
  audienceIds: string[] | null;
  stream: string;
};

/** What admission needs to know of a key and its workspace: one row. */
const keyRecordRow = {
  keyId: text,
  permissions: integer,
  audienceIds: orNull(arrayOf(text)),
  stream: text,
  isRevoked: boolean,
  workspaceId: text,
  plan: oneOf(...PLANS),
  limits: json<Record<string, number>>(),
  version: integer,
  grownCapDay: integer,
  grownCapHour: integer,
  reservedShare: float,
  streams: json<StreamDefinitions>(),
  streamShares: json<StreamShares>(),
  isSuspended: boolean,
};
export type KeyRecord = RowOf<typeof keyRecordRow>;

export type InsertKeyResult =
  | { kind: "inserted"; version: number }
  | { kind: "unknown workspace" }
  | { kind: "unknown audience" }
  | { kind: "unknown stream" }
  | { kind: "refused"; reason: string };

/** `mayCreate` decides under the lock, knowing the plan and how many keys are active. */
export async function insertKey(
  sql: Sql,
  key: NewApiKey,
  now: Date,
  mayCreate: (plan: Plan, activeKeys: number) => string | null,
): Promise<InsertKeyResult> {
  return sql.begin(async (tx) => {
    const [workspace] = await typed(tx, { plan: oneOf(...PLANS), streams: json<StreamDefinitions>() })`
      select plan, streams from workspace where id = ${key.workspaceId} for update`;
    if (!workspace) return { kind: "unknown workspace" };
    if (!isBuiltIn(key.stream) && !isDefined(key.stream, workspace.streams))
      return { kind: "unknown stream" };
    const [active] = await typed(tx, { count: integer })`
      select count(*)::int from api_key where workspace_id = ${key.workspaceId} and revoked_at is null`;
    const reason = mayCreate(workspace.plan, active?.count ?? 0);
    if (reason !== null) return { kind: "refused", reason };
    if (key.audienceIds) {
      const [known] = await typed(tx, { count: integer })`select count(*)::int from audience
        where workspace_id = ${key.workspaceId} and id = any(${key.audienceIds}::uuid[])`;
      if (known?.count !== new Set(key.audienceIds).size) return { kind: "unknown audience" };
    }
    await tx`insert into api_key (workspace_id, id, hash, shown, name, permissions, audience_ids, stream, created_at)
      values (${key.workspaceId}, ${key.id}, decode(${key.hash}, 'hex'), ${key.shown}, ${key.name},
        ${key.permissions},
              ${key.audienceIds}, ${key.stream}, ${now})`;
    const [raised] = await typed(tx, { version: integer })`
      update workspace set version = version + 1, changed_at = ${now} where id = ${key.workspaceId}
      returning version::int`;
    return { kind: "inserted", version: raised?.version ?? 0 };
  });
}

export async function findKeyByHash(sql: Sql, handle: string, hash: string): Promise<KeyRecord | null> {
  const rows = await typed(sql, keyRecordRow)`
    select k.id as "keyId", k.permissions, k.audience_ids as "audienceIds", k.stream,
      k.revoked_at is not null as "isRevoked",
           w.id as "workspaceId", w.plan, w.limits, w.version::int, l.cap_day as "grownCapDay",
           l.cap_hour as "grownCapHour", l.reserved_share as "reservedShare",
           w.streams, l.stream_shares as "streamShares", w.suspended_at is not null as "isSuspended"
    from workspace w
    join api_key k on k.workspace_id = w.id
    join ledger l on l.workspace_id = w.id
    where w.handle = ${handle} and k.hash = decode(${hash}, 'hex')`;
  return rows[0] ?? null;
}

export async function findKey(
  sql: Sql,
  id: string,
): Promise<{ workspaceId: string; handle: string; hash: string; revokedAt: Date | null } | null> {
  const rows = await typed(sql, {
    workspaceId: text,
    handle: text,
    hash: text,
    revokedAt: orNull(timestamp),
  })`
    select k.workspace_id as "workspaceId", w.handle, encode(k.hash, 'hex') as hash,
      k.revoked_at as "revokedAt"
    from api_key k join workspace w on w.id = k.workspace_id where k.id = ${id}`;
  return rows[0] ?? null;
}

export async function listKeys(sql: Sql, workspaceId: string): Promise<ApiKey[]> {
  return typed(sql, apiKeyRow)`
    select id, name, shown, permissions, audience_ids as "audienceIds", stream, created_at as "createdAt",
           revoked_at as "revokedAt", last_used_at as "lastUsedAt"
    from api_key where workspace_id = ${workspaceId} order by id desc`;
}

/** Newest first: a page and one more row. */
export async function pageOfKeys(
  sql: Sql,
  workspaceId: string,
  { after, limit, revoked }: { after: string | null; limit: number; revoked: boolean },
): Promise<ApiKey[]> {
  return typed(sql, apiKeyRow)`
    select id, name, shown, permissions, audience_ids as "audienceIds", stream, created_at as "createdAt",
           revoked_at as "revokedAt", last_used_at as "lastUsedAt"
    from api_key where workspace_id = ${workspaceId} and (${after}::uuid is null or id < ${after})
      and (${revoked} or revoked_at is null)
    order by id desc limit ${limit + 1}`;
}

export async function markRevoked(sql: Sql, workspaceId: string, id: string, now: Date): Promise<number> {
  return sql.begin(async (tx) => {
    const [workspace] = await typed(tx, { version: integer })`
      update workspace set version = version + 1, changed_at = ${now} where id = ${workspaceId}
      returning version::int`;
    await tx`update api_key set revoked_at = coalesce(revoked_at, ${now})
      where workspace_id = ${workspaceId} and id = ${id}`;
    return workspace?.version ?? 0;
  });
}

export async function revokedSince(sql: Sql, since: Date): Promise<{ handle: string; hash: string }[]> {
  return sql`select w.handle, encode(k.hash, 'hex') as hash from api_key k join workspace w on w.id = k.workspace_id
    where k.revoked_at >= ${since}`;
}

/** Hashes of the keys of one workspace. */
export async function revokedOf(sql: Sql, workspaceId: string, since: Date): Promise<string[]> {
  const rows = await typed(sql, { hash: text })`
    select encode(hash, 'hex') as hash from api_key where workspace_id = ${workspaceId}
      and revoked_at >= ${since}`;
  return rows.map(({ hash }) => hash);
}

/** Times of last use of many keys at once; a later time is never replaced by an earlier one. */
export async function noteLastUsed(
  sql: Sql,
  used: readonly { workspaceId: string; keyId: string; at: number }[],
): Promise<void> {
  await sql`
    with held as materialized (
      select k.workspace_id, k.id, u.at from api_key k
      join unnest(${used.map((one) => one.workspaceId)}::uuid[], ${used.map((one) => one.keyId)}::uuid[],
                  ${used.map((one) => new Date(one.at).toISOString())}::timestamptz[]) as u(workspace_id, id,
                  at)
        on k.workspace_id = u.workspace_id and k.id = u.id
      where k.last_used_at is null or k.last_used_at < u.at
      order by k.workspace_id, k.id for no key update of k
    )
    update api_key k set last_used_at = held.at from held where k.workspace_id = held.workspace_id
      and k.id = held.id`;
}
