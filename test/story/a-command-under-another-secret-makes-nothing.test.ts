/**
 * What a command makes under a secret that is not the engine's, no process could use: a key is refused, a
 * DKIM key cannot be opened, a suppression does not hold. It is refused, and nothing is stored.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { SECRET } from "../rig/workspace.ts";

const NOT_THE_SECRET =
  "POSTRIDER_SECRET is not the secret that this database belongs to. Set the one that its keys were made with.\n";

let database: OwnDatabase;
let folder: string;
let sql: Sql;
let cli: CommandLine;
let other: CommandLine;
let workspace: string;
let audience: string;
beforeAll(async () => {
  database = await ownDatabase();
  folder = mkdtempSync(join(tmpdir(), "postrider-secret-"));
  writeFileSync(join(folder, "list.csv"), "email\nada@example.net\n");
  sql = connectRecord(database.url, "setup", 10_000);
  cli = under(SECRET);
  other = under("the secret of another installation, quite as long");
  const made = await cli.json<{ id: string }>("workspace", "create", "--name", "Shop", "--plan", "pro");
  workspace = made.id;
  audience = (await cli.json<{ id: string }>("audience", "create", "--workspace", workspace, "--name", "All"))
    .id;
  await cli.json("key", "create", "--workspace", workspace, "--preset", "full");
});
afterAll(async () => {
  await sql.end();
  await database.drop();
  rmSync(folder, { recursive: true });
});

function under(secret: string): CommandLine {
  return commandLine({ databaseUrl: database.url, settings: { POSTRIDER_SECRET: secret } });
}

async function rows(): Promise<unknown> {
  const [counts] = await sql`
    select (select count(*)::int from api_key) as keys,
           (select count(*)::int from domain_key) as "domainKeys",
           (select count(*)::int from webhook) as webhooks,
           (select count(*)::int from suppression) as suppressions,
           (select count(*)::int from contact) as contacts`;
  return { ...counts };
}

test.each([
  ["key create", () => ["key", "create", "--preset", "full", "--workspace", workspace]],
  ["domain add", () => ["domain", "add", "example.com", "--workspace", workspace]],
  ["webhook add", () => ["webhook", "add", "https://example.com/hook", "--workspace", workspace]],
  ["suppression add", () => ["suppression", "add", "ada@example.net", "--workspace", workspace]],
  ["suppression remove", () => ["suppression", "remove", "ada@example.net", "--workspace", workspace]],
  ["suppression import", () => ["suppression", "import", join(folder, "list.csv"), "--workspace", workspace]],
  ["contact import", () => ["contact", "import", join(folder, "list.csv"), "--audience", audience]],
])("%s", async (_, command) => {
  const before = await rows();
  expect(await other.postrider(...command())).toEqual({ status: 78, out: "", err: NOT_THE_SECRET });
  expect(await rows()).toEqual(before);
});

test("what needs no secret is answered under any", async () => {
  expect(await other.json("key", "list", "--workspace", workspace)).toHaveLength(1);
});
