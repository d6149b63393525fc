/**
 * A browser has six connections to a server without HTTP/2. The tabs of one person in one workspace share one
 * live stream, whichever of them opened it, and hear no other.
 */
import type { BrowserContext, Page } from "playwright-core";
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";
import { StreamFront } from "../rig/streamfront.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const TABS = 8;
const scene = sceneOf(async () => {
  const opened = await openConsole();
  const front = await StreamFront.open(opened.engine.consoleUrl);
  return {
    ...opened,
    front,
    async close() {
      await front.close();
      await opened.close();
    },
  };
});

/** Somebody in a workspace of their own, in a browser that reads nothing by the clock. */
async function atEmails() {
  const { engine, chromium, front } = scene;
  const workspace = await engine.workspace();
  const { id, email } = await person(engine.sql, workspace.id, "member");
  const page = await chromium.page();
  await page.context().addInitScript("setInterval = () => 0");
  await page.goto(`${front.url}/console`);
  await signIn(page, email);
  await page.getByText(/curl http.*\/api\/v1\/emails/).waitFor();
  return { id, email, workspace, page, context: page.context() };
}

async function tab(context: BrowserContext, workspaceId?: string): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`${scene.front.url}/console/emails${workspaceId ? `?workspace=${workspaceId}` : ""}`);
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  return page;
}

const send = ({ client }: TestWorkspace, subject: string) => client.post("/emails", mail({ subject }));
const shows = (page: Page, subject: string) => page.getByRole("cell", { name: subject }).waitFor();
const streams = () => [...scene.front.streams.values()];

inChromium("eight tabs are served, and all show what arrives, from one stream", async () => {
  const { page, context, workspace } = await atEmails();
  const tabs = [page];
  while (tabs.length < TABS) tabs.push(await tab(context));
  await send(workspace, "For all");
  await Promise.all(tabs.map((each) => shows(each, "For all")));
  expect(streams()).toHaveLength(1);
  // whoever opened it closes, and nothing is missed
  await Promise.all([page.close(), send(workspace, "Sent at the end of the first")]);
  await Promise.all(tabs.slice(1).map((each) => shows(each, "Sent at the end of the first")));
  await Promise.all(tabs.slice(1).map((each) => each.close()));
  await expect.poll(streams).toEqual([]);
  expect(scene.chromium.complaints).toEqual([]);
});

inChromium("what happened while the stream was away shows in every tab once it is back", async () => {
  const { page, context, workspace } = await atEmails();
  const tabs = [page, await tab(context)];
  await expect.poll(streams).toHaveLength(1);
  // the browser gives up a stream that is refused
  scene.front.refusals = 1;
  scene.front.endStreams();
  await send(workspace, "Sent meanwhile");
  await Promise.all(tabs.map((each) => shows(each, "Sent meanwhile")));
  expect(scene.front.refusals).toBe(0);
  await context.close();
});

inChromium("a tab that comes late hears of what happened since it has read", async () => {
  const { page, context, workspace } = await atEmails();
  await expect.poll(streams).toHaveLength(1);
  const late = await context.newPage();
  await late.addInitScript(`
    const Shared = SharedWorker;
    const isLet = new Promise((let) => { window.join = let; });
    SharedWorker = class {
      port = { start() {}, postMessage() {}, close() {}, onmessage: null };
      constructor(...given) {
        isLet.then(() => {
          const { port } = new Shared(...given);
          port.onmessage = (event) => this.port.onmessage(event);
        });
      }
    }`);
  await late.goto(`${scene.front.url}/console/emails`);
  await late.getByText(/curl http.*\/api\/v1\/emails/).waitFor();
  await send(workspace, "Sent before it joined");
  await shows(page, "Sent before it joined");
  await late.evaluate("join()");
  await shows(late, "Sent before it joined");
  await context.close();
});

inChromium("a tab hears nothing of another workspace, also after it was there", async () => {
  const { id, page, context, workspace } = await atEmails();
  const other = await scene.engine.workspace();
  await scene.engine
    .sql`insert into member (workspace_id, account_id, role) values (${other.id}, ${id}, 'member')`;
  const [elsewhere, mover] = [await tab(context, other.id), await tab(context, workspace.id)];
  await expect.poll(streams).toHaveLength(2);
  await mover.getByLabel("Workspace").selectOption(other.id);
  await send(other, "Of the other");
  const asked: string[] = [];
  let askedAt = performance.now();
  for (const each of [elsewhere, mover])
    each.on("request", (request) => {
      asked.push(request.url());
      askedAt = performance.now();
    });
  await Promise.all([shows(elsewhere, "Of the other"), shows(mover, "Of the other")]);
  // each is told of it within a second, and reads a little later
  await expect.poll(() => performance.now() - askedAt).toBeGreaterThan(3_000);
  asked.length = 0;
  await send(workspace, "Of the first");
  await shows(page, "Of the first");
  await send(workspace, "And another");
  await shows(page, "And another");
  expect(asked).toEqual([]);
  // nobody is in the first any more
  await page.close();
  await expect.poll(streams).toEqual([expect.stringContaining(other.id)]);
  await context.close();
});

inChromium("a tab that nobody looks at reads when somebody does, and not with each event", async () => {
  const { page, context, workspace } = await atEmails();
  const hidden = await context.newPage();
  await hidden.addInitScript(`
    window.seen = "visible";
    Object.defineProperty(document, "visibilityState", { get: () => window.seen });`);
  await hidden.goto(`${scene.front.url}/console/emails`);
  await send(workspace, "Seen");
  await shows(hidden, "Seen");
  const look = (how: string) =>
    hidden.evaluate(`window.seen = "${how}"; document.dispatchEvent(new Event("visibilitychange"))`);
  await look("hidden");
  const asked: string[] = [];
  hidden.on("request", (request) => asked.push(request.url()));
  for (const subject of ["Unseen", "Unseen again"]) {
    await send(workspace, subject);
    await shows(page, subject);
  }
  expect(asked).toEqual([]);
  await look("visible");
  await shows(hidden, "Unseen again");
  await context.close();
});

inChromium("while an answer is slow, what happens asks nothing again", async () => {
  const { page, context, workspace } = await atEmails();
  const other = await tab(context);
  let answer = () => {};
  const isAnswered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  let asked = 0;
  await page.route("**/call/v1/emails?*", async (route) => {
    asked++;
    await isAnswered;
    await route.continue();
  });
  for (const subject of ["First", "Second", "Third", "Last"]) {
    await send(workspace, subject);
    await shows(other, subject);
  }
  expect(asked).toBe(1);
  answer();
  await shows(page, "Last");
  await context.close();
});

inChromium("a browser without shared workers has a stream for each tab", async () => {
  const { page, context, workspace } = await atEmails();
  const own = await context.newPage();
  await own.addInitScript("delete globalThis.SharedWorker");
  await own.goto(`${scene.front.url}/console/emails`);
  await expect.poll(streams).toHaveLength(2);
  await send(workspace, "For both");
  await Promise.all([page, own].map((each) => shows(each, "For both")));
  await context.close();
});

inChromium("a tab whose worker is not there any more has a stream of its own", async () => {
  const { page, context, workspace } = await atEmails();
  const own = await context.newPage();
  await own.addInitScript(`
    const Shared = SharedWorker;
    SharedWorker = function (url, options) { return new Shared(url + ".gone", options); }`);
  await own.goto(`${scene.front.url}/console/emails`);
  await expect.poll(streams).toHaveLength(2);
  await send(workspace, "For both");
  await Promise.all([page, own].map((each) => shows(each, "For both")));
  await context.close();
});
