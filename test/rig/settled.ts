/** Waiting until nothing is on its way any more, and counting what became of it. */
import type { Sql } from "../../src/record/connect.ts";

const LOOK_EVERY_MS = 100;

/** Resolves when no e-mail of the workspace is open; with the number of e-mails of each status. */
export async function settled(
  sql: Sql,
  workspaceId: string,
  patienceMs: number,
): Promise<Record<string, number>> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const rows = await sql<{ status: string; count: number }[]>`
      select status, count(*)::int from email where workspace_id = ${workspaceId} group by status`;
    const counts = Object.fromEntries(rows.map((row) => [row.status, row.count]));
    const open =
      (counts.accepted ?? 0) + (counts.deferred ?? 0) + (counts.waiting ?? 0) + (counts.scheduled ?? 0);
    if (open === 0) return counts;
    if (performance.now() > deadline)
      throw new Error(`after ${patienceMs} ms there are still ${JSON.stringify(counts)}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

/** Resolves when no run of the workspace is under way; with the number of runs in each state. */
export async function runsEnded(
  sql: Sql,
  workspaceId: string,
  patienceMs: number,
): Promise<Record<string, number>> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const rows = await sql<{ state: string; count: number }[]>`
      select state, count(*)::int from run where workspace_id = ${workspaceId} group by state`;
    const counts = Object.fromEntries(rows.map((row) => [row.state, row.count]));
    if ((counts.active ?? 0) === 0) return counts;
    if (performance.now() > deadline)
      throw new Error(`after ${patienceMs} ms there are still ${JSON.stringify(counts)}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
