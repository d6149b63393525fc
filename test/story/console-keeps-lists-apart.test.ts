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
