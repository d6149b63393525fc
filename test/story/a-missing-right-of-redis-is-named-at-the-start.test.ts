/** A user of Redis that may not do what every role does ends a start at once, and the doctor says it too. */
// @module-tag one-redis: makes a user at one server, and puts it in its URL
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { commandLine } from "../rig/command.ts";
import { launch } from "../rig/launched.ts";
import { openStage, type Stage } from "../rig/stage.ts";

/** As docs/operating.md has them. */
const ALL = ["~*", "&*", "+@all", "-@admin", "-@dangerous", "+info"];

let stage: Stage;
let redis: RedisClient;
let redisUrl: string;
beforeAll(async () => {
  stage = await openStage();
  redis = connectRedis(stage.redisUrl, "command", 20_000);
  const url = new URL(stage.redisUrl);
  if (url.protocol === "unix:") url.search = "?username=few&password=secret";
  else [url.username, url.password] = ["few", "secret"];
  redisUrl = url.href;
});
afterAll(async () => {
  redis.disconnect();
  await stage.close();
});

const mayOnly = (...rules: string[]) =>
  redis.call("ACL", "SETUSER", "few", "reset", "on", ">secret", ...rules);

test.each([
  ["scripts", [...ALL, "-@scripting"]],
  ["hashes", [...ALL, "-hset"]],
  ["writes", [...ALL, "-@write"]],
  ["waiting", [...ALL, "-@blocking"]],
  ["info", ALL.slice(0, -1)],
  ["some keys", ["~{bags-*", "~{probe-*", ...ALL.slice(1)]],
])("without the right to %s", async (_, rules) => {
  await mayOnly(...rules);
  const process = launch(["api"], { ...stage, redisUrl });
  expect(await process.ended).toBe(69);
  expect(process.err()).toMatch(
    /^Redis at \S+ \(REDIS_URL\) refuses a command: NOPERM .* Give the user of REDIS_URL the rights ~\* &\* /m,
  );
  const { out } = await commandLine({ ...stage, redisUrl }).postrider("doctor");
  expect(out).toMatch(/^fail +Redis.*NOPERM/m);
});

test("with the rights of the docs it serves", async () => {
  await mayOnly(...ALL);
  const process = launch(["api", "deliver"], { ...stage, redisUrl });
  await process.says("serving");
  process.signal("SIGTERM");
  expect(await process.ended).toBe(0);
});
