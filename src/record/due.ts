/** What must wait, and why: one row per e-mail that is scheduled, over a cap or quota, or deferred. */
import { plainArray } from "./arrays.ts";
import type { Sql, Statement, Tx } from "./connect.ts";

export type Why = "scheduled" | "cap_hour" | "cap_day" | "quota_month" | "deferred";

export type Due = {
  workspaceId: string;
  emailId: string;
  at: number;
  why: Why;
  bulk: boolean;
  weight: number;
  bytes: number;
};

export function insertDue(tx: Tx | Sql, due: readonly Due[]): Statement {
  const of = (pick: (one: Due) => string | number | boolean): string => plainArray(due.map(pick));
  return tx`
    insert into due (workspace_id, email_id, at, why, bulk, weight, bytes)
    select * from unnest(${of((d) => d.workspaceId)}::uuid[], ${of((d) => d.emailId)}::uuid[],
      ${of((d) => new Date(d.at).toISOString())}::timestamptz[], ${of((d) => d.why)}::text[], ${of((d) => d.bulk)}::bool[],
      ${of((d) => d.weight)}::int[], ${of((d) => d.bytes)}::int[])`;
}
