/**
 * Bodies that are cheap to write and dear to parse, to keep or to hand over, most of them in a field that
 * nobody reads. The event loop of the api is asked for the work it did in one turn, since this machine may
 * stand still for others.
 */
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BOMBS, type Bomb, pathOf } from "../rig/bombs.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { insisted, sendsBeside } from "../rig/neighbour.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { freshWorkspace, mail, type Refusal, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const RSS_MB_MAX = 1024;
/** A body may be parsed anew, ten seconds later. */
const TEST_MS_MAX = 120_000;

/** Others look through every table of the shared one. */
let database: OwnDatabase;
let engine: Engine;
let api: EngineProcess;
let hostile: TestWorkspace;
let neighbour: TestWorkspace;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine([], { databaseUrl: database.url });
  api = await startProcess(["api"], { databaseUrl: database.url, watchesLoop: true });
  const url = `http://127.0.0.1:${api.port}`;
  hostile = await freshWorkspace(engine.keyring, url);
  neighbour = await freshWorkspace(engine.keyring, url);
  for (let n = 0; n < 20; n++) await neighbour.client.post("/emails", mail());
});
afterAll(async () => {
  await api?.stop();
  await engine?.stop();
  await database.drop();
});

test.each(Object.entries(BOMBS))(
  "%s",
  async (what, [status, body]) => {
    const text = body();
    const ask = async () => {
      const answer = await insisted<Refusal>(hostile, pathOf(what), text);
      expect(answer.status, JSON.stringify(answer.body)).toBe(status);
    };
    expect(await workedBy(api, ask, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
    expect((await api.loop()).rssMbMax).toBeLessThan(RSS_MB_MAX);
  },
  TEST_MS_MAX,
);

test("what is wrong is not looked for in all of a body", async () => {
  const steps = Array(42_000).fill({});
  const ask = async () =>
    expect((await hostile.client.post("/automations", { name: "Steps", steps })).status).toBe(422);
  expect(await workedBy(api, ask, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("the neighbour sends as before while they come", async () => {
  const texts = ["empty objects", "keys that differ", "one long key", "letters as escapes"].map((what) =>
    (BOMBS[what] as Bomb)[1](),
  );
  await api.loop();
  const attack = Promise.all(texts.map((text) => hostile.client.post("/emails", text)));
  await sendsBeside(neighbour, texts.length, attack);
  // the server library reads each of them for as long as it finds its buffer full
  expect((await api.loop()).workedMsMax).toBeLessThan(texts.length * WORKED_MS_MAX);
});

test.runIf(process.platform === "linux")(
  "the thread that parses them goes behind the one that serves",
  () => {
    const niceOf = (stat: string) => Number(stat.split(") ").at(-1)?.split(" ")[16]);
    const read = (path: string) => niceOf(readFileSync(`/proc/${api.pid}/${path}/stat`, "utf8"));
    const threads = readdirSync(`/proc/${api.pid}/task`).map((id) => read(`task/${id}`));
    const served = read(`task/${api.pid}`);
    expect(threads.filter((nice) => nice !== served)).toEqual([served + 5]);
  },
);
