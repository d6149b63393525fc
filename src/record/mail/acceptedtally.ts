/** Counts the recipients of accepted mail by day, as settle.ts counts what became of them. */
import type { Sql, Statement } from "../db/connect.ts";
import type { NewEmail } from "./emails.ts";

/** A row for all processes: who commits mail holds the ledger of its workspace. */
const WORKER = "accepted";

export function tallyAccepted(
  tx: Sql,
  emails: readonly Pick<NewEmail, "workspaceId" | "weight">[],
  day: number,
): Statement {
  const counts = new Map<string, number>();
  for (const { workspaceId, weight } of emails)
    counts.set(workspaceId, (counts.get(workspaceId) ?? 0) + weight);
  const rows = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  return tx`
    insert into tally as t (workspace_id, day, worker, accepted)
    select workspace_id, ${day}, ${WORKER}, accepted
    from unnest(${rows.map(([id]) => id)}::uuid[], ${rows.map(([, count]) => count)}::int[])
      as n(workspace_id, accepted)
    on conflict (workspace_id, day, worker) do update set accepted = t.accepted + excluded.accepted`;
}
