/**
 * The answer of a receiver to EHLO, as long as replies may be: what it offers costs no more than it is long.
 * The event loop of the worker is asked for its work, since this machine may stand still for others.
 */
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const REPLY_CHARS = 65_000;

let database: OwnDatabase;
let redis: OwnRedis;
let receiver: Server;
let engine: Engine;
let worker: EngineProcess;
let ws: TestWorkspace;
let offer = (_: number) => "";
/** Commands that came after the answer, which was read by then. */
let commands = 0;
beforeAll(async () => {
  receiver = createServer((socket) => {
    socket.on("error", () => {});
    socket.write("220 receiver\r\n");
    socket.setEncoding("latin1").on("data", (text: string) => {
      if (!text.startsWith("EHLO")) {
        commands++;
        return socket.end("421 enough\r\n");
      }
      let reply = "250-receiver\r\n";
      for (let n = 0; reply.length < REPLY_CHARS; n++) reply += `250-${offer(n)}\r\n`;
      return socket.write(`${reply}250 HELP\r\n`);
    });
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const { port } = receiver.address() as { port: number };
  [database, redis] = await Promise.all([ownDatabase(), ownRedis()]);
  const stores = { databaseUrl: database.url, redisUrl: redis.url, smtpUrl: `smtp://127.0.0.1:${port}` };
  engine = await startEngine(["api", "keeper"], {
    ...stores,
    settings: { RETRY_SCHEDULE: "1,1,1,1,1,1,86400" },
  });
  worker = await startProcess(["deliver"], { ...stores, watchesLoop: true });
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
});
afterAll(async () => {
  await worker?.stop();
  await engine?.stop();
  receiver?.close();
  await Promise.all([redis?.stop(), database?.drop()]);
});

test.each<[string, (n: number) => string]>([
  ["ways to log in, each on a line of its own", (n) => `AUTH ${n.toString(36)}`],
  [
    "ways to log in, many on a line",
    (n) => `AUTH ${Array.from({ length: 100 }, (_, k) => `${n}x${k}`).join(" ")}`,
  ],
  ["words", (n) => `X${n} = ${" =".repeat(200)}`],
  ["sizes", (n) => `SIZE ${n}`],
])("%s", async (_, one) => {
  offer = one;
  const sendOne = async () => {
    const before = commands;
    expect((await ws.client.post("/emails", mail())).status).toBe(200);
    await expect.poll(() => commands).toBeGreaterThan(before);
  };
  expect(await workedBy(worker, sendOne, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
