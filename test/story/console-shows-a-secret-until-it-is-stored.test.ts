/**
 * A key, a signing secret or the link of an invitation is told once. It is there until somebody says that
 * they have it: to close it, to go back and to leave the page are asked about, and neither another screen nor
 * the end of the session takes it.
 */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { held, inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";
import { openStage } from "../rig/stage.ts";

const ENDED = "Your session has ended. Sign in to go on where you were.";
const scene = sceneOf(async () => {
  const stage = await openStage();
  const opened = await openConsole(["api"], stage);
  return {
    ...opened,
    async close() {
      await opened.close();
      await stage.close();
    },
  };
});

/** A key that has just been made, by somebody who came from the e-mails. */
async function keyShown(): Promise<{ page: Page; email: string; key: string }> {
  const { engine, workspace, chromium } = scene;
  const { email } = await person(engine.sql, workspace.id);
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/emails`);
  await signIn(page, email);
  await page.getByRole("link", { name: "API keys" }).click();
  await page.getByRole("button", { name: "Create API key" }).click();
  await page.getByLabel("Name").fill("shop");
  await page.getByRole("button", { name: "Create key" }).click();
  const key = await shown(page);
  expect(key).toMatch(/^pr_live_/);
  return { page, email, key };
}

function shown(page: Page): Promise<string> {
  return page.getByRole("dialog", { name: "Your new key" }).getByRole("textbox").inputValue();
}

function question(page: Page) {
  return page.getByRole("dialog", { name: "Close without storing it?" });
}

inChromium("whoever closes it without a copy is asked", async () => {
  const { page, key } = await keyShown();
  const dialog = page.getByRole("dialog", { name: "Your new key" });
  for (const close of ["Escape", "the button"]) {
    if (close === "Escape") await page.keyboard.press("Escape");
    else await dialog.getByRole("button", { name: "Close" }).click();
    await question(page).getByRole("button", { name: "Go back" }).click();
    await question(page).waitFor({ state: "detached" });
    expect(await shown(page)).toBe(key);
  }
  await page.keyboard.press("Escape");
  await question(page).locator("button.danger").click();
  await dialog.waitFor({ state: "detached" });
  await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Create API key");
  expect(scene.chromium.complaints).toEqual([]);
});

inChromium("whoever goes back or leaves the page is asked, and nobody who has stored it", async () => {
  const { page, key } = await keyShown();
  const asked: string[] = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    void dialog.dismiss();
  });
  await page.evaluate("history.back()");
  await question(page).getByRole("button", { name: "Go back" }).click();
  expect(await shown(page)).toBe(key);
  await page.reload({ timeout: 1_000 }).catch(() => {});
  expect(asked).toEqual(["beforeunload"]);
  expect(await shown(page)).toBe(key);
  await page.getByRole("button", { name: "I have stored it" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.evaluate("history.back()");
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  await page.reload();
  expect(asked).toHaveLength(1);
});

inChromium("in a browser that cannot ask it is there on the screen before", async () => {
  const { page, key } = await keyShown();
  // as where there is no Navigation API, or somebody goes back twice
  await page.evaluate(`
    history.replaceState(null, "", "/console/emails");
    dispatchEvent(new PopStateEvent("popstate"));`);
  await page.locator("h1", { hasText: "Emails" }).waitFor();
  expect(await shown(page)).toBe(key);
});

inChromium("whoever signs in again after the session has ended still sees it, and nobody else", async () => {
  const { engine, workspace } = scene;
  for (const who of ["the same", "another"]) {
    const { page, email, key } = await keyShown();
    await engine.sql`delete from session where account_id = (select id from account where email = ${email})`;
    await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
    await page.getByText(ENDED).waitFor();
    await page.keyboard.press("Control+k");
    const other = await person(engine.sql, workspace.id);
    await signIn(page, who === "the same" ? email : other.email);
    if (who === "the same") {
      await page.getByRole("dialog", { name: "Your new key" }).waitFor();
      expect(await shown(page)).toBe(key);
    } else {
      await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
      expect(await page.content()).not.toContain(key);
    }
  }
});

inChromium("the link of an invitation stays until it is stored, whoever wants to go elsewhere", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.getByRole("link", { name: "Members" }).click();
  // where mail goes to the mailbox
  await page.route("**/call/members", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), link: "https://p.example/#token" } });
  });
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByLabel("Email").fill("grace@example.net");
  await page.getByRole("button", { name: "Send the invitation" }).click();
  const dialog = page.getByRole("dialog", { name: "The invitation is on its way" });
  await dialog.getByText("grace@example.net").waitFor();
  await page.keyboard.press("Escape");
  await question(page).getByText("It is only in the mail then.").waitFor();
  await question(page).getByRole("button", { name: "Go back" }).click();
  await page.evaluate(`
    history.replaceState(null, "", "/console/emails");
    dispatchEvent(new PopStateEvent("popstate"));`);
  await page.locator("h1", { hasText: "Emails" }).waitFor();
  expect(await dialog.getByLabel("Link").inputValue()).toBe("https://p.example/#token");
  await dialog.getByRole("button", { name: "I have stored it" }).click();
  await dialog.waitFor({ state: "detached" });
});

inChromium("a new signing secret comes although somebody wants to go back meanwhile", async () => {
  const { engine, workspace, chromium } = scene;
  const endpoint = "https://hooks.example.net/ours";
  const { id } = (await workspace.client.post<{ id: string }>("/webhooks", { endpoint })).body;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.getByRole("link", { name: "Webhooks" }).click();
  await page.getByRole("link", { name: endpoint }).first().click();
  await page.getByRole("button", { name: "New secret" }).click();
  const { isAsked, answer } = await held(page, `**/v1/webhooks/${id}/signing-secret/rotate`, "POST");
  await page.getByRole("button", { name: "Make a new secret" }).click();
  await isAsked;
  await page.evaluate("history.back()");
  answer();
  const dialog = page.getByRole("dialog", { name: "The signing secret" });
  await dialog.waitFor();
  expect(await dialog.getByLabel("Secret", { exact: true }).inputValue()).toMatch(/^whsec_/);
  await dialog.getByRole("button", { name: "I have stored it" }).click();
  await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("New secret");
});
