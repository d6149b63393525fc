/**
 * Keys, members, destinations and caught mail are filtered as longer lists are, by fields that the address
 * keeps.
 */
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
