/** Whoever ends all sessions leaves as by “Sign out”: nothing of theirs stays at the page. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";

const scene = sceneOf(openConsole);
const SAVED = "<p>saved</p>";

inChromium("to sign out everywhere takes what was typed along, and is no session that ended", async () => {
  const { engine, workspace, chromium } = scene;
  const given = { name: "Order", subject: "Your order", html: SAVED };
  const { id } = (await workspace.client.post<{ id: string }>("/templates", given)).body;
  const { email } = await person(engine.sql, workspace.id);
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
  await signIn(page, email);
  const editor = page.getByLabel("HTML", { exact: true });
  await editor.fill("<p>typed for an hour</p>");
  await page.getByRole("link", { name: email }).click();
  await page.getByRole("button", { name: "Sign out everywhere" }).click();
  const question = page.getByRole("dialog", { name: "Sign out everywhere?" });
  await question.getByText("What was typed and not saved is discarded.").waitFor();
  await question.getByRole("button", { name: "Sign out everywhere" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  expect(await page.getByText("Your session has ended.").count()).toBe(0);
  await signIn(page, email);
  await page.getByRole("heading", { level: 1, name: "Your account" }).waitFor();
  await page.goBack();
  await expect.poll(() => editor.inputValue()).toBe(SAVED);
  expect(chromium.complaints).toEqual([]);
});
