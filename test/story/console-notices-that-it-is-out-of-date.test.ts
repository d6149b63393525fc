/**
 * Sessions end, members are removed and links are for others while a page is open. None of it is a dead end.
 */
import { chromium as engines } from "playwright-core";
import { expect } from "vitest";
import { CHROMIUM_PATH } from "../rig/chromium.ts";
import { Chromium, inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { mailedInvitation, person, signedIn } from "../rig/people.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);

inChromium("who was signed out elsewhere signs out here, too", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/profile`);
  await page.getByRole("heading", { level: 1, name: "Your account" }).waitFor();
  await engine.sql`
    delete from session where account_id in (select account_id from member where workspace_id = ${workspace.id})`;
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

inChromium("a page that the browser kept shows no mail once its session has ended", async () => {
  const { engine, workspace } = scene;
  await workspace.client.post("/emails", mail({ subject: "For members only" }));
  const keeping = await engines.launch({
    ...{ executablePath: CHROMIUM_PATH as string, args: ["--no-sandbox"] },
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
  const chromium = new Chromium(keeping);
  const page = await chromium.pageOf(engine, workspace.id);
  const row = page.getByRole("row").filter({ hasText: "For members only" });
  await row.waitFor();
  await page.evaluate(`
    window.wasKept = false;
    addEventListener("pageshow", ({ persisted }) => { window.wasKept = persisted; });`);
  // its answer comes late: nothing may be seen meanwhile
  let answer = () => {};
  const wanted = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.goto(`${engine.consoleUrl}/docs`);
  await engine.sql`
    delete from session where account_id in (select account_id from member where workspace_id = ${workspace.id})`;
  await page.route("**/call/session", (route) => wanted.then(() => route.continue()));
  await page.goBack({ waitUntil: "commit" });
  await expect.poll(() => page.evaluate("window.wasKept")).toBe(true);
  expect(await row.count()).toBe(0);
  answer();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await chromium.close();
});

inChromium("signing out that does not work is told", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.route("**/call/session", (route) => route.abort());
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.getByRole("alert").getByText("The server does not answer.").waitFor();
});

inChromium("who leaves a workspace, or is removed from it, no longer stands in it", async () => {
  const { engine, workspace, chromium } = scene;
  const other = await engine.workspace();
  const { id, email } = await person(engine.sql, workspace.id, "member");
  await engine.sql`insert into member (workspace_id, account_id, role) values (${other.id}, ${id}, 'member')`;
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/members?workspace=${workspace.id}`);
  await signIn(page, email);
  const row = page.locator("tbody tr").filter({ hasText: email });
  await row.getByRole("button", { name: "Leave" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Leave" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  // in the other one
  await expect.poll(() => page.locator("tbody tr").count()).toBe(1);
  await row.waitFor();
  await engine.sql`delete from member where account_id = ${id}`;
  await page.getByRole("link", { name: "Usage" }).click();
  await page.getByRole("heading", { level: 1, name: "No workspace" }).waitFor();
});

inChromium("a refusal that comes right after another one is looked into, too", async () => {
  const { engine, workspace, chromium } = scene;
  const { id, email } = await person(engine.sql, workspace.id, "member");
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/emails`);
  await signIn(page, email);
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  // whatever comes now comes within the same second
  await page.clock.setFixedTime(Date.now());
  const isLookedInto = page.waitForResponse("**/call/session");
  await page.evaluate(`
    history.pushState(null, "", "/console/templates/none");
    dispatchEvent(new PopStateEvent("popstate"));`);
  await (await isLookedInto).finished();
  await engine.sql`delete from member where account_id = ${id}`;
  await page.getByRole("link", { name: "Usage" }).click();
  await page.getByRole("heading", { level: 1, name: "No workspace" }).waitFor();
});

inChromium("an invitation for somebody else says so, and leads into the workspace it is for", async () => {
  const { engine, workspace, chromium } = scene;
  const other = await engine.workspace();
  const invited = await person(engine.sql, workspace.id, "member");
  const owner = await signedIn(engine.consoleUrl, engine.sql, other.id);
  await owner.post("members", { email: invited.email, role: "member" });
  const link = await mailedInvitation(engine.sql, other.id, invited.email);
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(link);
  await page.getByText(`This invitation is for ${invited.email}`).waitFor();
  await page.getByRole("button", { name: "Sign out, and sign in again" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await signIn(page, invited.email);
  await page.getByRole("button", { name: "Join" }).click();
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  expect(new URL(page.url()).searchParams.get("workspace")).toBe(other.id);
});
