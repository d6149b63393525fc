import { expect, test } from "vitest";
import type { Role } from "../../src/process/serve.ts";
import { startEngine } from "../rig/engine.ts";
import { startProcess } from "../rig/process.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { ownDatabase, ownRedis } from "../rig/services.ts";
import { openSink } from "../rig/sink.ts";
import { Client, mail } from "../rig/workspace.ts";

/** What runs roles gives them this long before it kills. */
const STOP_MS_MAX = 5_000;
const ROLES: readonly Role[] = ["api", "deliver", "keeper"];

type Stores = { toRedis: TcpProxy; toPostgres: TcpProxy };

test.each<[string, (stores: Stores) => unknown]>([
  ["all is well", () => {}],
  ["Redis refuses", ({ toRedis }) => toRedis.down()],
  ["Redis is silent", ({ toRedis }) => toRedis.stall()],
  ["Postgres refuses", ({ toPostgres }) => toPostgres.down()],
  ["Postgres is silent", ({ toPostgres }) => toPostgres.stall()],
])(
  "%s: every role ends by itself within five seconds, with work in its hands",
  async (_, die) => {
    const [database, redis, sink] = await Promise.all([ownDatabase(), ownRedis(), openSink()]);
    const { port, username, password, pathname } = new URL(database.url);
    const [toRedis, toPostgres] = await Promise.all([
      openProxy({ port: redis.port }),
      openProxy({ port: Number(port) }),
    ]);
    const direct = await startEngine([], { databaseUrl: database.url, redisUrl: redis.url });
    const processes = await Promise.all(
      ROLES.map((role) =>
        startProcess([role], {
          databaseUrl: `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`,
          redisUrl: `redis://127.0.0.1:${toRedis.port}`,
          smtpUrl: sink.url,
        }),
      ),
    );
    try {
      const url = `http://127.0.0.1:${processes[0]?.port}`;
      const { client } = await direct.workspace();
      const caller = new Client(url, client.key);
      // one mail that the sink never answers, and a request that meets the dead store
      expect((await caller.post("/emails", mail({ to: "hang-after-data@example.net" }))).status).toBe(200);
      await expect.poll(() => sink.openConnections).toBe(1);
      await die({ toRedis, toPostgres });
      const late = caller.post("/emails", mail()).catch(() => null);
      const ends = await Promise.all(
        processes.map(async (process) => {
          const began = performance.now();
          const status = await process.stop();
          return { status, ms: performance.now() - began };
        }),
      );
      await late;
      ends.forEach(({ status, ms }, n) => {
        expect(ms, ROLES[n]).toBeLessThan(STOP_MS_MAX);
        expect(status, `${ROLES[n]} ended in ${Math.round(ms)} ms`).toBe(0);
      });
    } finally {
      await Promise.all(processes.map((process) => process.kill()));
      await direct.stop();
      await Promise.all([toRedis.close(), toPostgres.close(), sink.close(), redis.stop()]);
      await database.drop();
    }
  },
  60_000,
);
