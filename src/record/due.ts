/** What must wait, and why: one row per e-mail that is scheduled, over a cap or quota, or deferred. */
import { type Sql, type Statement, type Tx, truth } from "./connect.ts";

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
  return tx`
    insert into due (workspace_id, email_id, at, why, bulk, weight, bytes)
    select * from unnest(${due.map((d) => d.workspaceId)}::uuid[], ${due.map((d) => d.emailId)}::uuid[],
      ${due.map((d) => new Date(d.at).toISOString())}::timestamptz[], ${due.map((d) => d.why)}::text[],
      ${due.map((d) => truth(d.bulk))}::text[]::bool[], ${due.map((d) => d.weight)}::int[], ${due.map((d) => d.bytes)}::int[])`;
}
