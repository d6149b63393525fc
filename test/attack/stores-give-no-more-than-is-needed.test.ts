/**
 * The users that docker-compose.yml gives to the processes, on a real Postgres and a real Redis: an engine
 * serves with them, from the send to the delivery, and they may do nothing beside that. The roles are those
 * of ops/, as they are run there; the rules for Redis are read from docker-compose.yml.
 */
// @module-tag one-redis: makes a user at one server, and puts it in its URL
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import { migrate } from "../../src/record/db/migrate.ts";
import { dayName, isThere, listPartitions, makePartitions } from "../../src/record/db/partitions.ts";
import { detachPartition, dropDetached } from "../../src/record/mail/retention.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { commandLine } from "../rig/command.ts";
import { dropDatabase } from "../rig/database.ts";
import { startEngine } from "../rig/engine.ts";
import { parsed, read } from "../rig/opsfiles.ts";
import { outsideTransactions } from "../rig/outside.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail } from "../rig/workspace.ts";

const COMPOSE = read("docker-compose.yml");
const ROLES = read("ops/postgres-roles.sql");
const PASSWORDS = { owner: randomBytes(12).toString("hex"), serving: randomBytes(12).toString("hex") };
const MS_MAX = 30_000;
/** It is written in pieces, ahead of its e-mail. */
const LARGE_BYTES = 1024 * 1024;
const DAY_MS = 86_400_000;
const FORBIDDEN = "42501";
const CHANGES_A_TABLE = "0049_resumed_for.sql";

let database: OwnDatabase;
let redis: OwnRedis;
let sink: Sink;
let superuser: Sql;
let owner: Sql;
let serving: Sql;
let redisUrl: string;
beforeAll(async () => {
  [database, redis, sink] = await Promise.all([ownDatabase(), ownRedis(), openSink()]);
  superuser = connectRecord(database.url, "setup", MS_MAX);
  for (let n = 0; n < 2; n++) await superuser.unsafe(plain(ROLES));
  owner = connectRecord(urlOf("postrider_owner", PASSWORDS.owner), "setup", MS_MAX);
  serving = connectRecord(urlOf("postrider", PASSWORDS.serving), "setup", MS_MAX);
  redisUrl = await withUsers(redis.url);
});
afterAll(async () => {
  for (const sql of [owner, serving, superuser]) await sql.end({ timeout: 1 });
  await Promise.all([database.drop(), redis.stop(), sink.close()]);
});

/** What psql does with the file before it sends it. */
function plain(file: string): string {
  return file
    .replace(/^\\.*$/gm, "")
    .replaceAll(":'owner_password'", `'${PASSWORDS.owner}'`)
    .replaceAll(":'serving_password'", `'${PASSWORDS.serving}'`);
}

function urlOf(user: string, password: string): string {
  const url = new URL(database.url);
  url.username = user;
  url.password = password;
  return url.href;
}

/** Makes the users that Compose writes into Redis' file of users; hands back the url for the engine. */
async function withUsers(url: string): Promise<string> {
  const lines = /printf '(user .*)' "\$\$REDIS_PASSWORD"/.exec(COMPOSE)?.[1]?.split("\\n") ?? [];
  const admin = connectRedis(url, "worker", MS_MAX);
  admin.on("error", () => {});
  const users = lines.flatMap((line) =>
    line === "" ? [] : [line.replace("%s", "secret").split(" ").slice(1)],
  );
  expect(users.map(([name]) => name)).toEqual(["default", "postrider"]);
  for (const [name, ...rules] of users.reverse())
    await admin.call("ACL", "SETUSER", name as string, ...rules);
  admin.disconnect();
  return `${url}?username=postrider&password=secret`;
}

async function codeOf(sql: Sql, statement: string): Promise<string> {
  return outsideTransactions(sql, statement).then(
    () => "done",
    (error: { code: string }) => error.code,
  );
}

