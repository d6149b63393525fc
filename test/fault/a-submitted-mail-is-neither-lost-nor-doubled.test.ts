/**
 * What is answered 250 is stored once, and what is answered 4xx is not stored: with Postgres or Redis away,
 * an answer of a commit lost, the process killed amid mail or stopped politely.
 */
// @module-tag one-redis: puts a proxy in front of its Redis
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { idIn, loggedIn, submit } from "../rig/submitting.ts";
import { freshWorkspace, type TestWorkspace } from "../rig/workspace.ts";

const SETTINGS = { SUBMISSION_TLS_PORT: "0" };
/** Gives up soon. Where all stores answer nobody may: the machine may stand still for a moment. */
const HASTY = { ...SETTINGS, STORE_TIMEOUT_MS: "2000" };

/** Longer than a commit and the question for its fate may take. */
const OUTAGE_MS = 8_000;
/** Redis holds the key of a request that never ended for ten seconds. */
const CLAIM_MS_MAX = 20_000;

let stage: Stage;
let toPostgres: TcpProxy;
let toRedis: TcpProxy;
let places: { databaseUrl: string; redisUrl: string };
/** Looks at the stores without a proxy. */
let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  const { port, username, password, pathname } = new URL(stage.databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  toRedis = await openProxy({ port: stage.redis.port });
  places = {
    databaseUrl: `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`,
    redisUrl: `redis://127.0.0.1:${toRedis.port}`,
  };
  engine = await startEngine([], stage);
  workspace = await freshWorkspace(engine.keyring, "");
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([toPostgres.down(), toRedis.down()]);
  await stage.close();
});

const message = (subject: string, key?: string) =>
  `From: orders@example.com\nTo: one@example.net\nSubject: ${subject}\n${key ? `Resend-Idempotency-Key: ${key}\n` : ""}\nx`;

async function stored(subject: string): Promise<string[]> {
  const rows = await engine.sql<{ id: string }[]>`
    select id from email where workspace_id = ${workspace.id} and head->>'subject' = ${subject}`;
  return rows.map(({ id }) => id);
}

/** What is answered, or nothing when the connection breaks. */
async function sent(port: number, text: string): Promise<string> {
  const client = await loggedIn(port, workspace.client.key);
  try {
    return await submit(client, "one@example.net", text);
  } finally {
    client.destroy();
  }
}

async function untilTaken(port: number, text: string): Promise<string> {
  let answer = "";
  await expect
    .poll(
      async () => {
        answer = await sent(port, text).catch(() => "");
        return answer;
      },
      { timeout: CLAIM_MS_MAX },
    )
    .toMatch(/^250/);
  return answer;
}

test("a store that does not answer is 451 in time, and the next try is taken once", async () => {
  const submission = await startEngine(["submission"], { ...stage, ...places, settings: HASTY });
  const port = submission.submissionTlsPort;
  await untilTaken(port, message("before"));
  const client = await loggedIn(port, workspace.client.key);
  toPostgres.stall();
  expect(await submit(client, "one@example.net", message("no postgres"))).toMatch(
    /^451 4\.3\.0 Postgres does not answer\./,
  );
  client.destroy();
  toPostgres.flow();
  await untilTaken(port, message("no postgres"));
  expect(await stored("no postgres")).toHaveLength(1);

  const another = await loggedIn(port, workspace.client.key);
  toRedis.stall();
  expect(await submit(another, "one@example.net", message("no redis"))).toMatch(
    /^451 4\.3\.0 Redis does not answer\./,
  );
  another.destroy();
  toRedis.flow();
  await untilTaken(port, message("no redis"));
  expect(await stored("no redis")).toHaveLength(1);
  await submission.stop();
});

test("the answer of a commit is lost with Postgres for longer than a commit waits: it is learnt, and said", async () => {
  const submission = await startEngine(["submission"], { ...stage, ...places, settings: HASTY });
  const port = submission.submissionTlsPort;
  const client = await loggedIn(port, workspace.client.key);
  // as the protocol carries a statement the first time on a connection
  const isCut = toPostgres.cutReply((request) => request.includes("\0commit\0"));
  const answer = submit(client, "one@example.net", message("unknown"));
  await isCut;
  toPostgres.stall();
  setTimeout(() => toPostgres.flow(), OUTAGE_MS);
  const said = await answer;
  expect(await stored("unknown")).toEqual([idIn(said)]);
  client.destroy();
  await submission.stop();
});

async function killedAmid(end: (process: EngineProcess) => Promise<unknown>, keyed: boolean) {
  const subject = `amid ${keyed}`;
  let process = await startProcess(["submission"], { ...stage, settings: SETTINGS });
  const answers: string[] = [];
  let ended: Promise<unknown> | null = null;
  await Promise.all(
    Array.from({ length: 10 }, async (_, n) => {
      const client = await loggedIn(process.submissionTlsPort as number, workspace.client.key);
      for (let m = 0; m < 40; m++) {
        const text = message(subject, keyed ? `${n}-${m}` : undefined);
        const answer = await submit(client, "one@example.net", text).catch(() => "");
        if (!answer.startsWith("250")) return;
        answers.push(idIn(answer));
        if (answers.length === 100) ended = end(process);
      }
    }),
  );
  expect(ended).not.toBeNull();
  await ended;
  return {
    subject,
    answers,
    async again() {
      process = await startProcess(["submission"], { ...stage, settings: SETTINGS });
      return process;
    },
  };
}

test("killed amid mail: what was answered is there, and what is sent again under its key is there once", async () => {
  const { subject, answers, again } = await killedAmid((process) => process.kill(), true);
  expect(await stored(subject)).toEqual(expect.arrayContaining(answers));
  const process = await again();
  const client = await loggedIn(process.submissionTlsPort as number, workspace.client.key);
  const taken = async (key: string): Promise<string> => {
    const answer = await submit(client, "one@example.net", message(subject, key));
    if (!answer.startsWith("450 4.5.0")) return answer;
    return untilTaken(process.submissionTlsPort as number, message(subject, key));
  };
  const ids = new Set<string>();
  for (let n = 0; n < 10; n++) for (let m = 0; m < 40; m++) ids.add(idIn(await taken(`${n}-${m}`)));
  expect(ids.size).toBe(400);
  expect(new Set(await stored(subject))).toEqual(ids);
  client.destroy();
  await process.stop();
});

test("stopped politely amid mail: exactly what was answered is there", async () => {
  const { subject, answers } = await killedAmid((process) => process.stop(), false);
  expect((await stored(subject)).sort()).toEqual(answers.sort());
});
