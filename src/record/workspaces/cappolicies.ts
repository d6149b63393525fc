/** The policies of sending caps, by version. The highest is in force; none is ever changed or removed. */

import type { Sql, Tx } from "../db/connect.ts";
import { columnsOf, integer, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const capPolicySummary = {
  version: integer,
  /** Of what it decides: the same as in the rows of history. */
  digest: text,
  author: text,
  reason: text,
  appliedAt: timestamp,
};
const capPolicy = {
  ...capPolicySummary,
  /** The file. */
  text,
};
type CapPolicySummary = RowOf<typeof capPolicySummary>;
export type CapPolicyRow = RowOf<typeof capPolicy>;

export type NewCapPolicy = Omit<CapPolicyRow, "version" | "appliedAt">;

/** The one in force; `known` is a version that the caller has already: null when there is none above it. */
export async function newestCapPolicy(sql: Sql | Tx, known = 0): Promise<CapPolicyRow | null> {
  const [row] = await typed(sql, capPolicy)`
    select ${columnsOf(sql, capPolicy)} from cap_policy where version > ${known}
      order by version desc limit 1`;
  return row ?? null;
}

export function newestVersion(sql: Sql) {
  return sql`(select max(version) from cap_policy)`;
}

export async function findCapPolicy(sql: Sql | Tx, version: number): Promise<CapPolicyRow | null> {
  const [row] = await typed(sql, capPolicy)`
    select ${columnsOf(sql, capPolicy)} from cap_policy where version = ${version}`;
  return row ?? null;
}

/** The newest of a time. */
export async function capPolicyOn(sql: Sql | Tx, at: Date): Promise<CapPolicyRow | null> {
  const [row] = await typed(sql, capPolicy)`
    select ${columnsOf(sql, capPolicy)} from cap_policy where applied_at <= ${at}
      order by version desc limit 1`;
  return row ?? null;
}

/** Newest first. */
export async function listCapPolicies(sql: Sql, most: number): Promise<CapPolicySummary[]> {
  return typed(sql, capPolicySummary)`
    select ${columnsOf(sql, capPolicySummary)} from cap_policy
    order by version desc limit ${most}`;
}

/**
 * `after` is the version that was in force when it was decided: null when another has come since. No version
 * is older than the one before it, whenever its author looked at the clock.
 */
export async function insertCapPolicy(
  sql: Sql | Tx,
  { text, digest, author, reason }: NewCapPolicy,
  after: number,
  now: Date,
): Promise<number | null> {
  const [row] = await typed(sql, { version: integer })`
    insert into cap_policy (version, text, digest, author, reason, applied_at)
    values (${after + 1}, ${text}, ${digest}, ${author}, ${reason},
      greatest(${now}::timestamptz, (select applied_at from cap_policy where version = ${after})))
    on conflict (version) do nothing returning version`;
  return row?.version ?? null;
}
