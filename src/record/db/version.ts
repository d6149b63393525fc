/**
 * What a Postgres server says of itself, and which servers are old enough to lack what our statements use.
 */
import type { Sql } from "./connect.ts";
import { integer, onlyRow, typed } from "./rowshape.ts";

/** The first that detaches a partition while others read its parent. */
const POSTGRES_MIN = 14;

/** Said to the operator as it is. */
export class PostgresTooOld extends Error {}

export async function majorVersion(sql: Sql): Promise<number> {
  const asked = typed(sql, { version: integer })`
    select current_setting('server_version_num')::int / 10000 as version`;
  return onlyRow(await asked).version;
}

/** null: it serves. */
export function versionTrouble(major: number): string | null {
  return major >= POSTGRES_MIN ? null : `version ${major} is too old; ${POSTGRES_MIN} or newer is needed`;
}

/** Before a migration fails half understood. */
export async function expectSupported(sql: Sql): Promise<void> {
  const trouble = versionTrouble(await majorVersion(sql));
  if (trouble !== null)
    throw new PostgresTooOld(`Postgres (DATABASE_URL): ${trouble}. Upgrade the server, then start again.`);
}
