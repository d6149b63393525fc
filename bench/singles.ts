/**
 * Single mails one after the other at even times, and how long each took from its request until Postgres knew
 * of its delivery.
 */

import type { Bench, Workspace } from "./machine.ts";
import { ONE } from "./mails.ts";
import { openLoop } from "./openloop.ts";
import { until } from "./until.ts";

/** Rising. */
export async function waitsOfSingles(
  { sql }: Bench,
  apiUrl: string,
  { key }: Workspace,
  arrivals: { rate: number; count: number },
): Promise<number[]> {
  const shot = { url: `${apiUrl}/api/v1/emails`, key, method: "POST" as const, body: ONE };
  const sentAt = new Map<string, number>();
  const { failures } = await openLoop(
    arrivals,
    () => shot,
    ({ status, body, waitMs }) => {
      if (status === 200) sentAt.set((JSON.parse(body) as { id: string }).id, Date.now() - waitMs);
    },
  );
  if (failures > 0) throw new Error(`${failures} single sends were refused.`);
  const ids = [...sentAt.keys()];
  let rows: { id: string; at: Date }[] = [];
  await until("the single mails were delivered", async () => {
    rows = await sql<{ id: string; at: Date }[]>`
      select id, delivered_at as at from email where id = any(${ids}::uuid[]) and delivered_at is not null`;
    return rows.length === ids.length;
  });
  return rows.map(({ id, at }) => at.getTime() - (sentAt.get(id) as number)).sort((a, b) => a - b);
}
