/**
 * A store that is not there is named with its address and its setting, by every command and at the start,
 * with status 69.
 */
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { commandLine, type Ran } from "../rig/command.ts";
import { launch } from "../rig/launched.ts";
import { listenOn } from "../rig/port.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis, services } from "../rig/services.ts";
import { freshHome, start } from "../rig/start.ts";

/** Nobody listens there: the ports of tests are drawn from above it. */
const closed = 1;
let database: OwnDatabase;
let redis: OwnRedis;
beforeAll(async () => {
  [database, redis] = await Promise.all([ownDatabase(), ownRedis()]);
});
afterAll(() => Promise.all([database.drop(), redis.stop()]));

function unreached({ status, err }: Ran): string {
  expect(status, err).toBe(69);
  return err.trim();
}

describe("Postgres", () => {
  test.each([
    ["workspace list", ["workspace", "list"]],
    ["migrate", ["migrate"]],
  ])("%s", async (_, command) => {
    const { postrider } = commandLine({ databaseUrl: `postgres://me:hidden@127.0.0.1:${closed}/none` });
    expect(unreached(await postrider(...command))).toBe(
      `Postgres at 127.0.0.1:${closed} (DATABASE_URL) refuses connections. Is it running?`,
    );
  });

  test("under a name that DNS does not know", async () => {
    const { postrider } = commandLine({ databaseUrl: "postgres://me@postgres.invalid/none" });
    expect(unreached(await postrider("workspace", "list"))).toBe(
      "Postgres at postgres.invalid:5432 (DATABASE_URL) has a host name that DNS does not know. Is it spelt right?",
    );
  });

  test("without this database", async () => {
    const url = new URL(services().databaseUrl);
    url.pathname = "/nowhere";
    const { postrider } = commandLine({ databaseUrl: url.href });
    expect(unreached(await postrider("workspace", "list"))).toMatch(
      /^Postgres at \S+ \(DATABASE_URL\) has no such database: .*nowhere.*\. Create it, or name another in DATABASE_URL\.$/,
    );
  });
});

test("Redis, by a command that needs it, and one that does not need it is served", async () => {
  const { postrider, json } = commandLine({
    databaseUrl: database.url,
    redisUrl: `redis://:hidden@127.0.0.1:${closed}`,
  });
  await json("migrate");
  const { id } = await json<{ id: string }>("workspace", "create", "--name", "Shop", "--plan", "pro");
  expect(unreached(await postrider("workspace", "set", id, "--plan", "standard"))).toBe(
    `Redis at 127.0.0.1:${closed} (REDIS_URL) refuses connections. Is it running?`,
  );
});

test("the queue shows what is stuck without Redis, and says that it does not know what is being sent", async () => {
  const { postrider, json } = commandLine({
    databaseUrl: database.url,
    redisUrl: `redis://:hidden@127.0.0.1:${closed}`,
  });
  expect(await json("queue")).toMatchObject({ emails: { deferred: 0 }, sending: null });
  const { status, out } = await postrider("queue");
  expect(status).toBe(0);
  expect(out).toContain(
    `What is being sent is not known: Redis at 127.0.0.1:${closed} (REDIS_URL) refuses connections. Is it running?`,
  );
  expect(out).toContain("No mail is deferred or suspended.");
});

test("the queue shows what is stuck while Redis is silent, too", async () => {
  const silent = createServer(() => {});
  const port = await listenOn(silent);
  const { postrider } = commandLine({ databaseUrl: database.url, redisUrl: `redis://127.0.0.1:${port}` });
  const { status, out, err } = await postrider("queue");
  silent.close();
  expect([status, err]).toEqual([0, ""]);
  expect(out).toContain("No mail is deferred or suspended.");
  expect(out).toContain(
    `What is being sent is not known: Redis at 127.0.0.1:${port} (REDIS_URL) does not answer.`,
  );
});

test("the doctor says of each which setting names it", async () => {
  const { postrider } = commandLine({
    databaseUrl: `postgres://127.0.0.1:${closed}/none`,
    redisUrl: `redis://127.0.0.1:${closed}`,
  });
  const { out } = await postrider("doctor");
  for (const name of ["Postgres", "Redis"])
    expect(out).toMatch(new RegExp(`fail +${name} +${name} at 127\\.0\\.0\\.1:${closed} \\(\\w+\\) refuses`));
});

test("a start that finds no such database ends at once, with the same words and status", async () => {
  const url = new URL(services().databaseUrl);
  url.pathname = "/nowhere";
  const root = start(freshHome(), {
    DATABASE_URL: url.href,
    REDIS_URL: redis.url,
    SMTP_URL: "smtp://127.0.0.1:1",
  });
  expect(await root.ended).toBe(69);
  expect(root.said().err).toMatch(/^Postgres at \S+ \(DATABASE_URL\) has no such database/);
});

// what a cluster answers is no other server
describe("a Redis that answers and is another than REDIS_URL says", { tags: "one-redis" }, () => {
  test.each([
    ["a database that it does not have", (port: number) => `redis://127.0.0.1:${port}/99`, "DB index"],
    ["no cluster", (port: number) => `redis-cluster://127.0.0.1:${port}`, "cluster support disabled"],
    [
      "a password that a node refuses",
      (port: number) => `redis-cluster://somebody:wrong@127.0.0.1:${port}`,
      "refuses the login: WRONGPASS",
    ],
  ])("%s: a process ends at once, and the doctor says the same", async (_, urlOf, words) => {
    const redisUrl = urlOf(redis.port);
    const smtpUrl = "smtp://127.0.0.1:1";
    const process = launch(["deliver"], { databaseUrl: database.url, redisUrl, smtpUrl });
    expect(await process.ended).toBe(69);
    expect(process.err()).toMatch(new RegExp(`^Redis at \\S+ \\(REDIS_URL\\) .*${words}`));
    const { postrider } = commandLine({ databaseUrl: database.url, redisUrl });
    expect((await postrider("doctor")).out).toMatch(new RegExp(`fail +Redis .*${words}`));
  });
});
