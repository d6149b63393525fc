import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/rig/longestfirst.ts";

const { TEST_REDIS = "one" } = process.env;
if (TEST_REDIS !== "one" && TEST_REDIS !== "cluster") throw new Error("TEST_REDIS may be one or cluster");

/** Stories that use Redis in many ways: each run has them on a cluster, too. */
const ON_A_CLUSTER = [
  "a-full-cap-delays",
  "a-hard-bounce-suppresses-its-address",
  "a-quiet-workspace-goes-next",
  "a-repeated-request-is-answered-again",
  "a-store-that-refuses-says-why",
  "a-stream-has-its-own-share",
  "a-suspended-workspace-sends-nothing",
  "a-webhook-that-fails-is-tried-again",
  "an-event-starts-its-runs",
  "console-changes-once",
  "console-retries-what-it-names",
  "direct-finds-the-receivers-hosts",
  "every-way-in-meets-a-switch",
  "exactly-the-quota-is-accepted",
  "mail-is-submitted-over-smtp",
].map((name) => `test/story/${name}.test.ts`);

/**
 * These need nothing but the sources. They compute, so more at once than there are cores would gain nothing.
 */
const unit = {
  extends: true as const,
  test: {
    name: "unit",
    include: ["test/unit/**/*.test.ts", "test/shape.test.ts"],
    isolate: false,
    maxWorkers: 2,
    sequence: { groupOrder: 0 },
  },
};

/**
 * These have the stores of the run and the built engine. Most of them wait most of the time, so many run at
 * once. What they import of src comes from the build, which Node loads itself: handing 500 sources to each
 * file through Vite took a seventh of the CPU of all.
 */
const withStores = (
  name: string,
  onCluster = TEST_REDIS === "cluster",
  include = [`test/${name}/**/*.test.ts`],
) => ({
  extends: true as const,
  resolve: {
    alias: [{ find: /^(?:\.\.\/)+src\/(.*)\.ts$/, replacement: `${import.meta.dirname}/dist/$1.js` }],
  },
  test: {
    name,
    include,
    provide: { onCluster },
    tags: [
      { name: "one-redis", description: "is about one Redis, and skipped on a cluster", skip: onCluster },
    ],
    globalSetup: ["test/rig/setup.ts"],
    setupFiles: ["test/rig/heardout.ts"],
    server: { deps: { external: [/\/dist\//] } },
    execArgv: ["--enable-source-maps"], // stacks name the sources all the same
    maxWorkers: Number(process.env.TEST_WORKERS ?? 4),
    sequence: { groupOrder: 1 },
  },
});

export default defineConfig({
  test: {
    env: { UWS_HTTP_MAX_HEADERS_SIZE: "16384" }, // as src/config.ts sets it for the engine
    pool: "forks", // uWebSockets.js aborts a process whose worker thread exits
    sequence: { sequencer: LongestFirst },
    // these find what hangs, and say nothing of how fast it should be: a busy machine stands still for seconds
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 30_000 } },
    projects: [
      unit,
      ...["story", "fault", "attack", "fuzz", "browser"].map((name) => withStores(name)),
      withStores("cluster", true, ON_A_CLUSTER),
    ],
  },
});
