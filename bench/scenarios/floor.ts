/**
 * floor: what each part of the way costs when nothing else happens, so that everything else can be put beside
 * it: a bare uWebSockets.js handler; the same with one EVALSHA of admission's size; the inserts of 1,000
 * e-mails a transaction; BullMQ jobs that do nothing; finished messages by pipelined SMTP to the sink;
 * RSA-2048 signatures with a kept key on the thread pool.
 */
import { generateKeyPairSync, sign } from "node:crypto";
import { promisify } from "node:util";
import { Queue, Worker } from "bullmq";
import { connectRedis } from "../../src/redis/connect.ts";
import { figure } from "../figure.ts";
import { unnestFloor } from "../inserts.ts";
import { LOOP_WARMUP_SECONDS, load, unansweredOf, WARMUP_SECONDS } from "../load.ts";
import type { Bench } from "../machine.ts";
import { finishedMessage } from "../message.ts";
import { cpuSeconds } from "../meter.ts";
import { CPU_FLOOR } from "../ratios.ts";
import type { Scenario } from "../scenario.ts";
import { smtpFloor } from "../smtpfloor.ts";
import { until } from "../until.ts";

const CONNECTIONS = 32;
const JOBS_AT_ONCE = 100;
const JOBS_WAITING_MAX = 5_000;
const WORKERS = 50;
const SIGNATURES_AT_ONCE = 16;
const RSA_BITS = 2_048;
/** What DKIM signs of such a mail: its headers, with the hash of the body. */
const SIGNED_BYTES = 500;

async function jobs(bench: Bench, seconds: number): Promise<number> {
  const [producing, working] = [
    connectRedis(bench.redisServer.url, "worker", 10_000),
    connectRedis(bench.redisServer.url, "worker", 10_000),
  ];
  const settings = { skipVersionCheck: true };
  const queue = new Queue("{floor}", { connection: producing, ...settings });
  let done = 0;
  const work = async () => {
    done++;
  };
  const worker = new Worker("{floor}", work, { connection: working, concurrency: WORKERS, ...settings });
  const end = bench.endings.add(async () => {
    await worker.close();
    await queue.close();
    producing.disconnect();
    working.disconnect();
  });
  await worker.waitUntilReady();
  let added = 0;
  const runFor = async (length: number): Promise<number> => {
    const [began, already] = [performance.now(), done];
    while (performance.now() - began < length * 1000) {
      const some = Array.from({ length: JOBS_AT_ONCE }, (_, n) => ({
        name: "bag",
        data: { b: `bag ${added + n}` },
        opts: { removeOnComplete: true },
      }));
      await queue.addBulk(some);
      added += some.length;
      if (added - done > JOBS_WAITING_MAX)
        await until("the jobs were done", () => added - done < JOBS_WAITING_MAX / 2, 1);
    }
    await until("the last jobs were done", () => done >= added, 1);
    return (done - already) / ((performance.now() - began) / 1000);
  };
  await runFor(WARMUP_SECONDS); // BullMQ is more than a loop
  const perSecond = await runFor(seconds);
  await end();
  return perSecond;
}

async function signatures(seconds: number): Promise<number> {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: RSA_BITS });
  const signing = promisify((data: Buffer, done: (error: Error | null, signature: Buffer) => void) =>
    sign("sha256", data, privateKey, done),
  );
  const data = Buffer.alloc(SIGNED_BYTES, "a header to be signed");
  const signFor = async (length: number): Promise<number> => {
    const began = performance.now();
    let made = 0;
    await Promise.all(
      Array.from({ length: SIGNATURES_AT_ONCE }, async () => {
        for (; performance.now() - began < length * 1000; made++) await signing(data);
      }),
    );
    return made / ((performance.now() - began) / 1000);
  };
  await signFor(LOOP_WARMUP_SECONDS);
  return signFor(seconds);
}

const floor: Scenario = {
  name: "floor",
  does: "what a bare handler, script, insert, job, SMTP conversation and signature cost, each alone",
  async run(bench, { seconds, tell }) {
    const bare = await bench.program("bare", "bare.mjs");
    const request = { key: "", body: null, connections: CONNECTIONS };
    const loadFor = (path: string, length: number) =>
      load(bench, { ...request, url: bare.url + path, seconds: length }, false);
    await loadFor("/bare", WARMUP_SECONDS);
    const plain = await loadFor("/bare", seconds);
    await loadFor("/evalsha", WARMUP_SECONDS);
    const before = cpuSeconds(bare.pid);
    const evalsha = await loadFor("/evalsha", seconds);
    const cpuMicros = ((cpuSeconds(bare.pid) - before) / evalsha.requests) * 1e6;
    await bare.stop();
    tell("inserts");
    const rows = await unnestFloor(bench, seconds);
    tell("jobs");
    const done = await jobs(bench, seconds);
    tell("SMTP");
    const sent = await smtpFloor(bench.sink.port, await finishedMessage(), seconds);
    tell("signatures");
    const signed = await signatures(seconds);
    return {
      figures: [
        figure("requests, bare", plain.perSecond, "/s"),
        figure("requests with one EVALSHA", evalsha.perSecond, "/s"),
        figure(CPU_FLOOR, cpuMicros, "us"),
        figure("rows by unnest", rows, "/s"),
        figure("jobs through BullMQ", done, "/s"),
        figure("messages by pipelined SMTP", sent, "/s"),
        figure("RSA-2048 signatures", signed, "/s"),
        unansweredOf(plain, evalsha),
      ],
      distributions: [
        { name: "answer, bare", unit: "ms", points: plain.latency },
        { name: "answer with one EVALSHA", unit: "ms", points: evalsha.latency },
      ],
    };
  },
};

export const scenarios = [floor];
