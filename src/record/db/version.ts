/** What a Postgres server says of itself. */
import type { Sql } from "./connect.ts";
import { integer, onlyRow, typed } from "./rowshape.ts";

export async function majorVersion(sql: Sql): Promise<number> {
  const asked = typed(sql, { version: integer })`
    select current_setting('server_version_num')::int / 10000 as version`;
  return onlyRow(await asked).version;
}
