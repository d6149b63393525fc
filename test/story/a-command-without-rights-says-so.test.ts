/** A store that lets a command in and refuses what it asks: it says what is missing, and who gives it. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { commandLine } from "../rig/command.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";

const reader = `reader_${randomUUID().slice(0, 8)}`;
const standby = `standby_${randomUUID().slice(0, 8)}`;

let database: OwnDatabase;
let redis: OwnRedis;
let sql: Sql;
let workspace: string;
beforeAll(async () => {
  [database, redis] = await Promise.all([ownDatabase(), ownRedis()]);
  sql = connectRecord(database.url, "setup", 10_000);
  await sql.unsafe(`create role ${reader} login password 'x'; create role ${standby} login password 'x';
    grant select on all tables in schema public to ${reader};
    grant all on all tables in schema public to ${standby};
    alter role ${standby} set default_transaction_read_only = on`);
  const { id } = await commandLine({ databaseUrl: database.url, redisUrl: redis.url }).json<{
    id: string;
  }>("workspace", "create", "--name", "Shop", "--plan", "pro");
  workspace = id;
});
afterAll(async () => {
  await sql.unsafe(`drop owned by ${reader}, ${standby}; drop role ${reader}, ${standby}`);
  await sql.end();
  await Promise.all([database.drop(), redis.stop()]);
});

const audience = () => ["audience", "create", "--workspace", workspace, "--name", "News"];

function urlAs(user: string, text: string): string {
  const url = new URL(text);
  if (url.protocol === "unix:") {
    url.searchParams.set("username", user);
    url.searchParams.set("password", "x");
  } else [url.username, url.password] = [user, "x"];
  return url.href;
}

test.each([
  [
    reader,
    1,
    /^The user of DATABASE_URL lacks a right: permission denied for table audience\. Run ops\/postgres-roles\.sql in this database\.\n$/,
  ],
  [
    standby,
    69,
    /^Postgres at \S+ \(DATABASE_URL\) accepts no writes: cannot execute \w+ in a read-only transaction\. Name the primary in DATABASE_URL; if this is it, reset default_transaction_read_only of the database or the role\.\n$/,
  ],
])("Postgres, as %s", async (user, status, said) => {
  const line = commandLine({ databaseUrl: urlAs(user, database.url), redisUrl: redis.url });
  const ran = await line.postrider(...audience());
  expect(ran).toEqual({ status, out: "", err: expect.stringMatching(said) });
});

test("a migration that may not write", async () => {
  const [undone] = await sql<{ name: string; checksum: string }[]>`
    delete from migration where name = (select max(name) from migration) returning name, checksum`;
  const line = commandLine({ databaseUrl: urlAs(standby, database.url), redisUrl: redis.url });
  const { status, err } = await line.postrider("migrate");
  expect(err).toMatch(
    /^Postgres at \S+ \(DATABASE_URL\) accepts no writes: .* reset default_transaction_read_only/,
  );
  expect(status).toBe(69);
  await sql`insert into migration (name, checksum) values (${undone?.name ?? ""}, ${undone?.checksum ?? ""})`;
});

// a user is made at one server, and put in its URL
test("Redis", { tags: "one-redis" }, async () => {
  const client = connectRedis(redis.url, "command", 10_000);
  await client.call("ACL", "SETUSER", reader, "on", ">x", "~*", "&*", "+@read", "+@connection", "+info");
  client.disconnect();
  const line = commandLine({ databaseUrl: database.url, redisUrl: urlAs(reader, redis.url) });
  const { status, err } = await line.postrider("key", "create", "--workspace", workspace, "--preset", "full");
  expect(err).toMatch(
    /^Redis at \S+ \(REDIS_URL\) refuses a command: NOPERM .* Give the user of REDIS_URL the rights ~\* /,
  );
  expect(status).toBe(69);
});
