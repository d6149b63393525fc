/**
 * The floor of contacts: callers that each wait for the upsert of one row, statements of one row each, all
 * that are there in one transaction while the next gather. No HTTP, no keys, no rules.
 */
import { randomUUID } from "node:crypto";
import { newId } from "../src/ids.ts";
import { connectRecord, type Tx } from "../src/record/db/connect.ts";
import { LOOP_WARMUP_SECONDS } from "./load.ts";
import type { Bench } from "./machine.ts";

const KNOWN = 20_000;

export async function upsertFloor(bench: Bench, seconds: number, callers: number): Promise<number> {
  const sql = connectRecord(bench.postgres.url, "commits", 60_000);
  const end = bench.endings.add(() => sql.end());
  const ids = { workspaceId: randomUUID(), audienceId: randomUUID() };
  const waiting: (() => void)[] = [];
  let rows = 0;
  let sent = 0;
  let isOver = false;
  const call = async (until: number): Promise<void> => {
    while (performance.now() < until) {
      await new Promise<void>((resolve) => waiting.push(resolve));
      rows++;
    }
  };
  const commit = async (): Promise<void> => {
    const connection = await sql.reserve();
    while (!isOver) {
      const group = waiting.splice(0);
      if (group.length > 0) {
        const statements = group.map(() => upsert(connection, ids, sent++));
        const all = [
          connection`begin`.execute(),
          ...statements.map((one) => one.execute()),
          connection`commit`.execute(),
        ];
        await Promise.all(all);
        for (const resolve of group) resolve();
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    connection.release();
  };
  const committing = commit();
  const callFor = async (length: number): Promise<void> => {
    const until = performance.now() + length * 1000;
    await Promise.all(Array.from({ length: callers }, () => call(until)));
  };
  await callFor(LOOP_WARMUP_SECONDS);
  rows = 0;
  await callFor(seconds);
  isOver = true;
  await committing;
  await end();
  return rows / seconds;
}

function upsert(tx: Tx, { workspaceId, audienceId }: { workspaceId: string; audienceId: string }, n: number) {
  const email = `user${n % 2 === 0 ? n : n % KNOWN}@example.net`;
  const now = new Date();
  return tx`
    insert into contact (workspace_id, id, audience_id, identity, email, first_name, properties, tags, status, created_at, updated_at)
    values (${workspaceId}, ${newId(now.getTime())}, ${audienceId}, ${email}, ${email}, ${`User ${n}`},
            ${JSON.stringify({ city: "Rome", orders: n })}::text::jsonb, '{customer}', 'subscribed', ${now}, ${now})
    on conflict (workspace_id, audience_id, identity) do update
      set first_name = excluded.first_name, properties = contact.properties || excluded.properties, updated_at = excluded.updated_at`;
}
