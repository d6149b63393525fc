/**
 * Tabs share a session. Once somebody else has signed in, in this tab or another, a page shows and sends
 * nothing for them that was opened by whoever was there before.
 */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);
const ENDED = "Your session has ended. Sign in to go on where you were.";
const TYPED = "https://hooks.example.net/typed";

async function people() {
  const { engine, workspace } = scene;
  const [ada, bob] = [await person(engine.sql, workspace.id), await person(engine.sql, workspace.id)];
  return { ada, bob };
}

async function at(page: Page, path: string, email: string): Promise<Page> {
  await page.goto(`${scene.engine.consoleUrl}/console/${path}`);
  await signIn(page, email);
  await page.getByRole("button", { name: "Sign out", exact: true }).waitFor();
  return page;
}

async function signOut(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
}

inChromium("a page waits for whoever opened it when somebody else signs in in another tab", async () => {
  const { engine, workspace, chromium } = scene;
  const { ada, bob } = await people();
  const page = await at(await chromium.page(), "webhooks", ada.email);
  // until something makes it ask
  await page.evaluate("setInterval = () => 0");
  await page.getByRole("button", { name: "Add webhook" }).click();
  await page.getByLabel("Endpoint").fill(TYPED);
  const other = await page.context().newPage();
  await other.goto(`${engine.consoleUrl}/console/emails`);
  await signOut(other);
  await signIn(other, bob.email);
  await other.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  await page.getByRole("dialog").locator("button[type=submit]").click();
  await page.getByText(ENDED).waitFor();
  expect(await page.content()).not.toContain(bob.email);
  // whoever used the keyboard goes on with it
  const email = page.locator(".door").getByLabel("Email");
  await expect.poll(() => email.evaluate((field) => field.matches(":focus"))).toBe(true);
  await signIn(page, ada.email);
  await page.getByRole("dialog", { name: "Add webhook" }).waitFor();
  expect(await page.getByLabel("Endpoint").inputValue()).toBe(TYPED);
  expect((await workspace.client.get<{ data: unknown[] }>("/webhooks")).body.data).toEqual([]);
  // and the other way round
  await other.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await other.getByText(ENDED).waitFor();
  expect(await other.content()).not.toContain(ada.email);
});

inChromium("what a page reads for whoever was there before is not answered as somebody else", async () => {
  const { engine, workspace, chromium } = scene;
  const { ada, bob } = await people();
  const page = await at(await chromium.page(), "emails", ada.email);
  const other = await page.context().newPage();
  await other.goto(`${engine.consoleUrl}/console/emails`);
  await signOut(other);
  await signIn(other, bob.email);
  await other.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  const statusOf = (path: string, account: string) =>
    other.evaluate(
      `fetch("/console/call/${path}?workspace=${workspace.id}&account=${account}").then(({ status }) => status)`,
    );
  // what the browser fetches by itself, such as a download, names the account in its link
  for (const path of ["live", "session"]) {
    expect(await statusOf(path, ada.id)).toBe(401);
    expect(await statusOf(path, bob.id)).toBe(200);
  }
  await workspace.client.post("/emails", mail({ subject: "Read by Bob" }));
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await page.getByText(ENDED).waitFor();
  expect(await page.content()).not.toContain("Read by Bob");
});

inChromium("what was asked for somebody before tells nothing of who is there now", async () => {
  const { chromium } = scene;
  const { ada, bob } = await people();
  const page = await at(await chromium.page(), "emails", ada.email);
  let tell = () => {};
  const mayTell = new Promise<void>((resolve) => {
    tell = resolve;
  });
  // a refusal makes the page ask who is there: the answer is late
  const isAsked = page.waitForRequest("**/call/session");
  await page.route(
    "**/call/session",
    async (route) => {
      const response = await route.fetch();
      await mayTell;
      await route.fulfill({ response });
    },
    { times: 1 },
  );
  await page.evaluate(`
    history.pushState(null, "", "/console/templates/none");
    dispatchEvent(new PopStateEvent("popstate"));`);
  await isAsked;
  await signOut(page);
  await signIn(page, bob.email);
  await page.getByTitle(bob.email).waitFor();
  const isTold = page.waitForResponse("**/call/session");
  tell();
  await (await isTold).finished();
  await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
  expect(await page.getByTitle(bob.email).count()).toBe(1);
  expect(await page.getByTitle(ada.email).count()).toBe(0);
});
