/** Waiting until nothing is on its way any more, and counting what became of it. */
import type { Sql } from "../../src/record/db/connect.ts";

const LOOK_EVERY_MS = 100;

type Count = { state: string; count: number };

/** Resolves when no e-mail of the workspace is open; with the number of e-mails of each status. */
export function settled(sql: Sql, workspaceId: string, patienceMs: number): Promise<Record<string, number>> {
  const open = ["accepted", "deferred", "waiting", "scheduled"];
  return untilNone(
    open,
    patienceMs,
    () => sql<Count[]>`
    select status as state, count(*)::int from email where workspace_id = ${workspaceId} group by status`,
  );
}

/** Resolves when no run of the workspace is under way; with the number of runs in each state. */
export function runsEnded(
  sql: Sql,
  workspaceId: string,
  patienceMs: number,
): Promise<Record<string, number>> {
  return untilNone(
    ["active"],
    patienceMs,
    () => sql<Count[]>`
    select state, count(*)::int from run where workspace_id = ${workspaceId} group by state`,
  );
}

async function untilNone(
  open: readonly string[],
  patienceMs: number,
  count: () => Promise<Iterable<Count>>,
): Promise<Record<string, number>> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const counts = Object.fromEntries([...(await count())].map((one) => [one.state, one.count]));
    if (open.every((state) => !counts[state])) return counts;
    if (performance.now() > deadline)
      throw new Error(`after ${patienceMs} ms there are still ${JSON.stringify(counts)}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
