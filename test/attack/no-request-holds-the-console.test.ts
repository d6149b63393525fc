/**
 * What people of one workspace may ask of the console at most: long searches, imports, simulations, policies
 * and bodies that are dear to read. It serves others meanwhile: its event loop is asked for the work that it
 * did in one turn.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type Browser, signedIn } from "../rig/people.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const KB = 1024;
const MB = 1024 * KB;
const WORKED_MS_MAX = 50;
const TOGETHER = 10;

let stage: Stage;
let engine: Engine;
let served: EngineProcess;
let browser: Browser;
let audience: string;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  served = await startProcess(["console"], { ...stage, settings: { CONSOLE_PORT: "0" }, watchesLoop: true });
  const ws = await engine.workspace();
  audience = (await ws.client.post<{ id: string }>("/audiences", { name: "A" })).body.id;
  browser = await signedIn(`http://127.0.0.1:${served.consolePort}`, engine.sql, ws.id);
});
afterAll(async () => {
  await served?.stop();
  await engine?.stop();
  await stage?.close();
});

const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / unit.length));
const numbered = (count: number, unit: (n: number) => string) =>
  Array.from({ length: count }, (_, n) => unit(n)).join();

type Ask = () => Promise<unknown>;
const post =
  (path: string, body: unknown): Ask =>
  () =>
    browser.post(path, body);
const REQUESTS: Record<string, () => Ask> = {
  "long searches of the reference": () => () =>
    fetch(`${browser.url}/docs/search?q=${encodeURIComponent(fill("a b ", 4 * KB))}`).then((r) => r.text()),
  "long searches of e-mails": () => () => browser.get(`v1/emails?to=${fill("a", 8 * KB)}`),
  "simulations as long as they may be": () =>
    post("caps/simulate", { scenario: "bought-list", days: 365, runs: 1 }),
  "a policy of many unknown fields": () =>
    post("caps/replay", `{"policy":{${numbered(5_000, (n) => `"k${n}":0`)}}}`),
  "a policy of arrays in arrays": () =>
    post("caps/simulate", `{"scenario":"x","policy":{"a":${fill("[", 20 * KB)}${fill("]", 20 * KB)}}}`),
  "an import of many rows": () => {
    let run = 0;
    return () => {
      const prefix = `r${run++}`;
      const csv = Array.from({ length: 40_000 }, (_, n) => `${prefix}${n}@example.net,"a""b"`).join("\n");
      return browser.post("contacts/import", { audience_id: audience, csv: `email,first_name\n${csv}` });
    };
  },
  "an import of broken quotes": () =>
    post("contacts/import", { audience_id: audience, csv: `email,a\n${fill('"a,\n', 2 * MB)}` }),
  "a body of empty arrays": () => post("contacts/import", `{"a":[${fill("[],", 9 * MB)}[]]}`),
  "a body of keys that differ": () => post("caps/simulate", `{${numbered(500_000, (n) => `"k${n}":0`)}}`),
  "an e-mail of megabytes to the API": () =>
    post("v1/emails", {
      from: "a@example.com",
      to: "b@example.net",
      subject: "x",
      html: fill("<p>é", 4 * MB),
    }),
};

test.each(Object.entries(REQUESTS))("%s", async (_, prepare) => {
  const ask = prepare();
  const again = () => Promise.all(Array.from({ length: TOGETHER }, ask));
  await again();
  expect(await workedBy(served, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