test("an engine serves with them, from the send to the delivery", async () => {
  await migrate(owner, Date.now());
  const options = { redisUrl, smtpUrl: sink.url };
  const asServing = { ...options, databaseUrl: urlOf("postrider", PASSWORDS.serving) };
  const keeper = await startEngine(["keeper"], {
    ...options,
    databaseUrl: urlOf("postrider_owner", PASSWORDS.owner),
  });
  const engine = await startEngine(["api", "deliver", "automate"], asServing);
  try {
    const { client } = await engine.workspace();
    const { body: audience } = await client.post<{ id: string }>("/audiences", { name: "People" });
    const person = { email: "one@example.net", first_name: "One" };
    expect((await client.post(`/audiences/${audience.id}/contacts`, person)).status).toBe(201);
    expect((await client.call("PUT", "/templates/hello", { html: "<p>{{a}}</p>" })).status).toBe(201);
    const attachments = [{ filename: "large.bin", content: randomBytes(LARGE_BYTES).toString("base64") }];
    const sent = await client.post<{ id: string }>("/emails", mail({ to: "one@example.net", attachments }));
    expect(sent.status).toBe(200);
    await expect.poll(() => sink.ledger.mails.length).toBe(1);
    const told = async () =>
      (await client.get<{ last_event: string }>(`/emails/${sent.body.id}`)).body.last_event;
    await expect.poll(told).toBe("delivered");
    expect((await fetch(`${engine.url}/readyz`)).status).toBe(200);
    const path = `/audiences/${audience.id}/contacts/one@example.net?mode=erase`;
    expect((await client.call("DELETE", path)).status).toBe(200);
  } finally {
    await engine.stop();
    await keeper.stop();
  }
  expect([...engine.complaints, ...keeper.complaints]).toEqual([]);
});

test("the owner makes the days to come, in which the serving role writes, and drops them", async () => {
  const then = Date.now() + 400 * DAY_MS;
  await makePartitions(owner, then);
  const made = (await listPartitions(owner)).filter(({ day }) => day === dayName(Math.floor(then / DAY_MS)));
  expect(made.map(({ table }) => table).sort()).toEqual([
    "body",
    "email",
    "email_ending",
    "outbox",
    "request",
    "webhook_attempt",
  ]);
  const retention = connectRecord(urlOf("postrider_owner", PASSWORDS.owner), "retention", MS_MAX);
  for (const partition of made) {
    expect(await codeOf(serving, `delete from ${partition.name}`)).toBe("done");
    expect(await codeOf(serving, `drop table ${partition.name}`)).toBe(FORBIDDEN);
    await detachPartition(retention, partition);
    await dropDetached(retention, partition);
    expect(await isThere(owner, partition.name)).toBe(false);
  }
  await retention.end();
});

test.each([
  ["make a table", "create table mine (a int)"],
  ["make a schema", "create schema mine"],
  ["make a function", "create function mine() returns int language sql as 'select 1'"],
  ["make a trigger", "create trigger mine before insert on email execute function pg_notify('a', 'b')"],
  ["drop a table", "drop table email"],
  ["empty a table", "truncate email"],
  ["change a table", "alter table email add column mine int"],
  ["detach a partition", "alter table email detach partition email_20200101"],
  ["read passwords", "select * from pg_authid"],
  ["read files", "select pg_read_file('postgresql.conf')"],
  ["run programs", "copy (select 1) to program 'true'"],
  ["write files", "copy (select 1) to '/tmp/mine'"],
  ["make a role", "create role mine"],
  ["be the owner", "set role postrider_owner"],
  ["be the superuser", "set role postgres"],
  ["change the server", "alter system set fsync = off"],
  ["make a database", "create database mine"],
  ["load a library", "load 'plpgsql_check'"],
])("the serving role may not %s", async (_, statement) => {
  const code = await codeOf(serving, statement);
  // `load` finds nothing where the libraries lie that everybody may load
  expect([FORBIDDEN, "58P01", "42P01"]).toContain(code);
  if (!/load|detach/.test(statement)) expect(code).toBe(FORBIDDEN);
});

test.each([
  ["read passwords", "select * from pg_authid"],
  ["run programs", "copy (select 1) to program 'true'"],
  ["make a role", "create role mine"],
  ["be the superuser", "set role postgres"],
  ["change the server", "alter system set fsync = off"],
])("the owner may not %s", async (_, statement) => {
  expect(await codeOf(owner, statement)).toBe(FORBIDDEN);
});

test("a process whose role may not bring the schema up to date says what to do", async () => {
  // it may do what later ones do that change no table
  const missing = await superuser<{ name: string; checksum: string }[]>`
    delete from migration where name >= ${CHANGES_A_TABLE} returning name, checksum`;
  const starting = startEngine(["api"], {
    databaseUrl: urlOf("postrider", PASSWORDS.serving),
    redisUrl,
  });
  await expect(starting).rejects.toThrow(
    /^The schema is not up to date, .* Run `postrider migrate` with the url/,
  );
  for (const { name, checksum } of missing)
    await superuser`insert into migration (name, checksum) values (${name}, ${checksum})`;
});

