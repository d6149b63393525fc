/**
 * Operators need not belong to a workspace. Their screens and their account work all the same, and what is
 * done with an account without a workspace stands in the audit log of the installation.
 */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { Browser, PASSWORD, person } from "../rig/people.ts";

type Changes = { data: { action: string; status: number; account: { email: string } }[] };

const OTHER = "another password of the tests";
const scene = sceneOf(openConsole);

/** Somebody who belongs to nothing. */
async function outsider(isOperator: boolean): Promise<string> {
  const { engine, workspace } = scene;
  const { id, email } = await person(engine.sql, workspace.id);
  await engine.sql`delete from member where account_id = ${id}`;
  await engine.sql`update account set is_operator = ${isOperator} where id = ${id}`;
  return email;
}

inChromium("an operator without a workspace sees the installation, and changes the password", async () => {
  const { engine, chromium } = scene;
  const email = await outsider(true);
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console`);
  await signIn(page, email);
  await page.getByRole("heading", { level: 1, name: "No workspace" }).waitFor();
  const screens = page.getByRole("navigation", { name: "Screens" });
  await expect.poll(() => screens.getByRole("link").allTextContents()).toEqual(["Operator"]);
  await page.getByRole("link", { name: "see the whole installation" }).click();
  await page.getByRole("heading", { level: 1, name: "Operator" }).waitFor();
  await page.getByRole("button", { name: "Suspend" }).first().waitFor();
  await page.getByRole("link", { name: email }).click();
  await page.getByRole("heading", { level: 1, name: "Your account" }).waitFor();
  await page.getByLabel("Current password").fill(PASSWORD);
  await page.getByLabel("New password").fill(OTHER);
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.getByText("The password is changed.").waitFor();
  await page.goto(`${engine.consoleUrl}/console/operator?tab=changes&who=${email}`);
  await page.getByText("Changed the password").waitFor();
  await page.getByText("Signed in").waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium(
  "somebody else reads their account there, and is told of no screen that is not theirs",
  async () => {
    const { engine, chromium } = scene;
    const page = await chromium.page();
    await page.goto(`${engine.consoleUrl}/console/profile`);
    await signIn(page, await outsider(false));
    await page.getByRole("heading", { level: 1, name: "Your account" }).waitFor();
    expect(await page.getByRole("navigation", { name: "Screens" }).getByRole("link").count()).toBe(0);
    await page.goto(`${engine.consoleUrl}/console/operator`);
    await page.getByRole("alert").getByText("Only operators can do this.").waitFor();
  },
);

inChromium(
  "what is done with an account without a workspace is told to operators, and only once",
  async () => {
    const { engine, workspace } = scene;
    const email = await outsider(false);
    const browser = new Browser(engine.consoleUrl);
    expect((await browser.signIn(email)).status).toBe(200);
    await browser.post("password", { password: "not the password", new_password: OTHER });
    expect((await browser.post("password", { password: PASSWORD, new_password: OTHER })).status).toBe(200);

    const operator = new Browser(engine.consoleUrl);
    await operator.signIn(await outsider(true));
    const { body } = await operator.get<Changes>("operator/audit?limit=100");
    const own = body.data.filter(({ account }) => account.email === email);
    expect(own.map(({ action, status }) => [action, status])).toEqual([
      ["POST password", 200],
      ["POST password", 401],
      ["POST session", 200],
    ]);
    // who belongs to a workspace is told of there
    const member = await person(engine.sql, workspace.id);
    await new Browser(engine.consoleUrl).signIn(member.email);
    const { body: after } = await operator.get<Changes>("operator/audit?limit=100");
    expect(after.data.filter(({ account }) => account.email === member.email)).toEqual([]);
  },
);
