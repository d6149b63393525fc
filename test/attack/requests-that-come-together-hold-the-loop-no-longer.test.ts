/**
 * Requests of one workspace that are each as dear as one may be, on many connections at the same moment: the
 * event loop does a few of them in one turn and not all. It is asked for its work, since this machine may
 * stand still for others.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { BOMBS, type Bomb, pathOf } from "../rig/bombs.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { freshWorkspace, mail, type TestWorkspace } from "../rig/workspace.ts";

const TOGETHER = 40;
const WORKED_MS_MAX = 50;

let database: OwnDatabase;
let engine: Engine;
let api: EngineProcess;
let hostile: TestWorkspace;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine([], { databaseUrl: database.url });
  api = await startProcess(["api"], { databaseUrl: database.url, watchesLoop: true });
  hostile = await freshWorkspace(engine.keyring, `http://127.0.0.1:${api.port}`, "pro", {
    requests_per_second: 1_000,
  });
});
afterAll(async () => {
  await api?.stop();
  await engine?.stop();
  await database.drop();
});

async function workedMs(path: string, body: unknown): Promise<number> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return workedMsOf(() => hostile.client.post(path, text));
}

async function workedMsOf(ask: () => Promise<unknown>): Promise<number> {
  const all = () => Promise.all(Array.from({ length: TOGETHER }, ask));
  await all(); // compiles
  return workedBy(api, all, WORKED_MS_MAX);
}

test("sends with a template that is dear to render", async () => {
  const html =
    "{% for i in (1..3000) %}{% for j in (1..3000) %}{{ v | url_encode | size }}{% endfor %}{% endfor %}";
  const template = { subject: "s", from: "a@example.com", html };
  expect((await hostile.client.call("PUT", "/templates/dear", template)).status).toBe(201);
  const send = { to: "one@example.net", template: { id: "dear", variables: { v: "%C3%A9a" } } };
  expect(await workedMs("/emails", send)).toBeLessThan(WORKED_MS_MAX);
});

test.each([
  "objects just below the size that is parsed aside",
  "keys just below that size",
  "deep, just below that size",
])("%s", async (what) => {
  const [, body] = BOMBS[what] as Bomb;
  expect(await workedMs(pathOf(what), body())).toBeLessThan(WORKED_MS_MAX);
});

test("batches of a hundred", async () => {
  expect(
    await workedMs(
      "/emails/batch",
      Array.from({ length: 100 }, () => mail()),
    ),
  ).toBeLessThan(WORKED_MS_MAX);
});

test("sends with all that one may have", async () => {
  const to = Array.from({ length: 50 }, (_, n) => `${"x".repeat(40)}${n}@example.net`);
  const headers = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`X-${n}`, "é ".repeat(200)]));
  expect(await workedMs("/emails", mail({ to, headers, subject: "é".repeat(300) }))).toBeLessThan(
    WORKED_MS_MAX,
  );
});

test("pages of e-mails with all that one may have", async () => {
  const to = Array.from({ length: 50 }, (_, n) => `${"x".repeat(40)}${n}@example.net`);
  await hostile.client.send(Array.from({ length: 100 }, () => mail({ to, subject: "é".repeat(300) })));
  expect(await workedMsOf(() => hostile.client.get("/emails?limit=100"))).toBeLessThan(WORKED_MS_MAX);
});

test("one e-mail of megabytes", async () => {
  const html = "<&é ".repeat(400_000);
  const { body } = await hostile.client.post<{ id: string }>("/emails", mail({ html }));
  expect(await workedMsOf(() => hostile.client.get(`/emails/${body.id}`))).toBeLessThan(WORKED_MS_MAX);
});

test("contacts with all that one may have", async () => {
  const properties = Object.fromEntries(Array.from({ length: 90 }, (_, n) => [`p${n}`, "é".repeat(60)]));
  const { body } = await hostile.client.post<{ id: string }>("/audiences", { name: "A" });
  const contacts = `/audiences/${body.id}/contacts`;
  for (let n = 0; n < 100; n++)
    expect((await hostile.client.post(contacts, { email: `c${n}@example.net`, properties })).status).toBe(
      201,
    );
  expect(await workedMsOf(() => hostile.client.get(`${contacts}?limit=100`))).toBeLessThan(WORKED_MS_MAX);
});
