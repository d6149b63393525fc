/** `postrider workspace move`: to another cell, live. */
import { Keyring } from "../admission/keyring.ts";
import { Reservations } from "../admission/reserve.ts";
import { codeOf, messageOf } from "../caught.ts";
import type { Config } from "../config.ts";
import { cellsOf } from "../process/cells.ts";
import { MoveError, type MovePhase, Mover, type MovingCell } from "../process/mover.ts";
import { recordClock } from "../process/recordclock.ts";
import { Succeeded } from "../record/cells/moves.ts";
import { connectRecord } from "../record/db/connect.ts";
import { clockTime } from "../record/db/time.ts";
import { connectRedis } from "../redis/connect.ts";
import { settings } from "./context.ts";
import { CommandError, complain, type OutputOptions, say } from "./print.ts";

const ANSWER_MS_MAX = 30_000;
const REDIS_MS_MAX = 2_000;
const INSUFFICIENT_PRIVILEGE = "42501";

export async function moveWorkspace(
  id: string,
  options: OutputOptions & { to?: string; abort?: boolean },
): Promise<void> {
  const { to, abort = false } = options;
  if ((to === undefined) === !abort)
    throw new CommandError("Give --to CELL to move the workspace, or --abort to undo a move.");
  const config = settings();
  const cells = cellsOf(config);
  if (cells === null) throw new CommandError("There are no cells: CELLS_FILE is not set. See docs/cells.md.");
  const opened = await Promise.all(cells.map(({ name, config: own }) => openCell(name, own)));
  const onPhase = (phase: MovePhase) => {
    if (!options.json) complain(`${phase} ...`);
  };
  const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
  const mover = new Mover({ cells: opened.map(({ cell }) => cell), onPhase, wait });
  try {
    if (to === undefined) return sayAborted(id, options, await mover.abort(id));
    const moved = await mover.move(id, to);
    const text = moved
      ? `Workspace ${id} has moved from ${moved.from} to ${to}${moved.pauseMs === null ? "" : `, with a pause of ${Math.round(moved.pauseMs)} ms`}.`
      : `Workspace ${id} is in ${to} already.`;
    const pauseMs = moved?.pauseMs ?? null;
    say(options, { id, cell: to, from: moved?.from ?? to, pause_ms: pauseMs && Math.round(pauseMs) }, text);
  } catch (error) {
    if (error instanceof MoveError || error instanceof Succeeded) throw new CommandError(error.message);
    if (codeOf(error) === INSUFFICIENT_PRIVILEGE)
      throw new CommandError(
        `A database role lacks a permission (${messageOf(error)}). A move needs roles that own the tables and may set session_replication_role, in both cells: see docs/cells.md.`,
      );
    throw error;
  } finally {
    await Promise.all(opened.map(({ close }) => close()));
  }
}

function sayAborted(id: string, options: OutputOptions, wasMoving: boolean): void {
  const text = wasMoving ? `The move of ${id} is undone.` : `Workspace ${id} was not moving.`;
  say(options, { id, aborted: wasMoving }, text);
}

async function openCell(
  name: string,
  { databaseUrl, redisUrl, secret }: Config,
): Promise<{ cell: MovingCell; close(): Promise<void> }> {
  if (databaseUrl === null || redisUrl === null)
    throw new CommandError(`The cell ${name} has no stores. Set DATABASE_URL and REDIS_URL.`);
  const sql = connectRecord(databaseUrl, "setup", ANSWER_MS_MAX);
  const redis = connectRedis(redisUrl, "command", REDIS_MS_MAX);
  redis.on("error", () => {}); // commands that fail say so themselves
  const clock = await recordClock(() => clockTime(sql));
  const keyring = new Keyring({ redis, sql, serverSecret: secret ?? "", clock });
  return {
    cell: { name, sql, keyring, reservations: new Reservations(redis, sql, clock) },
    async close() {
      await sql.end({ timeout: 1 });
      redis.disconnect();
    },
  };
}
