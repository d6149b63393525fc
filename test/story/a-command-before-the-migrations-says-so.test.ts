/** A database without the tables of this version: commands name the one that makes them. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { commandLine } from "../rig/command.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const ID = "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90";

let database: OwnDatabase;
beforeAll(async () => {
  database = await ownDatabase();
  const sql = connectRecord(database.url, "setup", 10_000);
  await sql.unsafe("drop schema public cascade; create schema public");
  await sql.end();
});
afterAll(() => database.drop());

test.each([
  [["workspace", "list"]],
  [["workspace", "create", "--name", "Shop", "--plan", "pro"]],
  [["key", "create", "--workspace", ID, "--preset", "full"]],
  [["usage", "--workspace", ID]],
  [["queue"]],
])("%j", async (command) => {
  const { postrider } = commandLine({ databaseUrl: database.url });
  expect(await postrider(...command)).toEqual({
    status: 1,
    out: "",
    err: expect.stringMatching(
      /^The database lacks tables of this version: relation "\w+" does not exist\. Run `postrider migrate`\.\n$/,
    ),
  });
});
