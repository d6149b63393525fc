import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { isOfStoreClient } from "../../src/process/survive.ts";

const named = (name: string, more: object = {}, message = "x") =>
  Object.assign(new Error(message), { name }, more);
const thrownAt = (...frames: string[]) =>
  Object.assign(new TypeError("Cannot read properties of null"), {
    stack: ["TypeError: Cannot read properties of null", ...frames.map((frame) => `    at ${frame}`)].join(
      "\n",
    ),
  });

const IN_POSTGRES = "Immediate.nextWrite (file:///app/node_modules/postgres/src/connection.js:255:22)";
const IN_REDIS = "Redis.flush (/app/node_modules/ioredis/built/Redis.js:7:1)";
const IN_OURS = "work (file:///app/dist/queue/work.js:12:3)";
const IN_NODE = "process.processImmediate (node:internal/timers:483:21)";

test.each([
  ["Postgres shuts down", named("PostgresError", { code: "57P01", severity: "FATAL" })],
  ["Postgres crashed", named("PostgresError", { code: "57P02", severity: "WARNING" })],
  ["Postgres starts up", named("PostgresError", { code: "57P03", severity: "FATAL" })],
  ["there are too many connections", named("PostgresError", { code: "53300", severity: "FATAL" })],
  ["the connection to Postgres failed", named("PostgresError", { code: "08006", severity: "ERROR" })],
  ["a transaction stood idle", named("PostgresError", { code: "25P03", severity: "FATAL" })],
  ["the client lost its connection", named("Error", { code: "CONNECTION_CLOSED" })],
  ["the client was ended", named("Error", { code: "CONNECTION_ENDED" })],
  ["the client was cut", named("Error", { code: "CONNECTION_DESTROYED" })],
  ["the client could not connect", named("Error", { code: "CONNECT_TIMEOUT" })],
  ["the connection was reset", named("Error", { code: "ECONNRESET" })],
  ["nobody listens", named("Error", { code: "ECONNREFUSED" })],
  ["nobody listens at any address", new AggregateError([named("Error", { code: "ECONNREFUSED" })])],
  ["Redis moved too often", named("ClusterAllFailedError")],
  ["Redis was not reached", named("MaxRetriesPerRequestError")],
  ["Redis refuses", named("ReplyError", {}, "LOADING Redis is loading the dataset in memory")],
  ["Redis is closed", named("Error", {}, "Connection is closed.")],
  ["the client of Postgres throws", thrownAt(IN_POSTGRES, IN_NODE)],
  ["the client of Redis throws", thrownAt("write (node:net:1:1)", IN_REDIS, IN_OURS)],
])("survived: %s", (_, error) => {
  expect(isOfStoreClient(error)).toBe(true);
});

test.each([
  ["a bug of ours", thrownAt(IN_OURS, IN_NODE)],
  ["a bug of ours in what a client called", thrownAt(IN_OURS, IN_POSTGRES)],
  ["a statement that Postgres does not know", named("PostgresError", { code: "42703", severity: "ERROR" })],
  ["a row that exists already", named("PostgresError", { code: "23505", severity: "ERROR" })],
  ["a range", new RangeError("Invalid array length")],
  [
    "several, of which one is ours",
    new AggregateError([named("Error", { code: "EPIPE" }), new Error("bug")]),
  ],
  ["a missing file", named("Error", { code: "ENOENT" })],
  ["no error at all", "just text"],
  ["nothing", undefined],
])("not survived: %s", (_, error) => {
  expect(isOfStoreClient(error)).toBe(false);
});

/** What a process said, and with which status it ended, that does this without catching anything. */
function processThat(does: string): { status: number | null; said: string[] } {
  const survive = fileURLToPath(new URL("../../src/process/survive.ts", import.meta.url));
  const program = `
    import pino from "pino";
    import { survive } from ${JSON.stringify(survive)};
    survive(pino(pino.destination({ sync: false, minLength: 0 })));
    setImmediate(() => setTimeout(() => process.exit(0), 100)); // not before what it does
    ${does}`;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", "tsx", "--input-type=module", "--eval", program],
    { encoding: "utf8", cwd: fileURLToPath(new URL("../..", import.meta.url)) },
  );
  expect(stderr).toBe("");
  return {
    status,
    said: stdout
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line).msg),
  };
}

const LOST = `Object.assign(new Error("lost"), { code: "CONNECTION_CLOSED" })`;
const BUG = `new TypeError("a bug")`;

test.each([
  ["rejects, of a lost connection", `Promise.reject(${LOST});`, 0, "unhandled rejection"],
  ["throws, of a lost connection", `setImmediate(() => { throw ${LOST}; });`, 0, "uncaught exception"],
  ["rejects, by a bug", `Promise.reject(${BUG});`, 1, "unhandled rejection"],
  ["throws, by a bug", `setImmediate(() => { throw ${BUG}; });`, 1, "uncaught exception"],
])("a process that %s", (_, does, status, said) => {
  expect(processThat(does)).toEqual({ status, said: [said] });
});
