import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/rig/setup.ts"],
    pool: "forks", // uWebSockets.js aborts a process whose worker thread exits
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