test("a process whose role lost a right is not ready, and the doctor says which", async () => {
  const asServing = { databaseUrl: urlOf("postrider", PASSWORDS.serving), redisUrl, smtpUrl: sink.url };
  const engine = await startEngine(["api"], asServing);
  try {
    const readiness = async () => (await fetch(`${engine.url}/readyz`)).json();
    await superuser`revoke insert on email from postrider`;
    const trouble = "its role may not write the table email: run ops/postgres-roles.sql in this database";
    expect(await readiness()).toMatchObject({ status: "not ready", checks: { postgres: trouble } });
    const { status, out } = await commandLine(asServing).postrider("doctor");
    expect([status, out]).toEqual([1, expect.stringMatching(`fail +commits +${trouble}`)]);
    await superuser`grant insert on email to postrider`;
    expect(await readiness()).toMatchObject({ status: "ready" });
  } finally {
    await engine.stop();
  }
});

test("in a database without the roles' rights, each of them is told where to get them", async () => {
  const name = `${new URL(database.url).pathname.slice(1)}_bare`;
  await createDatabase(database.url, name, "template0");
  const there = (url: string) => Object.assign(new URL(url), { pathname: `/${name}` }).href;
  const asOwner = there(urlOf("postrider_owner", PASSWORDS.owner));
  const asServing = {
    databaseUrl: there(urlOf("postrider", PASSWORDS.serving)),
    redisUrl,
    smtpUrl: sink.url,
  };
  const bare = connectRecord(there(database.url), "setup", MS_MAX);
  try {
    const migrated = await commandLine({ databaseUrl: asOwner, redisUrl }).postrider("migrate");
    expect([migrated.status, migrated.err]).toEqual([
      1,
      expect.stringMatching(/If this is that role, run ops\/postgres-roles\.sql in this database first\.\n$/),
    ]);
    await migrate(bare, Date.now());
    const where = "may not read the tables: run ops/postgres-roles.sql in this database.";
    await expect(startEngine(["api"], asServing)).rejects.toThrow(`The role of DATABASE_URL ${where}`);
    expect((await commandLine(asServing).postrider("doctor")).out).toContain(where);
    await bare.unsafe(plain(ROLES));
    expect((await commandLine(asServing).postrider("doctor")).out).toMatch(/ok +commits/);
  } finally {
    await bare.end({ timeout: 1 });
    await dropDatabase(there(database.url));
  }
});

test.each([
  ["FLUSHALL"],
  ["FLUSHDB"],
  ["CONFIG", "SET", "dir", "/tmp"],
  ["CONFIG", "GET", "*"],
  ["KEYS", "*"],
  ["ACL", "LIST"],
  ["DEBUG", "SLEEP", "0"],
  ["SHUTDOWN", "NOSAVE"],
  ["REPLICAOF", "127.0.0.1", "1"],
  ["MODULE", "LOAD", "/tmp/mine.so"],
  ["MONITOR"],
  ["CLIENT", "LIST"],
  ["MIGRATE", "127.0.0.1", "1", "a", "0", "1"],
  ["BGSAVE"],
])("Redis refuses %s %s", async (...words) => {
  const client = connectRedis(redisUrl, "worker", MS_MAX);
  client.on("error", () => {});
  const [command, ...more] = words as [string, ...string[]];
  await expect(client.call(command, ...more)).rejects.toThrow(/^NOPERM|^ERR \w+ command not allowed/);
  client.disconnect();
});

test("docker-compose.yml gives each process these users, and no secret a default", () => {
  const users = [
    ...COMPOSE.matchAll(/(?:DATABASE|REDIS)_URL: (?:\$\{REDIS_URL:-)?(\w+):\/\/(\w*):\$\{(\w+):\?/g),
  ];
  expect(users.map(([, scheme, user, secret]) => `${scheme} ${user} ${secret}`)).toEqual([
    "postgres postrider SERVING_PASSWORD",
    "redis postrider REDIS_PASSWORD",
    "postgres postrider_owner OWNER_PASSWORD",
  ]);
  expect(COMPOSE.match(/_URL: (?:\$\{\w+:-)?\w+:\/\//g)).toHaveLength(users.length);
  for (const [, name] of COMPOSE.matchAll(/\$\{(\w*(?:PASSWORD|SECRET))/g))
    expect(COMPOSE).not.toMatch(new RegExp(`\\$\\{${name}(?!:\\?)`));
  type Services = Record<string, { image: string; environment: Record<string, string> }>;
  const [{ services }] = parsed<{ services: Services }>("docker-compose.yml") as [{ services: Services }];
  const owners = Object.entries(services)
    .filter(([, { environment }]) => environment.DATABASE_URL?.includes("postrider_owner"))
    .map(([name]) => name);
  expect(owners).toEqual(["migrate", "keeper", "keeper-2"]);
});

test("the cluster of docker-compose.yml gives Postrider's user no more than the single Redis", () => {
  const rules = /user postrider on >\S+ (.*?)(?:\\n|\n)/;
  expect(rules.exec(read("ops/redis-cluster.sh"))?.[1]).toBe(rules.exec(COMPOSE)?.[1]);
});
