/** Dates are typed, dialogs give the focus back, and a new screen is where the keyboard goes on. */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);

inChromium("a day is typed into a filter, digit by digit", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  const since = page.getByLabel("Since");
  await since.focus();
  await page.keyboard.type("11202026", { delay: 30 });
  await expect.poll(() => since.inputValue()).toBe("2026-11-20");
  await expect.poll(() => new URL(page.url()).searchParams.get("since")).toMatch(/^2026-11-/);
  // a year has four digits: those that follow begin another
  await page.keyboard.type("99999", { delay: 30 });
  await expect.poll(() => since.inputValue()).toMatch(/^\d{4}-11-20$/);
  expect(chromium.complaints.splice(0)).toEqual([]);
});

inChromium("whoever closes a dialog is where they were", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/keys`);
  const create = page.getByRole("button", { name: "Create API key" });
  for (const close of ["Escape", "the button", "Escape after the key was shown"]) {
    await create.and(page.locator(":enabled")).press("Enter");
    await page.getByRole("dialog").waitFor();
    if (close === "the button") await page.getByRole("button", { name: "Close" }).press("Enter");
    else {
      if (close !== "Escape") {
        await page.getByLabel("Name").fill("shop");
        await page.keyboard.press("Enter");
        await page.getByText("It is not shown again.").waitFor();
      }
      await page.keyboard.press("Escape");
    }
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(() => focused(page), { message: close }).toBe("Create API key");
  }
});

inChromium("a key that is being made is shown, although somebody wants to close the dialog", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  let answer = () => {};
  const isAwaited = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route("**/call/keys", async (route) => {
    if (route.request().method() === "POST") await isAwaited;
    await route.continue();
  });
  await page.goto(`${engine.consoleUrl}/console/keys?new=1`);
  await page.getByLabel("Name").fill("shop");
  const asked = page.waitForRequest((request) => request.method() === "POST");
  await page.keyboard.press("Enter");
  await asked;
  await page.getByRole("button", { name: "Close" }).click();
  await page.keyboard.press("Escape");
  answer();
  await page.getByText("It is not shown again.").waitFor();
});

inChromium("the keyboard goes on in a screen that was opened from within another", async () => {
  const { engine, workspace, chromium } = scene;
  await workspace.client.post("/emails", mail({ subject: "Hello" }));
  const page = await chromium.pageOf(engine, workspace.id);
  await page.getByRole("link", { name: /@/ }).and(page.locator(".row-link")).press("Enter");
  await page.getByRole("heading", { level: 1, name: "Hello" }).waitFor();
  await expect.poll(() => page.evaluate<string>("document.activeElement.id")).toBe("content");
  // whoever goes through the navigation stays in it
  await page.getByRole("link", { name: "Members" }).press("Enter");
  await page.getByRole("heading", { level: 1, name: "Members" }).waitFor();
  expect(await focused(page)).toBe("Members");
});

function focused(page: Page): Promise<string> {
  return page.evaluate<string>("document.activeElement.textContent");
}
