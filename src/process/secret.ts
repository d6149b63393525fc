/** A database belongs to one secret: no process and no command uses it under another. */
import { ConfigError } from "../config.ts";
import { secretDigest } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { keepSecretDigest } from "../record/workspaces/secretcheck.ts";

/** With another secret no key would be known, no link hold and no signing key open. */
export async function expectSecret(sql: Sql, secret: string): Promise<void> {
  if (!(await keepSecretDigest(sql, secretDigest(secret))))
    throw new ConfigError(
      "POSTRIDER_SECRET is not the secret that this database belongs to. Set the one that its keys were made with.",
    );
}
