/**
 * The page of a shared e-mail is made for anybody with the link, out of what a sender chose: as large as it
 * may be.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { freshWorkspace, mail, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const CHARS = 1024 * 1024;

let database: OwnDatabase;
let engine: Engine;
let api: EngineProcess;
let hostile: TestWorkspace;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine([], { databaseUrl: database.url });
  api = await startProcess(["api"], { databaseUrl: database.url, watchesLoop: true });
  hostile = await freshWorkspace(engine.keyring, `http://127.0.0.1:${api.port}`);
});
afterAll(async () => {
  await api?.stop();
  await engine?.stop();
  await database.drop();
});

test.each([
  { html: "<".repeat(CHARS), becomes: "&lt;" },
  { text: `a${"\u{1f4e7}".repeat(CHARS / 4)}`, becomes: "\u{1f4e7}" },
])("of 1 MB, all to be written otherwise or of two halves: $becomes", async ({ becomes, ...content }) => {
  const { id } = (await hostile.client.post<{ id: string }>("/emails", mail({ html: undefined, ...content })))
    .body;
  const { url } = (await hostile.client.post<{ url: string }>(`/emails/${id}/share`, {})).body;
  const page = new URL(new URL(url).pathname, `http://127.0.0.1:${api.port}`);
  let shown = "";
  const read = async () => {
    shown = await (await fetch(page)).text();
  };
  expect(await workedBy(api, read, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
  const count = (content.html?.length ?? CHARS / 4) * becomes.length;
  expect(shown).toContain(becomes.repeat(count / becomes.length));
});
