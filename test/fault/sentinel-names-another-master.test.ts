import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Daemon } from "../../src/embedded/daemon.ts";
import { freePort } from "../../src/embedded/port.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { insist } from "../rig/insistent.ts";
import { killRedisServer, REDIS_PROGRAMS, startRedisServer, until } from "../rig/redisserver.ts";
import { type OwnDatabase, ownDatabase, services } from "../rig/services.ts";
import { settled } from "../rig/settled.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail } from "../rig/workspace.ts";

const PASSWORD = "of the tests/only";
/** Of 10 s; a busy machine adds some. The audit finds a job that got lost within a minute. */
const BACK_MS_MAX = 30_000;
const SETTLED_MS_MAX = 90_000;

for (const { name, program, missing } of REDIS_PROGRAMS)
  describe.skipIf(missing)(missing ?? `behind Sentinel of ${name}`, () => {
    let servers: [Daemon, Daemon];
    let sentinels: Daemon[];
    let sentinel: Redis;
    let database: OwnDatabase;
    let sink: Sink;
    let engine: Engine;
    beforeAll(async () => {
      const folder = join(services().folder, `sentinel-${randomUUID().slice(0, 8)}`);
      const [first, second] = [await freePort(), await freePort()];
      const common = ['save ""', "appendonly no", `requirepass "${PASSWORD}"`, `masterauth "${PASSWORD}"`];
      const timing = ["repl-diskless-sync-delay 0"];
      const start = (port: number, ...more: string[]) =>
        startRedisServer(join(folder, String(port)), [`port ${port}`, ...common, ...timing, ...more], {
          program,
        });
      servers = [await start(first), await start(second, `replicaof 127.0.0.1 ${first}`)];
      const sentinelPorts = [await freePort(), await freePort(), await freePort()];
      sentinels = await Promise.all(
        sentinelPorts.map((port) =>
          startRedisServer(
            join(folder, String(port)),
            [
              `port ${port}`,
              `sentinel monitor shop 127.0.0.1 ${first} 2`,
              `sentinel auth-pass shop "${PASSWORD}"`,
              // no server that stands still for a moment on a busy machine is taken to be gone
              "sentinel down-after-milliseconds shop 4000",
              "sentinel failover-timeout shop 3000",
            ],
            { isSentinel: true, program },
          ),
        ),
      );
      [database, sink] = await Promise.all([ownDatabase(), openSink()]);
      const hosts = sentinelPorts.map((port) => `127.0.0.1:${port}`).join();
      engine = await startEngine(["api", "deliver", "keeper"], {
        databaseUrl: database.url,
        redisUrl: `redis+sentinel://:${encodeURIComponent(PASSWORD)}@${hosts}/shop`,
        smtpUrl: sink.url,
      });
      sentinel = new Redis({ port: sentinelPorts[0] as number });
      // a failover needs a replica that Sentinel has met, and sentinels that have met each other
      await until(
        "Sentinel knows its neighbours",
        async () => (await told("num-slaves")) === "1" && (await told("num-other-sentinels")) === "2",
      );
    });
    afterAll(async () => {
      sentinel.disconnect();
      await engine.stop();
      await Promise.all([...servers, ...sentinels].map((server) => server.stop()));
      await Promise.all([sink.close(), database.drop()]);
    });

    /** What Sentinel says of the master. */
    async function told(name: string): Promise<string | undefined> {
      const [master] = (await sentinel.call("SENTINEL", "MASTERS")) as string[][];
      return master?.[master.indexOf(name) + 1];
    }

    test("the master is killed: mail goes on within 10 s by the one that took over, and none is lost", async () => {
      const ws = await engine.workspace();
      const send = async (key: string) => {
        const answer = await insist<{ id: string }>([engine.url], ws.client.key, "/emails", mail(), key);
        return answer?.id as string;
      };
      const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => send(`before ${n}`)));
      const port = await told("port");
      await killRedisServer(servers[0]);
      const sending = Promise.all(Array.from({ length: 20 }, (_, n) => send(`after ${n}`)));
      await until("Sentinel has named another master", async () => (await told("port")) !== port);
      const namedAt = performance.now();
      ids.push(...(await sending));
      await sink.ledger.received(
        ids.length,
        ({ messageId }) => ids.includes(messageId.split("@")[0] as string),
        SETTLED_MS_MAX,
      );
      expect(performance.now() - namedAt).toBeLessThan(BACK_MS_MAX);
      expect(await settled(engine.sql, ws.id, SETTLED_MS_MAX)).toEqual({ delivered: 40 });
      for (const id of ids) expect(sink.ledger.count(`${id}@example.com`)).toBe(1);
    }, 120_000);
  });
