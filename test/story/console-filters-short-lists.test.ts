/**
 * Keys, members, destinations and caught mail are filtered as longer lists are, by fields that the address
 * keeps, and exported as they are filtered. So are lists that the API gives page by page and does not filter.
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

inChromium("an export looks through so many rows for those that match, and says where it ended", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  let pages = 0;
  // nothing but the export reads meanwhile
  await page.addInitScript("setInterval = () => 0; delete globalThis.SharedWorker");
  await page.route("**/console/call/live?*", (route) => route.abort());
  await page.route("**/v1/domains?*", (route) => {
    pages++;
    const data = Array.from({ length: 10_000 }, (_, n) => ({
      ...{ id: `d${pages}-${n}`, name: n === 0 ? "far.example" : `${n}.example`, status: "verified" },
    }));
    // a list without an end would be read without one
    return route.fulfill({ json: { data, has_more: pages < 60, next_cursor: "next" } });
  });
  await page.goto(`${engine.consoleUrl}/console/domains?name=far`);
  await page.locator("tbody tr").first().waitFor();
  pages = 0;
  expect((await exported(page)).match(/far\.example/g)).toHaveLength(20);
  await page.getByRole("alert").getByText("20 rows that match among the newest 200,000").waitFor();
  expect(pages).toBe(20);
});

inChromium("what the API does not filter is looked through, and stays live", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const add = (name: string) => client.post("/templates", { name, subject: name, html: "<p>x</p>" });
  for (const name of ["Invoice", "Receipt", "Invoice reminder"]) await add(name);
  const page = await chromium.pageOf(engine, workspace.id);
  const rows = page.locator("tbody tr");
  await page.goto(`${engine.consoleUrl}/console/templates`);
  await page.getByLabel("Find").fill("invoice");
  await page.getByLabel("Find").press("Enter");
  await expect.poll(() => rows.count()).toBe(2);
  expect(page.url()).toContain("name=invoice");
  const file = await exported(page);
  expect(
    file
      .split("\r\n")
      .slice(1)
      .map((line) => line.split(",")[0]),
  ).toEqual(["Invoice reminder", "Invoice", ""]);
  await add("Welcome");
  await add("Last invoice");
  await lookAgain(page);
  await expect.poll(() => rows.count()).toBe(3);
  expect(await rows.first().textContent()).toContain("Last invoice");
  await page.getByLabel("Find").fill("nothing like that");
  await page.getByLabel("Find").press("Enter");
  await page.getByRole("heading", { name: "No templates match this filter", exact: true }).waitFor();
});

inChromium("a list that is very long is looked through a part at a time", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  // news make a page read the newest part again
  const asked = new Set<number>();
  await page.route("**/v1/domains?*", (route) => {
    const at = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
    asked.add(at);
    const name = at === 30 ? "far.example" : `${at}.example`;
    const data = [{ id: `d${at}`, name, status: "verified", created_at: new Date(0).toISOString() }];
    return route.fulfill({ json: { data, has_more: true, next_cursor: String(at + 1) } });
  });
  await page.goto(`${engine.consoleUrl}/console/domains?name=far`);
  await page.getByRole("heading", { name: "No domains match this filter so far" }).waitFor();
  expect(asked.size).toBe(20);
  await page.getByRole("button", { name: "Look further" }).click();
  await page.getByRole("cell", { name: "far.example" }).waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium(
  "a filter that is removed leaves nothing in its field, and the keyboard goes on there",
  async () => {
    const { engine, workspace, chromium } = scene;
    const page = await chromium.pageOf(engine, workspace.id);
    await page.goto(`${engine.consoleUrl}/console/templates`);
    const field = page.getByLabel("Find");
    await field.fill("nothing like that ");
    await field.press("Enter");
    await page.getByRole("button", { name: "Remove the filter" }).press("Enter");
    await page.locator("tbody tr").first().waitFor();
    expect(await field.inputValue()).toBe("");
    expect(await field.evaluate((element) => element === element.ownerDocument.activeElement)).toBe(true);
  },
);

inChromium("what could not be looked through at first is, once the server answers", async () => {
  const { engine, workspace, chromium } = scene;
  await workspace.client.post("/templates", { name: "Invoice", html: "<p>x</p>" });
  const page = await chromium.pageOf(engine, workspace.id);
  await page.route("**/v1/templates?*", (route) => route.abort(), { times: 1 });
  await page.goto(`${engine.consoleUrl}/console/templates?name=invoice`);
  await page.getByRole("alert").waitFor();
  await lookAgain(page);
  await page.getByRole("link", { name: "Invoice" }).first().waitFor();
});

inChromium("rows that change while they are filtered are where they belong, and none is missed", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  const domain = (n: number) => ({
    ...{ id: `d${n}`, name: `${n}.example`, created_at: new Date(0).toISOString() },
    status: n === 2 ? "pending" : "verified",
  });
  let all = upTo(150).map(domain);
  await page.route("**/v1/domains?*", (route) => route.fulfill({ json: pageOf(all, route.request().url()) }));
  await page.goto(`${engine.consoleUrl}/console/domains?status=verified`);
  const names = async () =>
    (await page.locator("tbody tr td:first-child").allTextContents()).map((name) =>
      Number.parseInt(name, 10),
    );
  await expect.poll(names).toEqual([1, 3, ...upTo(100).slice(3)]);

  all = all.filter(({ id }) => id !== "d3").map((row) => ({ ...row, status: "verified" }));
  await lookAgain(page);
  await expect.poll(async () => (await names()).slice(0, 4)).toEqual([1, 2, 4, 5]);

  all = [...upTo(130).map((n) => domain(1_000 + n)), ...all];
  await lookAgain(page);
  await expect.poll(async () => (await names())[0]).toBe(1_001);
  await page.getByRole("button", { name: "Show more" }).click();
  await expect.poll(names).toEqual(all.slice(0, 200).map(({ name }) => Number.parseInt(name, 10)));
  expect(chromium.complaints).toEqual([]);
});

function upTo(most: number): number[] {
  return Array.from({ length: most }, (_, n) => n + 1);
}

/** As the API gives them. */
function pageOf(all: readonly { id: string }[], url: string) {
  const { cursor, limit } = Object.fromEntries(new URL(url).searchParams);
  const from = all.findIndex(({ id }) => id === cursor) + 1;
  const data = all.slice(from, from + Number(limit));
  const has_more = from + data.length < all.length;
  return { data, has_more, next_cursor: has_more ? data.at(-1)?.id : null };
}

async function lookAgain(page: Page): Promise<void> {
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
}

async function exported(page: Page): Promise<string> {
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export CSV" }).click();
  return readFile(await (await saved).path(), "utf8");
}
