import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/rig/setup.ts"],
    env: { UWS_HTTP_MAX_HEADERS_SIZE: "16384" }, // as src/config.ts sets it for the engine
    pool: "forks", // uWebSockets.js aborts a process whose worker thread exits
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
