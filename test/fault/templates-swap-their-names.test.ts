/**
 * Two templates are given each other's external ids at the same moment. Both are locked first, in one order:
 * else each change would hold its own name and wait for the other's.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { amendTemplate, insertTemplate, type TemplateContent } from "../../src/record/mail/templates.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const SWAPS = 200;
const MS_MAX = 10_000;
const LETTER: TemplateContent = {
  name: "Letter",
  subject: null,
  from: null,
  replyTo: [],
  html: "<p>Hello</p>",
  plain: null,
  variables: [],
  declared: [],
};

let database: OwnDatabase;
let sql: Sql;
beforeEach(async () => {
  database = await ownDatabase();
  sql = connectRecord(database.url, "reads", MS_MAX);
});
afterEach(async () => {
  await sql.end({ timeout: 1 });
  await database.drop();
});

test("both are told that the name is taken, and nobody deadlocks", async () => {
  const now = new Date();
  const workspaceId = newId(now.getTime());
  await sql`insert into workspace (id, handle, name, plan, changed_at, created_at)
    values (${workspaceId}, ${workspaceId}, 'swaps', 'pro', ${now}, ${now})`;
  const names = ["first", "second"] as const;
  const ids = names.map(() => newId(now.getTime()));
  for (const [n, externalId] of names.entries())
    await insertTemplate(sql, { workspaceId, id: ids[n] ?? "", externalId }, LETTER, now);
  for (let swap = 0; swap < SWAPS; swap++) {
    const results = await Promise.all(
      ids.map((id, n) =>
        amendTemplate(sql, workspaceId, id, names[1 - n] ?? null, async () => LETTER, new Date()),
      ),
    );
    expect(results.map(({ kind }) => kind)).toEqual(["taken", "taken"]);
  }
  expect(await deadlocks()).toBe(0);
});

async function deadlocks(): Promise<number> {
  // a backend reports its counts when it is idle, at the latest when it ends
  await sql.end({ timeout: 1 });
  sql = connectRecord(database.url, "reads", MS_MAX);
  const [row] = await sql<{ count: number }[]>`
    select deadlocks::int as count from pg_stat_database where datname = current_database()`;
  return row?.count ?? -1;
}
