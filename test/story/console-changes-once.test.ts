/**
 * A browser makes a call again by itself when a connection that it used before breaks without an answer. What
 * the call changes is changed once, and whoever asked for it is told to look.
 */
import { randomUUID } from "node:crypto";
import type { Locator } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { held, inChromium, openConsoleBehindProxy, sceneOf, signIn } from "../rig/page.ts";
import { type Browser, person, signedIn } from "../rig/people.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { keysIn } from "../rig/wholeredis.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const LOOK = "unknown whether this was done. Look before you try it again.";
/** A header of a request, with everything else of its head, has less than 16 KB. */
const LONG = "x".repeat(12_000);
const TEMPLATE = { name: "Order", subject: "Order", html: "<p>Hello</p>" };

const scene = sceneOf(openConsoleBehindProxy);

inChromium("a template and a key whose answers are lost are there once, and that is told", async () => {
  const { engine, workspace, chromium, proxy } = scene;
  const { email } = await person(engine.sql, workspace.id, "owner");
  const page = await chromium.page();
  await page.goto(`http://127.0.0.1:${proxy.port}/console/templates`);
  await signIn(page, email);
  const dialog = page.getByRole("dialog");

  await page.getByRole("button", { name: "New template" }).click();
  await dialog.getByLabel("Name").fill("Order");
  await dialog.getByLabel("Subject").fill("Order");
  const isTemplateLost = proxy.cutReply((request) => request.includes("POST /console/call/v1/templates "));
  await pressOnUsedConnection(dialog.getByRole("button", { name: "Create" }));
  await isTemplateLost;
  await dialog.getByText(LOOK).waitFor();
  expect(await count("template")).toBe(1);
  // once it has been looked at, it is another call
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { level: 1, name: "Order" }).waitFor();
  expect(await count("template")).toBe(2);

  const keys = await count("api_key");
  await page.goto(`http://127.0.0.1:${proxy.port}/console/keys`);
  await page.getByRole("button", { name: "Create API key" }).click();
  await dialog.getByLabel("Name").fill("shop");
  const isKeyLost = proxy.cutReply((request) => request.includes("POST /console/call/keys "));
  await pressOnUsedConnection(dialog.getByRole("button", { name: "Create" }));
  await isKeyLost;
  await dialog.getByText(LOOK).waitFor();
  expect(await count("api_key")).toBe(keys + 1);
  expect(chromium.complaints).toEqual([]);
});

inChromium("of what changes nothing nobody is told that it may have been done", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/caps?tab=policy`);
  const replay = page.getByRole("button", { name: "Replay the recorded days" });
  await replay.waitFor();
  // the time for an answer is over when the test says so
  await page.evaluate(
    "const late = new AbortController(); AbortSignal.timeout = () => late.signal;" +
      "timeIsOver = () => late.abort(new DOMException('late', 'TimeoutError'))",
  );
  const { isAsked, answer } = await held(page, "**/call/caps/replay", "POST");
  await replay.click();
  await isAsked;
  await page.evaluate("timeIsOver()");
  await page.getByRole("alert").getByText("The server has not answered in time. Try again.").waitFor();
  answer();
});

/**
 * The console closes a connection after 5 s without a call, and what goes on a new one is not made again. The
 * page may take one of those that were used for a call of its own.
 */
function pressOnUsedConnection(button: Locator): Promise<void> {
  return button.evaluate(async (element) => {
    const calls = Array.from({ length: 4 }, () => fetch("/console/call/session"));
    for (const answer of await Promise.all(calls)) await answer.text();
    (element as { click(): void }).click();
  });
}

async function count(table: "template" | "api_key"): Promise<number> {
  const { engine, workspace } = scene;
  const { sql } = engine;
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from ${sql(table)} where workspace_id = ${workspace.id}`;
  return row?.count ?? -1;
}

