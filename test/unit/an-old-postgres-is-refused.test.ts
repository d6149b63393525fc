import { expect, test } from "vitest";
import type { Sql } from "../../src/record/db/connect.ts";
import { migrate } from "../../src/record/db/migrate.ts";
import { PostgresUnfit, versionTrouble } from "../../src/record/db/version.ts";

test("Postgres 14 is the oldest that serves", () => {
  expect([14, 15, 16, 17, 18, 19].map(versionTrouble)).toEqual(Array(6).fill(null));
  expect(versionTrouble(13)).toBe("version 13 is too old; 14 or newer is needed");
});

test("nothing is migrated on an older one, and the error says which is needed", async () => {
  const server = async () => [{ version: 13 }];
  await expect(migrate(server as unknown as Sql, 0)).rejects.toThrow(
    new PostgresUnfit(
      "Postgres (DATABASE_URL): version 13 is too old; 14 or newer is needed. Upgrade the server, then start again.",
    ),
  );
});
