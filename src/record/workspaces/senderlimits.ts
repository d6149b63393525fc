/** What the policy holds parts of the mail of a workspace to: streams, and their mail to single providers. */
import type { StreamShares } from "../../rules/stream.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { integer, type RowOf, text, typed } from "../db/rowshape.ts";

/** So many recipients a day may be written to at a provider in one stream. */
const senderLimitRow = {
  stream: text,
  provider: text,
  perDay: integer,
  reason: text,
};
export type SenderLimit = RowOf<typeof senderLimitRow>;

/** Writes what holds now, under the lock of the ledger. */
export async function savePartLimits(
  tx: Tx,
  workspaceId: string,
  shares: StreamShares,
  limits: readonly SenderLimit[],
  now: Date,
): Promise<void> {
  await tx`update ledger set stream_shares = ${tx.json(shares)} where workspace_id = ${workspaceId}`;
  const [streams, providers] = [limits.map((one) => one.stream), limits.map((one) => one.provider)];
  await tx`
    delete from sender_limit where workspace_id = ${workspaceId}
      and (stream, provider) not in (select * from unnest(${streams}::text[], ${providers}::text[]))`;
  await tx`
    insert into sender_limit as l (workspace_id, stream, provider, per_day, reason, changed_at)
    select ${workspaceId}, stream, provider, per_day, reason, ${now}
    from unnest(${streams}::text[], ${providers}::text[], ${limits.map((one) => one.perDay)}::int[],
      ${limits.map((one) => one.reason)}::text[]) as n(stream, provider, per_day, reason)
    order by stream, provider
    on conflict (workspace_id, stream, provider) do update
      set per_day = excluded.per_day, reason = excluded.reason, changed_at = excluded.changed_at
      where l.per_day <> excluded.per_day`;
}

/** Of all workspaces: what workers keep to. */
export async function listSenderLimits(sql: Sql): Promise<(SenderLimit & { workspaceId: string })[]> {
  return typed(sql, { ...senderLimitRow, workspaceId: text })`
    select workspace_id as "workspaceId", stream, provider, per_day as "perDay", reason
    from sender_limit order by workspace_id, stream, provider`;
}

export async function senderLimitsOf(sql: Sql, workspaceId: string): Promise<SenderLimit[]> {
  return typed(sql, senderLimitRow)`
    select stream, provider, per_day as "perDay", reason from sender_limit where workspace_id = ${workspaceId}
    order by stream, provider`;
}
