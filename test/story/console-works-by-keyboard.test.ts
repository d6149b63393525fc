/** Dates are typed, dialogs give the focus back, and a new screen is where the keyboard goes on. */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { held, inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);
const HOOK = "https://hooks.example.net/ours";

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

inChromium("the arrows of the command palette lead to every screen", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id, "owner");
  await page.keyboard.press("Control+k");
  const field = page.getByRole("combobox", { name: "Go to a screen" });
  await field.waitFor();
  // one up from the first is the last
  for (const name of ["Sign out", "Reference of the API"]) {
    await page.keyboard.press("ArrowUp");
    await page.getByRole("option", { name, selected: true }).waitFor();
  }
  const usage = page.getByRole("option", { name: /^Usage/ });
  while ((await usage.getAttribute("aria-selected")) === "false") await page.keyboard.press("ArrowUp");
  const list = await page.getByRole("listbox").boundingBox();
  const option = await usage.boundingBox();
  expect(option?.y).toBeGreaterThanOrEqual(list?.y ?? Infinity);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Usage" }).waitFor();
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
      if (close !== "Escape")
        await page.getByRole("button", { name: "Close", exact: true }).last().press("Enter");
    }
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(() => focused(page), { message: close }).toBe("Create API key");
  }
});

inChromium("a key that is being made is shown, although somebody wants to close the dialog", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/keys?new=1`);
  await page.getByLabel("Name").fill("shop");
  const { isAsked, answer } = await held(page, "**/call/keys", "POST");
  await page.keyboard.press("Enter");
  await isAsked;
  await page.getByRole("button", { name: "Close" }).click();
  // browsers let a page cancel the first only
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  answer();
  await page.getByText("It is not shown again.").waitFor();
  expect(await page.getByRole("dialog").count()).toBe(1);
});

inChromium("nobody goes back while the answer is under way, nor waits for it for ever", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await workspace.client.post("/templates", { name: "Order", html: "<p>Hello</p>" });
  await page.goto(`${engine.consoleUrl}/console/templates`);
  await page.getByRole("link", { name: "Order" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  await held(page, "**/call/v1/templates/*", "DELETE");
  // the time for an answer is over when the test says so
  await page.evaluate(
    "const late = new AbortController(); AbortSignal.timeout = () => late.signal;" +
      "timeIsOver = () => late.abort(new DOMException('late', 'TimeoutError'))",
  );
  await page.getByRole("button", { name: "Delete the template" }).click();
  await page.getByRole("button", { name: "Go back" }).and(page.locator(":disabled")).waitFor();
  await page.evaluate("timeIsOver()");
  // what the screen behind it asks from now on is late, too
  await page.getByRole("dialog").getByText("it is unknown whether this was done").waitFor();
  await page.getByRole("button", { name: "Go back" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
});

inChromium("a button that was off while it worked has the focus again", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  const { id } = (await workspace.client.post<{ id: string }>("/templates", { html: "<p>Hello</p>" })).body;
  await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
  await page.getByRole("button", { name: "Details" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("From").fill("nobody");
  await dialog.getByRole("button", { name: "Save" }).press("Space");
  await dialog.getByRole("alert").waitFor();
  await expect.poll(() => focused(page)).toBe("Save");

  const rows = Array.from({ length: 150 }, (_, n) => ({ id: `t${n}`, name: `Template ${n}` }));
  await page.route("**/v1/templates?*", (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
    const next = from + 50 < rows.length ? String(from + 50) : null;
    const data = rows.slice(from, from + 50);
    return route.fulfill({ json: { data, has_more: next !== null, next_cursor: next } });
  });
  await page.goto(`${engine.consoleUrl}/console/templates`);
  await page.getByRole("button", { name: "Show more" }).press("Enter");
  await page.getByText("100 shown").waitFor();
  await expect.poll(() => focused(page)).toBe("Show more");
  await page.keyboard.press("Enter");
  await page.getByText("150 shown").waitFor();
  await page.getByLabel("Find").fill("Template 14");
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("Matches: 11", { exact: true }).waitFor({ state: "attached" });
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

inChromium("Enter that is held down does a thing once", async () => {
  const { engine, workspace, chromium } = scene;
  const { id } = (await workspace.client.post<{ id: string }>("/webhooks", { endpoint: HOOK })).body;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/webhooks/${id}`);
  const button = page.getByRole("button", { name: "Send a test event" });
  await button.focus();
  let asked = 0;
  await page.route("**/call/v1/webhooks/*/test", (route) => {
    asked++;
    return route.fulfill({ status: 202, json: {} });
  });
  const isAnswered = () => expect.poll(() => button.isEnabled()).toBe(true);
  for (let n = 0; n < 5; n++) {
    await page.keyboard.down("Enter");
    await isAnswered();
  }
  expect(asked).toBe(1);
  await page.keyboard.up("Enter");
  await page.keyboard.press("Enter");
  await isAnswered();
  expect(asked).toBe(2);
});

inChromium("whoever has invited somebody goes on in the dialog, and after it where they were", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/members`);
  await page.locator("tbody tr").first().waitFor();
  await page.getByRole("button", { name: "Invite" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.type("grace@example.net");
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "The invitation is on its way" });
  await dialog.waitFor();
  expect(await dialog.locator(":focus").count()).toBe(1);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Invite");
});
