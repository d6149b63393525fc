/**
 * What receivers answer is judged by its words. A receiver that chooses them so that this takes long, for
 * every recipient anew, holds a worker no longer than others do.
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
/** Each run brings many e-mails. */
const TEST_MS_MAX = 400_000;
const RECIPIENTS = 50;
const MAILS = 40;

let database: OwnDatabase;
let redis: OwnRedis;
let receiver: Server;
let engine: Engine;
let worker: EngineProcess;
let ws: TestWorkspace;
beforeAll(async () => {
  receiver = createServer((socket) => {
    socket.on("error", () => {});
    socket.write("220 receiver\r\n");
    socket.setEncoding("latin1").on("data", (text: string) => {
      const commands = text.split("\r\n").filter((line) => line !== "");
      socket.write(commands.map((line) => `${answerTo(line)}\r\n`).join(""));
    });
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const { port } = receiver.address() as { port: number };
  [database, redis] = await Promise.all([ownDatabase(), ownRedis()]);
  const stores = {
    databaseUrl: database.url,
    redisUrl: redis.url,
    smtpUrl: `smtp://127.0.0.1:${port}`,
  };
  engine = await startEngine(["api", "keeper"], stores);
  worker = await startProcess(["deliver"], { ...stores, watchesLoop: true });
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
});
afterAll(async () => {
  await worker?.stop();
  await engine?.stop();
  receiver?.close();
  await Promise.all([redis?.stop(), database?.drop()]);
});

/** Written out, the ligature is 18 letters, and no two answers are alike. */
let answers = 0;
let code = "";
function answerTo(command: string): string {
  if (command.startsWith("EHLO")) return "250-receiver\r\n250 PIPELINING";
  if (command.startsWith("RCPT")) return `${code} ${answers++} ${"\ufdfa ".repeat(240)}`;
  if (command === "DATA") return "554 no recipients";
  return "250 ok";
}

async function answeredAll(): Promise<void> {
  const to = Array.from({ length: RECIPIENTS }, (_, n) => `a${n}@example.net`);
  const { status } = await ws.client.post(
    "/emails/batch",
    Array.from({ length: MAILS }, () => mail({ to })),
  );
  expect(status).toBe(200);
  const open = async () =>
    (await engine.sql<{ n: number }[]>`select count(*)::int as n from email where status = 'accepted'`)[0]?.n;
  await expect.poll(open, { timeout: 30_000, interval: 50 }).toBe(0);
}

test.each(["550 5.7.1", "451 4.7.1"])(
  "%s to fifty recipients of many e-mails, each in words of its own",
  async (answer) => {
    code = answer;
    expect(await workedBy(worker, answeredAll, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
  },
  TEST_MS_MAX,
);
