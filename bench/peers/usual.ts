/**
 * The usual stack of bench/peers/usual on the bench's own Postgres and Redis, so that it commits to the same
 * disk.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Bench } from "../machine.ts";
import type { Peer } from "./peer.ts";

const KEY = "a key of the bench";
const PARTS = ["usual/api.mjs", "usual/deliver.mjs"] as const;

export const usual: Peer = {
  name: "usual",
  async start(bench: Bench) {
    const [api, deliver] = [
      await bench.program("usual api", "peers/usual/api.mjs", { API_KEY: KEY }),
      await bench.program("usual worker", "peers/usual/deliver.mjs"),
    ];
    return {
      intake: { kind: "http", url: api.url, key: KEY },
      processes: [
        { name: "api", pid: api.pid },
        { name: "worker", pid: deliver.pid },
        { name: "postgres", pid: bench.postgres.pid },
        { name: "redis", pid: bench.redisServer.pid },
      ],
      exhibits: PARTS.map((file) => ({
        name: `usual stack: ${file}`,
        text: readFileSync(fileURLToPath(new URL(file, import.meta.url)), "utf8"),
      })),
      async stop() {
        await api.stop();
        await deliver.stop();
      },
    };
  },
};
