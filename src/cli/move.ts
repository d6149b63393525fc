/** `postrider workspace move`: to another cell, live. */

import { Keyring } from "../admission/keyring.ts";
import { Reservations } from "../admission/reserve.ts";
import { codeOf, messageOf } from "../caught.ts";
import { inTime } from "../clock.ts";
import { type Config, ConfigError } from "../config.ts";
import { cellsOf } from "../process/cells.ts";
import { MoveError, type MovePhase, Mover, type MovingCell } from "../process/mover.ts";
import { recordClock } from "../process/recordclock.ts";
import { postgresAt, postgresTrouble, StoreUnreachable, unreachable } from "../process/unreachable.ts";
import { type Pauses, Succeeded } from "../record/cells/moves.ts";
import { connectRecord, type Sql } from "../record/db/connect.ts";
import { schemaTrouble, tryToWrite } from "../record/db/migrate.ts";
import { clockTime } from "../record/db/time.ts";
import { connectRedis } from "../redis/connect.ts";
import { settings } from "./context.ts";
import { CommandError, complain, type OutputOptions, say, UsageError } from "./print.ts";

const ANSWER_MS_MAX = 30_000;
const REDIS_MS_MAX = 2_000;
const ASK_MS_MAX = 5_000;
const INSUFFICIENT_PRIVILEGE = "42501";

export async function moveWorkspace(
  id: string,
  options: OutputOptions & { to?: string; abort?: boolean },
): Promise<void> {
  const { to, abort = false } = options;
  if ((to === undefined) === !abort)
    throw new UsageError("Give --to CELL to move the workspace, or --abort to undo a move.");
  const config = settings();
  const cells = cellsOf(config);
  if (cells === null) throw new ConfigError("There are no cells: CELLS_FILE is not set. See docs/cells.md.");
  const connected = cells.map(({ name, config: own }) => connectCell(name, own));
  const onPhase = (phase: MovePhase) => {
    if (!options.json) complain(`${phase} ...`);
  };
  const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
  try {
    const mover = new Mover({ cells: await Promise.all(connected.map(({ open }) => open())), onPhase, wait });
    if (to === undefined) return sayAborted(id, options, await mover.abort(id));
    const moved = await mover.move(id, to);
    const text = moved
      ? `Workspace ${id} has moved from ${moved.from} to ${to}${pausesInWords(moved.pauses)}.`
      : `Workspace ${id} is in ${to} already.`;
    const { count = null, longestMs = null } = moved?.pauses ?? {};
    const told = { pauses: count, pause_ms: longestMs && Math.round(longestMs) };
    say(options, { id, cell: to, from: moved?.from ?? to, ...told }, text);
  } catch (error) {
    if (error instanceof MoveError || error instanceof Succeeded) throw new CommandError(error.message);
    if (codeOf(error) === INSUFFICIENT_PRIVILEGE)
      throw new CommandError(
        `A database role lacks a permission (${messageOf(error)}). A move needs roles that own the tables and may set session_replication_role, in both cells: see docs/cells.md.`,
      );
    throw (await storeTrouble(connected, error)) ?? error;
  } finally {
    await Promise.all(connected.map(({ close }) => close()));
  }
}

/** Of Postgres: no such column, function or table. */
const MISSING = ["42703", "42883", "42P01"];

function pausesInWords(pauses: Pauses | null): string {
  if (pauses === null) return "";
  const { count, longestMs } = pauses;
  const ms = `${Math.round(longestMs)} ms`;
  return count === 1 ? `, with a pause of ${ms}` : `, with ${count} pauses, the longest of ${ms}`;
}

/** The error says nothing of the cell that it met, so each is asked; null: it is about something else. */
async function storeTrouble(cells: readonly ConnectedCell[], error: unknown): Promise<Error | null> {
  const lost = postgresTrouble(error, cells[0]?.databaseUrl ?? "");
  if (lost === null && !MISSING.includes(codeOf(error) ?? "")) return null;
  const [found] = (await Promise.all(cells.map(cellTrouble))).filter((one) => one !== null);
  if (found) return found;
  return lost && new StoreUnreachable(`A connection to Postgres was lost. ${AGAIN}`);
}

async function cellTrouble({ name, databaseUrl, sql }: ConnectedCell): Promise<Error | null> {
  const asked = schemaTrouble(sql)
    .then(async (trouble) => {
      if (trouble === null) await tryToWrite(sql);
      return trouble;
    })
    .catch((error: unknown) => postgresTrouble(error, databaseUrl));
  const trouble = await inTime(ASK_MS_MAX, asked, () => unreachable(postgresAt(databaseUrl)));
  if (typeof trouble === "string")
    return new CommandError(
      `The cell ${name} lacks tables of this version. Run \`postrider --cell ${name} migrate\`.`,
    );
  return trouble && new StoreUnreachable(`The cell ${name}: ${trouble.message} ${AGAIN}`);
}

const AGAIN = "Then run the command again: it continues where it was.";

function sayAborted(id: string, options: OutputOptions, wasMoving: boolean): void {
  const text = wasMoving ? `The move of ${id} is undone.` : `Workspace ${id} was not moving.`;
  say(options, { id, aborted: wasMoving }, text);
}

type ConnectedCell = {
  name: string;
  databaseUrl: string;
  sql: Sql;
  open(): Promise<MovingCell>;
  close(): Promise<void>;
};

function connectCell(name: string, { databaseUrl, redisUrl, secret }: Config): ConnectedCell {
  if (databaseUrl === null || redisUrl === null)
    throw new CommandError(`The cell ${name} has no stores. Set DATABASE_URL and REDIS_URL.`);
  const sql = connectRecord(databaseUrl, "setup", ANSWER_MS_MAX);
  const redis = connectRedis(redisUrl, "command", REDIS_MS_MAX);
  redis.on("error", () => {}); // commands that fail say so themselves
  return {
    ...{ name, databaseUrl, sql },
    async open() {
      const clock = await recordClock(() => clockTime(sql));
      const keyring = new Keyring({ redis, sql, serverSecret: secret ?? "", clock });
      return { name, sql, keyring, reservations: new Reservations(redis, sql, clock) };
    },
    async close() {
      await sql.end({ timeout: 1 });
      redis.disconnect();
    },
  };
}
