/** Evidence for the caps that does not come from our own deliveries. */

import { plainArray } from "../db/arrays.ts";
import type { Sql, Tx } from "../db/connect.ts";
import type { PostmasterDay } from "./caps.ts";

const CHUNK_ROWS = 5_000;
const DAY_DIGITS = 6;

/** `day` counts from 1970. */
export type NewPostmasterDay = PostmasterDay & { workspaceId: string; day: number };

/** All of them or none. What is imported again replaces what was known. */
export async function putPostmasterDays(
  sql: Sql,
  days: readonly NewPostmasterDay[],
  now: Date,
): Promise<void> {
  const keyOf = ({ workspaceId, domain, day, provider }: NewPostmasterDay) =>
    [workspaceId, domain, String(day).padStart(DAY_DIGITS, "0"), provider ?? ""].join(" ");
  const inOrder = days
    .map((one) => ({ key: keyOf(one), one }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ one }) => one);
  await sql.begin(async (tx) => {
    for (const chunk of chunksOf(inOrder.filter(({ provider }) => provider === null)))
      await putChunk(tx, chunk, now);
    for (const chunk of chunksOf(inOrder.filter(({ provider }) => provider !== null)))
      await putProviderChunk(tx, chunk, now);
  });
}

function chunksOf<T>(rows: readonly T[]): T[][] {
  const chunks = Math.ceil(rows.length / CHUNK_ROWS);
  return Array.from({ length: chunks }, (_, n) => rows.slice(n * CHUNK_ROWS, (n + 1) * CHUNK_ROWS));
}

type Pick = (pick: (one: NewPostmasterDay) => string | number | null) => string;

async function putChunk(tx: Tx, days: readonly NewPostmasterDay[], now: Date): Promise<void> {
  const of: Pick = (pick) => plainArray(days.map(pick));
  await tx`
    insert into postmaster_day (workspace_id, domain, day, complaint_rate, delivered, reputation, imported_at)
    select workspace_id, domain, day, complaint_rate, delivered, reputation, ${now}
    from unnest(${of((one) => one.workspaceId)}::uuid[], ${of((one) => one.domain)}::text[],
      ${of((one) => one.day)}::int[],
      ${of((one) => one.complaintRate)}::float8[], ${of((one) => one.delivered)}::int[],
      ${of((one) => one.reputation)}::text[])
      as n(workspace_id, domain, day, complaint_rate, delivered, reputation)
    order by workspace_id, domain, day
    on conflict (workspace_id, domain, day) do update set complaint_rate = excluded.complaint_rate,
      delivered = excluded.delivered, reputation = excluded.reputation, imported_at = excluded.imported_at`;
}

async function putProviderChunk(tx: Tx, days: readonly NewPostmasterDay[], now: Date): Promise<void> {
  const of: Pick = (pick) => plainArray(days.map(pick));
  await tx`
    insert into provider_day (workspace_id, domain, day, provider, complaint_rate, delivered, reputation,
      imported_at)
    select workspace_id, domain, day, provider, complaint_rate, delivered, reputation, ${now}
    from unnest(${of((one) => one.workspaceId)}::uuid[], ${of((one) => one.domain)}::text[],
      ${of((one) => one.day)}::int[],
      ${of((one) => one.provider)}::text[], ${of((one) => one.complaintRate)}::float8[],
      ${of((one) => one.delivered)}::int[],
      ${of((one) => one.reputation)}::text[])
      as n(workspace_id, domain, day, provider, complaint_rate, delivered, reputation)
    order by workspace_id, domain, day, provider
    on conflict (workspace_id, domain, day, provider) do update set complaint_rate = excluded.complaint_rate,
      delivered = excluded.delivered, reputation = excluded.reputation, imported_at = excluded.imported_at`;
}
