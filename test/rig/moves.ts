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
  NotYet,
  noteArriving,
  noteLeaving,
} from "../../src/record/cells/moves.ts";
import { type MovedTable, workspaceTables } from "../../src/record/cells/tables.ts";
import type { Sql, Tx } from "../../src/record/db/connect.ts";
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

/** The transaction at home may not be idle for longer than a second. */
type Amid = (atHome: Tx) => Promise<unknown>;
const nothing: Amid = async () => {};

/** It waited for a lock for too long, or stood still for so long that Postgres ended it. */
const LATE = ["55P03", "25P03", "EPIPE", "ECONNRESET", "CONNECTION_CLOSED"];
/** Whether a switch was taken back since it took too long. */
export const isTakenBack = (error: unknown): boolean =>
  error instanceof NotYet || LATE.includes((error as { code?: string }).code ?? "");
const SWITCH_MS_MAX = 30_000;
const RETRY_MS = 50;

/**
 * On a busy machine a switch takes longer than writers may be paused, and is taken back: then it is tried
 * again, as a mover does it, unless `amid` has begun.
 */
export async function switchOver(
  { home, other }: Pick<TwoCells, "home" | "other">,
  tables: readonly MovedTable[],
  run: { workspaceId: string; id: string },
  amid: Amid = nothing,
): Promise<void> {
  const deadline = performance.now() + SWITCH_MS_MAX;
  let hasBegun = false;
  const once: Amid = (atHome) => {
    hasBegun = amid !== nothing;
    return amid(atHome);
  };
  for (;;)
    try {
      return await handOver(beforeCommit(home.sql, once), other.sql, tables, { ...run, cell: other.name });
    } catch (error) {
      if (!isTakenBack(error) || hasBegun || performance.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
}

function beforeCommit(sql: Sql, amid: Amid): Sql {
  return new Proxy(sql, {
    get(pool, name) {
      const member: unknown = Reflect.get(pool, name, pool);
      if (name !== "begin") return typeof member === "function" ? member.bind(pool) : member;
      return (run: (tx: Tx) => Promise<unknown>) =>
        pool.begin(async (tx) => {
          const done = await run(tx);
          await amid(tx);
          return done;
        });
    },
  });
}

export type Leaving = {
  /** Its writers are refused for so long. */
  pause(ms: number): Promise<unknown>;
  /** From now on it is not at home. `amid`: all of the switch is done but its commit. */
  letGo(amid?: Amid): Promise<void>;
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
    letGo: (amid) => switchOver({ home, other }, tables, run, amid),
    async arrive() {
      await arrive(other.sql, id);
      await dropFence(other.sql, tables, move);
    },
  };
}
