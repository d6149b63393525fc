/**
 * The fence around a workspace that moves: triggers on every table that has rows of it, for its rows alone.
 * Nobody else pays more than a comparison, and only in a cell that something leaves or comes to. What the
 * triggers allow is decided by the row of the move, in the transaction of each write (0044_moves.sql).
 */
import { codeOf } from "../../caught.ts";
import type { Sql } from "../db/connect.ts";
import { text, typed } from "../db/rowshape.ts";
import { expectOursStill, type MovingRun } from "./moves.ts";
import { quoted } from "./rows.ts";
import type { MovedTable } from "./tables.ts";

const LOCK_MS_MAX = 100;
const LOCK_PAUSE_MS = 200;
/** Behind us others wait as long as we do. After these, Postgres ends a vacuum that is in our way. */
const SHORT_TRIES = 20;
const LONG_LOCK_MS_MAX = 1_300;
const TRIES_MAX = 40;
const LOCK_TIMEOUT = "55P03";
const WORKSPACE_TABLE = { name: "workspace", column: "id" };

export type FencedWorkspace = { workspaceId: string; handle: string };

/** `_w` writes, `_d` deletes: a condition sees either the new row or the old one. */
const TRIGGERS = [
  { suffix: "w", event: "insert or update", row: "new" },
  { suffix: "d", event: "delete", row: "old" },
] as const;

type Fenced = { name: string; condition(row: string): string; argument: string };

/** If so, no write has passed it unseen since it was put up. */
export async function isFenced(
  sql: Sql,
  tables: readonly MovedTable[],
  workspace: FencedWorkspace,
): Promise<boolean> {
  const standing = await triggersOf(sql, workspace);
  return fencedTables(tables, workspace).every(
    ({ name }) => missingOn(name, standing, workspace).length === 0,
  );
}

/** Not by a run that was succeeded by another: nobody would take down what it puts up. */
export async function raiseFence(
  sql: Sql,
  tables: readonly MovedTable[],
  workspace: FencedWorkspace & MovingRun,
): Promise<void> {
  const standing = await triggersOf(sql, workspace);
  for (const { name, condition, argument } of fencedTables(tables, workspace)) {
    const statements = missingOn(name, standing, workspace).map(
      ({ suffix, event, row }) => `
        create trigger ${nameOf(workspace, suffix)} before ${event} on ${quoted(name)} for each row
        when (${condition(row)})
        execute function fence_workspace('${workspace.workspaceId}', '${name}', '${argument}')`,
    );
    if (statements.length > 0) await untilLocked(sql, statements, workspace);
  }
}

function missingOn(table: string, standing: ReadonlySet<string>, workspace: FencedWorkspace) {
  return TRIGGERS.filter(({ suffix }) => !standing.has(`${table} ${nameOf(workspace, suffix)}`));
}

export async function dropFence(
  sql: Sql,
  tables: readonly MovedTable[],
  workspace: FencedWorkspace,
): Promise<void> {
  const standing = await triggersOf(sql, workspace);
  for (const { name } of fencedTables(tables, workspace)) {
    const statements = TRIGGERS.filter(({ suffix }) =>
      standing.has(`${name} ${nameOf(workspace, suffix)}`),
    ).map(({ suffix }) => `drop trigger if exists ${nameOf(workspace, suffix)} on ${quoted(name)}`);
    if (statements.length > 0) await untilLocked(sql, statements);
  }
}

function fencedTables(tables: readonly MovedTable[], { workspaceId, handle }: FencedWorkspace): Fenced[] {
  const ofTable = ({ name, mode, key }: MovedTable): Fenced => ({
    name,
    condition: (row) => `${row}.workspace_id = '${workspaceId}'`,
    argument: mode === "early" ? keyOf("($1)", key) : "",
  });
  const moved = tables.filter(({ mode, name }) => mode !== "own" || name === "member").map(ofTable);
  return [
    ...moved,
    {
      name: "report",
      condition: (row) => `${row}.handle = '${handle}' or ${row}.workspace_id = '${workspaceId}'`,
      argument: "",
    },
    { name: WORKSPACE_TABLE.name, condition: (row) => `${row}.id = '${workspaceId}'`, argument: "" },
  ];
}

/** As jsonb; null where a part of it is. */
export function keyOf(row: string, key: MovedTable["key"]): string {
  const parts = key.map(({ name }) => `${row}.${quoted(name)}`);
  const isWhole = parts.map((part) => `${part} is not null`).join(" and ");
  return `case when ${isWhole} then jsonb_build_array(${parts.join(", ")}) end`;
}

function nameOf({ workspaceId }: FencedWorkspace, suffix: string): string {
  // first of all: a row that is refused makes no other trigger run
  return `"0_move_${workspaceId}_${suffix}"`;
}

/** As `table "trigger"`. */
async function triggersOf(sql: Sql, workspace: FencedWorkspace): Promise<Set<string>> {
  const names = TRIGGERS.map(({ suffix }) => nameOf(workspace, suffix).slice(1, -1));
  const rows = await typed(sql, { found: text })`
    select tgrelid::regclass::text || ' "' || tgname || '"' as found from pg_trigger
      where tgname = any(${names}::text[])`;
  return new Set(rows.map(({ found }) => found));
}

async function untilLocked(
  sql: Sql,
  statements: readonly string[],
  run: MovingRun | null = null,
): Promise<void> {
  for (let n = 1; ; n++) {
    try {
      await sql.begin(async (tx) => {
        await tx`select set_config('lock_timeout', ${String(n > SHORT_TRIES ? LONG_LOCK_MS_MAX : LOCK_MS_MAX)}, true)`;
        if (run) await expectOursStill(tx, run);
        for (const statement of statements) await tx.unsafe(statement);
      });
      return;
    } catch (error) {
      if (codeOf(error) !== LOCK_TIMEOUT || n === TRIES_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, LOCK_PAUSE_MS));
    }
  }
}
