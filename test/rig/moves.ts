/**
 * A workspace on its way from home to the other cell, step by step: between two steps a test does what it
 * likes.
 */
import { randomUUID } from "node:crypto";
import { dropFence, raiseFence } from "../../src/record/cells/fence.ts";
import {
  arrive,
  type Copied,
  copyStep,
  handOver,
  noteArriving,
  noteLeaving,
} from "../../src/record/cells/moves.ts";
import { workspaceTables } from "../../src/record/cells/tables.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import type { TwoCells } from "./cells.ts";
import type { TestWorkspace } from "./workspace.ts";

/** As text, without what an arrival makes anew: where a bag is in line. */
export async function rowsOf(sql: Sql, workspaceId: string): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {};
  for (const { name, mode } of await workspaceTables(sql)) {
    if (mode === "own" || name === "request") continue;
    const rows = await sql<{ row: string }[]>`
      select (to_jsonb(t) - ${name === "bag" ? ["epoch", "generation"] : []}::text[] - ${name === "api_key" ? ["last_used_at"] : []}::text[])::text as row
      from ${sql(name)} t where t.workspace_id = ${workspaceId} order by 1`;
    found[name] = rows.map(({ row }) => row);
  }
  return found;
}

export type Leaving = {
  /** Its writers are refused for so long. */
  pause(ms: number): Promise<unknown>;
  /** From now on it is not at home. */
  letGo(): Promise<number>;
  /** From now on it is in the other cell. Its fence stays at home. */
  arrive(): Promise<void>;
};

/** The fences are up, and all is copied. */
export async function beginToLeave(
  { home, other }: TwoCells,
  { id, handle }: TestWorkspace,
): Promise<Leaving> {
  const run = { workspaceId: id, id: randomUUID() };
  const move = { ...run, handle };
  const tables = await workspaceTables(home.sql);
  await noteLeaving(home.sql, { ...move, cell: other.name });
  await noteArriving(other.sql, { ...move, cell: home.name }, home.sql);
  await raiseFence(other.sql, tables, move);
  await raiseFence(home.sql, tables, move);
  for (let copied: Copied | null = null; !(copied && "isWhole" in copied); )
    copied = await copyStep(home.sql, other.sql, tables, { ...run, copied });
  return {
    pause: (ms) => home.sql`
      update workspace_move set paused_until = clock_timestamp() + ${ms} * interval '1 ms' where workspace_id = ${id}`,
    letGo: () => handOver(home.sql, other.sql, tables, { ...run, cell: other.name }),
    async arrive() {
      await arrive(other.sql, id);
      await dropFence(other.sql, tables, move);
    },
  };
}
