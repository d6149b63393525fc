/**
 * at-rest: all that `npm start` runs, with nothing to do: memory, CPU, and how often the stores are asked. It
 * is looked at after a minute: by then V8 has given back what starting took.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ReadyFile } from "../../src/embedded/home.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { figure } from "../figure.ts";
import { footprints, inAll, watched } from "../footprint.ts";
import type { Scenario } from "../scenario.ts";
import { after, until } from "../until.ts";

const START = fileURLToPath(new URL("../../dist/process/start.js", import.meta.url));
const SETTLE_MS = 60_000;
const STORE_MS_MAX = 5_000;

const atRest: Scenario = {
  name: "at-rest",
  does: "memory and CPU of all that npm start runs, with nothing to do",
  async run(bench, { seconds, tell }) {
    const home = join(bench.folder, "home");
    const root = spawn(process.execPath, [START], {
      env: { PATH: process.env.PATH, POSTRIDER_HOME: home, PORT: "0" },
      stdio: "ignore",
    });
    const ended = once(root, "exit");
    try {
      const file = join(home, "ready.json");
      await until("npm start accepts requests", async () => existsSync(file));
      const { pids, database_url, redis_url } = JSON.parse(readFileSync(file, "utf8")) as ReadyFile;
      const sql = connectRecord(database_url as string, "setup", STORE_MS_MAX);
      const redis = connectRedis(redis_url as string, "command", STORE_MS_MAX);
      try {
        tell("waiting for a minute");
        await after(SETTLE_MS);
        tell("measuring");
        const { cpuPercent, transactionsPerSecond, commandsPerSecond } = await watched(
          { pids, sql, redis },
          seconds * 1000,
        );
        const now = footprints(pids);
        const all = inAll(now);
        const cpu = Object.values(cpuPercent).reduce((sum, one) => sum + one, 0);
        return {
          figures: [
            figure("memory in all (PSS)", all.pssMb, "MB", "at most 350"),
            figure("memory in all (RSS)", all.rssMb, "MB", "counts what processes share in each of them"),
            figure("CPU in all", cpu, "% of a core", "at most 1"),
            figure("transactions", transactionsPerSecond, "/s"),
            figure("Redis commands", commandsPerSecond, "/s"),
            ...Object.entries(now).flatMap(([name, { pssMb, rssMb }]) => [
              figure(`${name}, PSS`, pssMb, "MB"),
              figure(`${name}, RSS`, rssMb, "MB"),
              figure(`${name}, CPU`, cpuPercent[name] ?? 0, "% of a core"),
            ]),
          ],
        };
      } finally {
        redis.disconnect();
        await sql.end({ timeout: 1 });
      }
    } finally {
      root.kill("SIGTERM");
      await ended;
    }
  },
};

export const scenarios = [atRest];
