/** Where a url of Redis leads, and as whom. */
import type { Cluster, Redis } from "ioredis";
import { expect, test } from "vitest";
import { connectRedis } from "../../src/redis/connect.ts";
import { readRedisUrl } from "../../src/rules/redisurl.ts";

/** It never gets there: what is read of the url is looked at, and the attempt given up. */
function optionsOf(url: string): Record<string, unknown> {
  const client = connectRedis(url, "worker", 1_000);
  client.on("error", () => {});
  const { options } = client as Redis | Cluster;
  client.disconnect();
  return options as Record<string, unknown>;
}

test.each([
  ["unix:///run/redis.sock", { path: "/run/redis.sock", username: null, password: null }],
  ["unix:///run/redis.sock?password=p%26q", { path: "/run/redis.sock", username: null, password: "p&q" }],
  [
    "redis+unix:///a%20b/redis.sock?username=u&password=p",
    { path: "/a b/redis.sock", username: "u", password: "p" },
  ],
  ["redis://127.0.0.1:1", { host: "127.0.0.1", port: 1, username: null, password: null }],
  ["redis://:p@127.0.0.1:1", { host: "127.0.0.1", port: 1, password: "p" }],
  ["redis://u:p%2Fq@127.0.0.1:1", { host: "127.0.0.1", port: 1, username: "u", password: "p/q" }],
])("%s", (url, expected) => {
  expect(optionsOf(url)).toMatchObject(expected);
});

test.each([
  ["redis-cluster://127.0.0.1:1,127.0.0.1:2", {}],
  ["redis-cluster://:p@127.0.0.1:1,127.0.0.1:2", { password: "p" }],
  ["redis://u:p%40q@127.0.0.1:1,redis://u:p%40q@127.0.0.1:2", { username: "u", password: "p@q" }],
])("the nodes of %s have the same users", (url, expected) => {
  const { username, password } = optionsOf(url).redisOptions as Record<string, unknown>;
  expect({
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
  }).toEqual(expected);
});

test("with TLS the nodes of a cluster keep their names", () => {
  const options = optionsOf("rediss-cluster://u:p@redis-1.example:1,redis-2.example:2");
  expect(options.redisOptions).toMatchObject({ tls: {}, username: "u", password: "p" });
  const found: unknown[] = [];
  (options.dnsLookup as (host: string, done: (...answer: unknown[]) => void) => void)(
    "redis-1.example",
    (...answer) => found.push(answer),
  );
  expect(found).toEqual([[null, "redis-1.example"]]);
});

test("Sentinel is asked for the master by its name", () => {
  const url = "redis+sentinel://u:p%2Fq@a.example,b.example:26380/shop/3?sentinel_password=s";
  expect(optionsOf(url)).toMatchObject({
    sentinels: [
      { host: "a.example", port: 26379 },
      { host: "b.example", port: 26380 },
    ],
    name: "shop",
    db: 3,
    username: "u",
    password: "p/q",
    sentinelPassword: "s",
  });
  expect(optionsOf("rediss+sentinel://[::1]:1/shop")).toMatchObject({
    sentinels: [{ host: "::1", port: 1 }],
    tls: {},
    sentinelTLS: {},
    enableTLSForSentinelMode: true,
  });
});

test.each(["redis://127.0.0.1/shop", "redis://127.0.0.1/0/1", "redis-cluster://127.0.0.1:1,127.0.0.1:2/1"])(
  "%s names no database",
  (url) => {
    expect(readRedisUrl(url)).toBeNull();
  },
);
