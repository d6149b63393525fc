/** `postrider migrate`: brings the schema up to date. */
import { ConfigError } from "../config.ts";
import { postgresTrouble } from "../process/unreachable.ts";
import { connectRecord } from "../record/db/connect.ts";
import { migrate } from "../record/db/migrate.ts";
import { clockTime } from "../record/db/time.ts";
import { settings } from "./context.ts";
import { type OutputOptions, say } from "./print.ts";

const MIGRATE_MS_MAX = 600_000;

function waiting(name: string): string {
  return `${name} waits: a table that it changes is in use, by a backup it may be. It goes on as soon as that is over.`;
}

export async function migrateRecord(options: OutputOptions): Promise<void> {
  const { databaseUrl } = settings();
  if (databaseUrl === null)
    throw new ConfigError(
      "There is no database to migrate. Set DATABASE_URL, or start the engine with `npm start`.",
    );
  const sql = connectRecord(databaseUrl, "setup", MIGRATE_MS_MAX);
  const applied: string[] = [];
  try {
    await migrate(sql, await clockTime(sql), {
      applied: (name) => applied.push(name),
      waits: (name) => void process.stderr.write(`${waiting(name)}\n`),
    });
  } catch (error) {
    throw postgresTrouble(error, databaseUrl) ?? error;
  } finally {
    await sql.end({ timeout: 1 });
  }
  say(
    options,
    { applied },
    applied.length > 0 ? `Applied ${applied.join(", ")}.` : "No migrations are missing.",
  );
}
