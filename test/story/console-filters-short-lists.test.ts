/**
 * Keys, members, destinations and caught mail are filtered as longer lists are, by fields that the address
 * keeps, and exported as they are filtered.
 */
import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { person } from "../rig/people.ts";

const scene = sceneOf(openConsole);

inChromium("by words and by choice, and without a match", async () => {
  const { engine, workspace, chromium } = scene;
  const { email } = await person(engine.sql, workspace.id, "member");
  const page = await chromium.pageOf(engine, workspace.id);
  const rows = page.locator("tbody tr");
  await page.goto(`${engine.consoleUrl}/console/members`);
  await rows.filter({ hasText: email }).waitFor();
  const all = await rows.count();
  expect(all).toBeGreaterThan(1);
  await page.getByLabel("Address").fill(email.toUpperCase());
  await page.getByLabel("Address").press("Enter");
  await expect.poll(() => rows.count()).toBe(1);
  expect(page.url()).toContain("email=");
  await page.getByLabel("With role").selectOption("owner");
  await page.getByRole("heading", { name: "No members match this filter" }).waitFor();
  await page.getByRole("button", { name: "Remove the filter" }).click();
  await expect.poll(() => rows.count()).toBe(all);

  await page.goto(`${engine.consoleUrl}/console/keys?permission=emails:send`);
  await page.getByRole("heading", { name: "No API keys match this filter" }).waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("what is filtered is exported, and of a key only what the list shows", async () => {
  const { engine, workspace, chromium } = scene;
  const { email } = await person(engine.sql, workspace.id, "member");
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/members?email=${email}`);
  expect(await exported(page)).toBe(`Address,Role,Second factor\r\n${email},member,off\r\n`);
  await page.goto(`${engine.consoleUrl}/console/keys`);
  const keys = await exported(page);
  expect(keys.split("\r\n")[0]).toBe("Name,Key,May,Created,Last used");
  expect(keys).not.toContain(workspace.client.key);
});

inChromium("an export that ends before the list does says so", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  const data = Array.from({ length: 25_000 }, (_, n) => ({
    id: `d${n}`,
    name: `${n}.example`,
    status: "verified",
  }));
  await page.route("**/v1/domains?*", (route) => {
    const isForScreen = route.request().url().includes("limit=50");
    const page = { data: isForScreen ? data.slice(0, 50) : data, has_more: true, next_cursor: "next" };
    return route.fulfill({ json: page });
  });
  await page.goto(`${engine.consoleUrl}/console/domains`);
  expect((await exported(page)).match(/\r\n/g)).toHaveLength(50_001);
  await page.getByRole("alert").getByText("The file ends after 50,000 rows").waitFor();
});

async function exported(page: Page): Promise<string> {
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export CSV" }).click();
  return readFile(await (await saved).path(), "utf8");
}
