/**
 * `postrider backup` and `postrider restore`: all rows of the record in one file, and back into an empty
 * database.
 */
import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream, rmSync, statSync } from "node:fs";
import { rename, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { counted } from "../capacity/report/words.ts";
import { codeOf, messageOf } from "../caught.ts";
import { ConfigError } from "../config.ts";
import { postgresTrouble } from "../process/unreachable.ts";
import { connectRecord } from "../record/db/connect.ts";
import { DumpError, type DumpSummary, dump, restore } from "../record/db/dump.ts";
import { clockTime } from "../record/db/time.ts";
import { connectRedis, mastersOf } from "../redis/connect.ts";
import { settings } from "./context.ts";
import { expectReadable, whyUnwritable } from "./files.ts";
import { CommandError, complain, type OutputOptions, say } from "./print.ts";

/** As a file: stdout of a backup, stdin of a restore. */
const STANDARD = "-";
const RESTORE_MS_MAX = 86_400_000;
const REDIS_MS_MAX = 5_000;

export async function writeBackup(file: string, options: OutputOptions): Promise<void> {
  const url = databaseUrl();
  if (file === STANDARD) {
    const { rows, tables } = await told(url, () => write(url, process.stdout, "stdout"));
    complain(`Wrote ${rowsOf({ rows, tables })}.`);
    return;
  }
  expectReplaceable(file);
  // of this run alone: another backup to the same file may be under way
  const part = `${file}.${randomUUID().slice(0, 8)}.part`;
  const summary = await told(url, () =>
    removedUnlessDone(part, async () => {
      const out = createWriteStream(part, { flags: "wx", mode: 0o600, flush: true });
      const summary = await write(url, out, file);
      await rename(part, file);
      return summary;
    }),
  );
  const { size: bytes } = await stat(file);
  say(options, { file, bytes, ...summary }, `Wrote ${rowsOf(summary)} to ${file}.`);
}

function rowsOf({ rows, tables }: { rows: number; tables: number }): string {
  return `${counted(rows, "row")} of ${counted(tables, "table")}`;
}

/** Before all the work: at its end nothing but a file can be replaced. */
function expectReplaceable(file: string): void {
  const known = statSync(file, { throwIfNoEntry: false });
  if (!known || known.isFile()) return;
  throw new CommandError(
    known.isDirectory()
      ? `${file} is a folder. Name a file in it, such as ${join(file, "postrider.backup.gz")}.`
      : `${file} is not a file that a backup could replace. Name another, or write to stdout with -.`,
  );
}

const INTERRUPTIONS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** A part of a backup is of no use to anybody, whether the work failed or was interrupted. */
async function removedUnlessDone<T>(part: string, work: () => Promise<T>): Promise<T> {
  const interrupted = (signal: NodeJS.Signals) => {
    rmSync(part, { force: true });
    unheed();
    process.kill(process.pid, signal);
  };
  const unheed = () => {
    for (const signal of INTERRUPTIONS) process.off(signal, interrupted);
  };
  for (const signal of INTERRUPTIONS) process.on(signal, interrupted);
  try {
    return await work();
  } catch (error) {
    try {
      rmSync(part, { force: true });
    } catch {
      // the first error is the one to tell
    }
    throw error;
  } finally {
    unheed();
  }
}

async function write(url: string, out: Writable, name: string): Promise<DumpSummary> {
  let fault: unknown = null;
  out.once("error", (error) => {
    fault = error;
  });
  const zipped = createGzip({ level: 1 });
  const written = pipeline(zipped, out, { end: out !== process.stdout });
  written.catch(() => {}); // waited for below
  try {
    const summary = await dump(url, zipped);
    zipped.end();
    await written;
    return summary;
  } catch (error) {
    zipped.destroy();
    throw fault === null ? error : new CommandError(whyUnwritable(name, fault));
  }
}

export async function restoreBackup(file: string, options: OutputOptions): Promise<void> {
  const url = databaseUrl();
  // before anything tells to empty a Redis that may be in use
  if (file !== STANDARD) expectReadable(file);
  await expectEmptyRedis();
  const sql = connectRecord(url, "setup", RESTORE_MS_MAX);
  try {
    const summary = await told(url, async () => {
      const now = await clockTime(sql);
      return restore(url, sql, opened(file), now);
    });
    const text = `Restored ${rowsOf(summary)}. Run \`postrider migrate\`, then start the processes.`;
    say(options, { file, ...summary }, text);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

function opened(file: string): Readable {
  const unzipped = createGunzip();
  const input = file === STANDARD ? process.stdin : createReadStream(file);
  input.on("error", (error: Error) => unzipped.destroy(error)).pipe(unzipped);
  return unzipped;
}

async function told(url: string, work: () => Promise<DumpSummary>): Promise<DumpSummary> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DumpError) throw new CommandError(error.message);
    const code = codeOf(error);
    if (code === "ENOENT" || code === "Z_DATA_ERROR" || code === "Z_BUF_ERROR")
      throw new CommandError(`The backup cannot be read: ${messageOf(error)}.`);
    throw postgresTrouble(error, url) ?? error;
  }
}

/** Its jobs, counters and keys are newer than the backup. */
async function expectEmptyRedis(): Promise<void> {
  const { redisUrl } = settings();
  if (redisUrl === null) return;
  const redis = connectRedis(redisUrl, "command", REDIS_MS_MAX);
  redis.on("error", () => {}); // the command says so
  try {
    const sizes = await Promise.all((await mastersOf(redis)).map((master) => master.dbsize()));
    if (sizes.some((size) => size > 0))
      throw new CommandError(
        "Redis is not empty: its keys and jobs are newer than the backup. Stop all processes and empty it (FLUSHALL).",
      );
  } finally {
    redis.disconnect();
  }
}

function databaseUrl(): string {
  const { databaseUrl } = settings();
  if (databaseUrl === null)
    throw new ConfigError("There is no database. Set DATABASE_URL, or start the engine with `npm start`.");
  return databaseUrl;
}