let database: OwnDatabase;
let redis: OwnRedis;
let engines: Engine[];
let workspace: TestWorkspace;
let browser: Browser;
beforeAll(async () => {
  [database, redis] = await Promise.all([ownDatabase(), ownRedis()]);
  const options = { databaseUrl: database.url, redisUrl: redis.url, settings: { CONSOLE_PORT: "0" } };
  engines = await Promise.all([startEngine(["console"], options), startEngine(["console"], options)]);
  workspace = await first().workspace();
  browser = await signedIn(first().consoleUrl, first().sql, workspace.id);
});
afterAll(async () => {
  await Promise.all(engines.map((engine) => engine.stop()));
  await Promise.all([redis.stop(), database.drop()]);
});

test("one of many calls with one id is made, and only that one is in the audit log", async () => {
  const id = { "x-call-id": randomUUID() };
  for (const [path, body, status] of [
    ["v1/templates", TEMPLATE, 201],
    ["keys", { name: "shop", preset: "full" }, 201],
  ] as const) {
    const id = { "x-call-id": randomUUID() };
    const replies = await Promise.all(Array.from({ length: 5 }, () => browser.post(path, body, id)));
    expect(replies.map((reply) => reply.status).sort()).toEqual([status, 409, 409, 409, 409]);
    const refused = replies.find((reply) => reply.status === 409);
    expect(refused?.headers.get("content-type")).toContain("json");
    expect(refused?.body).toEqual({
      ...{ statusCode: 409, name: "repeated_call" },
      message: expect.stringContaining(LOOK),
    });
  }
  const { body } = await browser.get<{ data: { action: string; status: number }[] }>("audit");
  expect(body.data.filter(({ action }) => action !== "POST session")).toMatchObject([
    { action: "POST keys", status: 201 },
    { action: "POST /templates", status: 201 },
  ]);
  expect((await browser.post("v1/templates", TEMPLATE, id)).status).toBe(201);
});

test("a call that another process has seen is refused", async () => {
  const id = { "x-call-id": randomUUID() };
  expect((await browser.post("v1/templates", TEMPLATE, id)).status).toBe(201);
  const [, second] = engines;
  browser = Object.assign(browser, { url: second?.consoleUrl });
  expect((await browser.post("v1/templates", TEMPLATE, id)).status).toBe(409);
});

test("an id belongs to its session, has any length, and is not needed", async () => {
  const id = { "x-call-id": LONG };
  const other = await signedIn(first().consoleUrl, first().sql, workspace.id);
  expect((await browser.post("v1/templates", TEMPLATE, id)).status).toBe(201);
  expect((await other.post("v1/templates", TEMPLATE, id)).status).toBe(201);
  expect((await browser.post("v1/templates", TEMPLATE, id)).status).toBe(409);
  expect((await browser.post("v1/templates", TEMPLATE)).status).toBe(201);
  expect((await browser.post("v1/templates", TEMPLATE)).status).toBe(201);
  const names = await keysIn(first().redis, "*");
  expect(Math.max(...names.map((name) => name.length))).toBeLessThan(200);
});

test("a call that reads, or that was refused before it began, is not noted", async () => {
  const id = { "x-call-id": randomUUID() };
  for (const _ of [1, 2]) {
    expect((await browser.get("v1/templates", id)).status).toBe(200);
    expect((await browser.post("templates/render", { html: "<p></p>" }, id)).status).toBe(200);
    expect((await browser.post("keys", { names: "shop" }, id)).status).toBe(422);
    expect((await browser.post("v1/templates", "{", id)).status).toBe(400);
  }
  expect((await browser.post("v1/templates", TEMPLATE, id)).status).toBe(201);
});

test("whoever is not signed in leaves nothing in Redis", async () => {
  const id = { "x-call-id": randomUUID() };
  const names = () => keysIn(first().redis, "*");
  const before = await names();
  expect((await browser.post("v1/templates", TEMPLATE, { ...id, cookie: "" })).status).toBe(401);
  expect((await browser.post("keys", {}, { ...id, "x-csrf-token": "" })).status).toBe(403);
  // what was there may end meanwhile
  expect((await names()).filter((name) => !before.includes(name))).toEqual([]);
});

test("without Redis changes are made", async () => {
  await redis.kill();
  const id = { "x-call-id": randomUUID() };
  expect((await browser.post("v1/templates", TEMPLATE, id)).status).toBe(201);
  await redis.restart();
});

function first(): Engine {
  return engines[0] as Engine;
}
