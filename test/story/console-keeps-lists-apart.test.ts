/** What comes late for a list that somebody has left is in no other list. */
import type { Route } from "playwright-core";
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);
const PAGE = 50;
/** By then an answer is drawn. */
const TWO_FRAMES = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))";

inChromium("more of a list whose filter has changed", async () => {
  const { engine, workspace, chromium } = scene;
  await send(workspace.client, PAGE + 10, "many");
  await send(workspace.client, 1, "rare");
  const page = await chromium.pageOf(engine, workspace.id);
  let change = () => {};
  const changed = new Promise<void>((resolve) => {
    change = resolve;
  });
  await page.route("**/v1/emails?*cursor=*", (route) => changed.then(() => route.continue()));
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByLabel("Subject").fill("rare");
  await page.keyboard.press("Enter");
  await page.getByText("1 shown").waitFor();
  const late = page.waitForEvent("requestfinished", (request) => request.url().includes("cursor="));
  change();
  await late;
  await page.evaluate(TWO_FRAMES);
  expect(await page.locator("tbody tr").count()).toBe(1);
});

inChromium("an export of a workspace that was left for another", async () => {
  const { engine, chromium } = scene;
  const [one, other] = [await engine.workspace(), await engine.workspace()];
  await send(other.client, PAGE, "theirs");
  await send(one.client, 2 * PAGE + 10, "ours");
  const { id, email } = await person(engine.sql, one.id);
  await engine.sql`insert into member (workspace_id, account_id, role) values (${other.id}, ${id}, 'owner')`;
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/emails?workspace=${one.id}`);
  await signIn(page, email);
  await page.locator("tbody tr").first().waitFor();
  let change = () => {};
  const switched = new Promise<void>((resolve) => {
    change = resolve;
  });
  const asked: (string | undefined)[] = [];
  await page.route("**/v1/emails?*limit=100*", async (route) => {
    asked.push(route.request().headers()["x-workspace"]);
    await switched;
    await route.continue();
  });
  await page.getByRole("button", { name: "Export CSV" }).click();
  await expect.poll(() => asked.length).toBe(1);
  await page.getByRole("combobox", { name: "Workspace" }).selectOption(other.id);
  await page.locator("tbody tr").filter({ hasText: "theirs" }).first().waitFor();
  const late = page.waitForEvent("requestfinished", (request) => request.url().includes("limit=100"));
  change();
  await late;
  await page.evaluate(TWO_FRAMES);
  expect(asked).toEqual([one.id]);
});

inChromium("an export that is stopped saves nothing, and the next one does", async () => {
  const { engine, chromium } = scene;
  const { id, client } = await engine.workspace();
  await send(client, 2 * PAGE + 10, "ours");
  const page = await chromium.pageOf(engine, id);
  await page.locator("tbody tr").first().waitFor();
  const asks: (() => void)[] = [];
  await page.route("**/v1/emails?*limit=100*", async (route) => {
    await new Promise<void>((go) => asks.push(go));
    await route.continue();
  });
  const files: unknown[] = [];
  page.on("download", (file) => files.push(file));
  await page.getByRole("button", { name: "Export CSV" }).click();
  await page.getByText("0 rows read").waitFor();
  await expect.poll(() => asks.length).toBe(1);
  await page.getByRole("button", { name: "Stop the export" }).click();
  await page.getByRole("button", { name: "Export CSV" }).waitFor();
  const late = page.waitForEvent("requestfinished", (request) => request.url().includes("limit=100"));
  asks[0]?.();
  await late;
  await page.evaluate(TWO_FRAMES);
  expect([asks.length, files]).toEqual([1, []]);
  await page.unroute("**/v1/emails?*limit=100*");
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export CSV" }).click();
  await saved;
});

inChromium("an export of a list that was filtered otherwise meanwhile", async () => {
  const { engine, chromium } = scene;
  const { id, client } = await engine.workspace();
  await send(client, 2 * PAGE + 10, "ours");
  await send(client, 1, "rare");
  const page = await chromium.pageOf(engine, id);
  await page.locator("tbody tr").first().waitFor();
  const asks: (() => void)[] = [];
  await page.route("**/v1/emails?*limit=100*", async (route) => {
    await new Promise<void>((go) => asks.push(go));
    await route.continue();
  });
  const files: unknown[] = [];
  page.on("download", (file) => files.push(file));
  await page.getByRole("button", { name: "Export CSV" }).click();
  await expect.poll(() => asks.length).toBe(1);
  await page.getByLabel("Subject").fill("rare");
  await page.keyboard.press("Enter");
  await page.getByText("1 shown").waitFor();
  await page.getByRole("button", { name: "Export CSV" }).waitFor();
  const late = page.waitForEvent("requestfinished", (request) => request.url().includes("limit=100"));
  asks[0]?.();
  await late;
  await page.evaluate(TWO_FRAMES);
  expect([asks.length, files]).toEqual([1, []]);
});

inChromium("workspaces of one name are told apart", async () => {
  const { engine, chromium } = scene;
  const [one, other] = [await engine.workspace(), await engine.workspace()];
  const { id, email } = await person(engine.sql, one.id);
  await engine.sql`insert into member (workspace_id, account_id, role) values (${other.id}, ${id}, 'owner')`;
  await engine.sql`update workspace set name = 'Shop' where id in (${one.id}, ${other.id})`;
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/emails?workspace=${one.id}`);
  await signIn(page, email);
  const names = [one, other].map((workspace) => `Shop (…${workspace.id.slice(-6)})`);
  const switcher = page.getByRole("combobox", { name: "Workspace" });
  await switcher.waitFor();
  expect((await switcher.locator("option").allTextContents()).sort()).toEqual([...names].sort());
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Go to a screen, or find mail" }).fill("Shop");
  await page.getByRole("option", { name: `Switch to ${names[1]}` }).click();
  await expect.poll(() => switcher.inputValue()).toBe(other.id);
});

async function send(client: typeof scene.workspace.client, count: number, subject: string): Promise<void> {
  for (let left = count; left > 0; left -= 100) {
    const some = Array.from({ length: Math.min(left, 100) }, () => mail({ subject }));
    expect((await client.post("/emails/batch", some)).status).toBe(200);
  }
}

inChromium("an answer that comes late takes no row away", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  await client.post("/templates", { name: "First", html: "<p>x</p>" });
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates`);
  await page.getByRole("link", { name: "First" }).waitFor();
  let answer = () => {};
  const isAnswered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  let read = () => {};
  const isRead = new Promise<void>((resolve) => {
    read = resolve;
  });
  const hold = async (route: Route) => {
    const response = await route.fetch();
    read();
    await isAnswered;
    await route.fulfill({ response });
  };
  await page.route("**/v1/templates?*", hold, { times: 1 });
  const lookAgain = () => page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await lookAgain();
  await isRead;
  await client.post("/templates", { name: "Second", html: "<p>x</p>" });
  await lookAgain();
  await page.getByRole("link", { name: "Second" }).waitFor();
  const late = page.waitForResponse("**/v1/templates?*");
  answer();
  await (await late).finished();
  await page.evaluate(TWO_FRAMES);
  expect(await page.getByRole("link", { name: "Second" }).count()).toBe(1);
});
