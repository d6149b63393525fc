// @module-tag one-redis: puts a proxy in front of its Redis
import { expect, test } from "vitest";
import type { Role } from "../../src/rules/roles.ts";
import { startEngine } from "../rig/engine.ts";
import { startProcess } from "../rig/process.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { openStage } from "../rig/stage.ts";
import { Client, mail } from "../rig/workspace.ts";

/** What runs roles gives them this long before it kills. They give themselves 3.5 s. */
const STOP_MS_MAX = 5_000;
/** A worker waits for a receiver that has all of a mail: to send that again would repeat it. */
const WORKER_STOP_MS_MAX = 20_000;
/** What a busy machine may add. Who does not end by itself ends after 30 s, with another status. */
const BUSY_MS_MAX = 5_000;

const PROCESSES: readonly Role[][] = [
  ["api"],
  ["deliver"],
  ["keeper"],
  ["automate", "webhooks"],
  ["inbound", "submission", "console"],
];
/** So that each role has something to do. */
const LISTENING = {
  BOUNCE_DOMAIN: "bounces.example.net",
  INBOUND_PORT: "0",
  SUBMISSION_PORT: "0",
  CONSOLE_PORT: "0",
};

type Stores = { toRedis: TcpProxy; toPostgres: TcpProxy };

test.each<[string, (stores: Stores) => unknown]>([
  ["all is well", () => {}],
  ["Redis refuses", ({ toRedis }) => toRedis.down()],
  ["Redis is silent", ({ toRedis }) => toRedis.stall()],
  ["Postgres refuses", ({ toPostgres }) => toPostgres.down()],
  ["Postgres is silent", ({ toPostgres }) => toPostgres.stall()],
])(
  "%s: every role ends by itself in time, with work in its hands",
  async (_, die) => {
    const stage = await openStage();
    const { port, username, password, pathname } = new URL(stage.databaseUrl);
    const [toRedis, toPostgres] = await Promise.all([
      openProxy({ port: stage.redis.port }),
      openProxy({ port: Number(port) }),
    ]);
    const direct = await startEngine([], stage);
    const processes = await Promise.all(
      PROCESSES.map((roles) =>
        startProcess(roles, {
          databaseUrl: `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`,
          redisUrl: `redis://127.0.0.1:${toRedis.port}`,
          smtpUrl: stage.smtpUrl,
          settings: LISTENING,
        }),
      ),
    );
    try {
      const url = `http://127.0.0.1:${processes[0]?.port}`;
      const { client } = await direct.workspace();
      const caller = new Client(url, client.key);
      // one mail that the sink never answers, and a request that meets the dead store
      expect((await caller.post("/emails", mail({ to: "hang-after-data@example.net" }))).status).toBe(200);
      await expect.poll(() => stage.sink.openConnections, { timeout: 20_000 }).toBe(1);
      await die({ toRedis, toPostgres });
      const late = caller.post("/emails", mail()).catch(() => null);
      const later = caller.post("/emails", mail()).catch(() => null);
      // by then whatever looks into the stores from time to time waits for them too
      await late;
      const ends = await Promise.all(
        processes.map(async (process) => {
          const began = performance.now();
          const status = await process.stop();
          return { status, ms: performance.now() - began };
        }),
      );
      await later;
      ends.forEach(({ status, ms }, n) => {
        const most = PROCESSES[n]?.includes("deliver") ? WORKER_STOP_MS_MAX : STOP_MS_MAX;
        expect(ms, `${PROCESSES[n]}`).toBeLessThan(most + BUSY_MS_MAX);
        expect(status, `${PROCESSES[n]} ended in ${Math.round(ms)} ms`).toBe(0);
      });
    } finally {
      await Promise.all(processes.map((process) => process.kill()));
      await direct.stop();
      await Promise.all([toRedis.close(), toPostgres.close()]);
      await stage.close();
    }
  },
  120_000,
);
