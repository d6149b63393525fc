/** Evidence for the caps that does not come from our own deliveries. */

import { plainArray } from "../db/arrays.ts";
import type { Sql } from "../db/connect.ts";
import type { PostmasterDay } from "./caps.ts";

const CHUNK_ROWS = 5_000;

/** `day` counts from 1970. */
export type NewPostmasterDay = PostmasterDay & { workspaceId: string; day: number };

/** What is imported again replaces what was known. */
export async function putPostmasterDays(
  sql: Sql,
  days: readonly NewPostmasterDay[],
  now: Date,
): Promise<void> {
  const unique = new Map(days.map((one) => [`${one.workspaceId} ${one.domain} ${one.day}`, one]));
  const inOrder = [...unique].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  for (let from = 0; from < inOrder.length; from += CHUNK_ROWS)
    await putChunk(sql, inOrder.slice(from, from + CHUNK_ROWS), now);
}

async function putChunk(sql: Sql, days: readonly NewPostmasterDay[], now: Date): Promise<void> {
  const of = (pick: (one: NewPostmasterDay) => string | number | null): string => plainArray(days.map(pick));
  await sql`
    insert into postmaster_day (workspace_id, domain, day, complaint_rate, delivered, reputation, imported_at)
    select workspace_id, domain, day, complaint_rate, delivered, reputation, ${now}
    from unnest(${of((one) => one.workspaceId)}::uuid[], ${of((one) => one.domain)}::text[], ${of((one) => one.day)}::int[],
      ${of((one) => one.complaintRate)}::float8[], ${of((one) => one.delivered)}::int[], ${of((one) => one.reputation)}::text[])
      as n(workspace_id, domain, day, complaint_rate, delivered, reputation)
    order by workspace_id, domain, day
    on conflict (workspace_id, domain, day) do update set complaint_rate = excluded.complaint_rate,
      delivered = excluded.delivered, reputation = excluded.reputation, imported_at = excluded.imported_at`;
}
