/**
 * Which servers are old enough to lack what our statements use, and which databases cannot hold every text.
 */
import type { Sql, Tx } from "./connect.ts";
import { integer, onlyRow, text, typed } from "./rowshape.ts";

/** The first that detaches a partition while others read its parent. */
const POSTGRES_MIN = 14;

/** Said to the operator as it is. */
export class PostgresUnfit extends Error {}

export async function majorVersion(sql: Sql): Promise<number> {
  const asked = typed(sql, { version: integer })`
    select current_setting('server_version_num')::int / 10000 as version`;
  return onlyRow(await asked).version;
}

/** null: it serves. */
export function versionTrouble(major: number): string | null {
  return major >= POSTGRES_MIN ? null : `version ${major} is too old; ${POSTGRES_MIN} or newer is needed`;
}

/** Before a migration or a setting fails half understood. */
export function expectSupported(major: number): void {
  const trouble = versionTrouble(major);
  if (trouble !== null)
    throw new PostgresUnfit(`Postgres (DATABASE_URL): ${trouble}. Upgrade the server, then start again.`);
}

export async function encodingOf(sql: Sql | Tx): Promise<string> {
  const asked = typed(sql, { encoding: text })`select current_setting('server_encoding') as encoding`;
  return onlyRow(await asked).encoding;
}

/** null: it holds every text. */
export function encodingTrouble(encoding: string): string | null {
  return encoding === "UTF8" ? null : `the encoding of the database is ${encoding}; UTF8 is needed`;
}

/** Before it has tables: an e-mail with a character that it cannot hold would be an error of ours. */
export async function expectEncoding(sql: Sql | Tx): Promise<void> {
  const trouble = encodingTrouble(await encodingOf(sql));
  if (trouble !== null)
    throw new PostgresUnfit(
      `Postgres (DATABASE_URL): ${trouble}. Create another one: createdb --encoding=UTF8 --locale=C.UTF-8 --template=template0 NAME`,
    );
}
