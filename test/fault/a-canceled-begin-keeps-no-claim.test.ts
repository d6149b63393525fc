/**
 * The first statements of a group are sent together with its `begin`. When Postgres cancels that one, the
 * others are executed on their own, and nothing of them may be kept: a claim without its mail would refuse
 * that mail for a day.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { markBegun } from "../../src/record/db/begun.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { takeClaims } from "../../src/record/mail/idempotency.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const workspaceId = newId(Date.now());
const claim = { workspaceId, scope: "emails", key: "order-1", digest: "00", answer: "{}" };

let database: OwnDatabase;
let sql: Sql;
beforeAll(async () => {
  database = await ownDatabase();
  sql = connectRecord(database.url, "setup", 10_000);
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
  await database.drop();
});

const claims = async () => (await sql`select from claim`).length;

test("a claim is kept with its transaction, and not without", async () => {
  const connection = await sql.reserve();
  await Promise.all([markBegun(connection).execute(), takeClaims(connection, [claim], 0)]);
  connection.release();
  expect(await claims()).toBe(0);
  await sql.begin(async (tx) => {
    await Promise.all([markBegun(tx).execute(), takeClaims(tx, [claim], 0)]);
  });
  expect(await claims()).toBe(1);
});
