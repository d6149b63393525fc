/**
 * Lists within a screen are filtered by fields that the address keeps, and exported as they are filtered: all
 * versions of a template, records of a domain, what the caps are judged by, what happened to an e-mail.
 */
import { readFile } from "node:fs/promises";
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import { insertCapChange } from "../../src/record/workspaces/caps.ts";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);
const DAY_MS = 86_400_000;

inChromium("versions of a template, each with a link of its own, and none is left out", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const given = { name: "Order", subject: "Order", html: "<p>version 1</p>" };
  const { id } = (await client.post<{ id: string }>("/templates", given)).body;
  const save = async (n: number) => {
    const subject = n === 2 ? "=Invoice" : "Order";
    await client.call("PATCH", `/templates/${id}`, { subject, html: `<p>version ${n}</p>` });
  };
  for (let n = 2; n <= 60; n++) await save(n);
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates/${id}?tab=versions`);
  const versions = page.locator(".timeline li");
  await page.getByText("- <p>version 59</p>").waitFor();
  await expect.poll(() => versions.count()).toBe(50);
  await page.getByRole("button", { name: "Show more" }).click();
  await expect.poll(() => versions.count()).toBe(60);

  await find(page, "Find", "invoice");
  await expect.poll(() => versions.count()).toBe(1);
  expect(await versions.getByText("Live").count()).toBe(0);
  await versions.getByRole("button", { name: "Version 2", exact: true }).click();
  await page.getByRole("heading", { name: "Version 2 beside 1" }).waitFor();
  await page.getByText("+ Subject: =Invoice").waitFor();
  const link = page.url();
  const file = await exported(page);
  expect(file.split("\r\n")[0]).toBe("Version,Saved,Name,Subject,From,Reply to,HTML,Plain text");
  // a spreadsheet takes it for a text
  expect(file).toContain(",Order,'=Invoice,,,<p>version 2</p>,\r\n");
  expect(file.match(/\r\n/g)).toHaveLength(2);

  // as somebody else sees it by the link
  await page.goto("about:blank");
  await page.goto(link);
  await page.getByRole("heading", { name: "Version 2 beside 1" }).waitFor();
  expect(await page.getByLabel("Find").inputValue()).toBe("invoice");
  await expect.poll(() => versions.count()).toBe(1);
  await page.goto(`${engine.consoleUrl}/console/templates/${id}?tab=versions&version=1`);
  await page.getByRole("heading", { name: "Version 1", exact: true }).waitFor();
  for (let n = 61; n <= 101; n++) await save(n);
  await page.reload();
  await page.getByText("There is no such version any more").waitFor();
  await page.getByRole("button", { name: "Version 101" }).click();
  await page.getByText("- <p>version 100</p>").waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("records of a domain", async () => {
  const { engine, workspace, chromium } = scene;
  const { body } = await workspace.client.post<{ id: string }>("/domains", { name: "shop.example" });
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/domains/${body.id}`);
  const rows = page.locator("tbody tr");
  await rows.first().waitFor();
  const all = await rows.count();
  expect(all).toBeGreaterThan(2);
  await find(page, "Find", "dkim1");
  await expect.poll(() => rows.count()).toBe(1);
  expect(page.url()).toContain("find=dkim1");
  const [names, row, end] = (await exported(page)).split("\r\n");
  expect([names, end]).toEqual(["Record,Type,Name,Value,TTL,Status", ""]);
  expect(row).toMatch(/^DKIM,TXT,[^,]+,v=DKIM1;[^,]+,\w+,not_started$/);
  await page.getByLabel("With status").selectOption("verified");
  await page.getByRole("heading", { name: "No DNS records match this filter" }).waitFor();
  await page.getByRole("button", { name: "Remove the filter" }).click();
  await expect.poll(() => rows.count()).toBe(all);
  expect(chromium.complaints).toEqual([]);
});

inChromium("what the caps are judged by, and their history", async () => {
  const { engine, workspace, chromium } = scene;
  await judgedDays(20);
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/caps?tab=evidence`);
  const days = page.locator(".list").filter({ hasText: "Hard bounces" });
  await days.locator("tbody tr").first().waitFor();
  const day = new Date(Date.now() - 3 * DAY_MS).toISOString().slice(0, 10);
  await find(page, "Day", day);
  await expect.poll(() => days.locator("tbody tr").count()).toBe(1);
  expect(page.url()).toContain(`day=${day}`);
  expect(await exported(days)).toBe(
    `Day (UTC),Tried,Delivered,Hard bounces,Complaints,Used of the cap,Waited\r\n${day},103,100,3,1,103,7\r\n`,
  );
  const windows = page.locator(".list").filter({ hasText: "Surely over" });
  await windows.getByLabel("Measure").selectOption("complaint");
  await expect.poll(() => windows.locator("tbody tr").count()).toBe(1);
  expect(await exported(windows)).toContain(",complaint,news,2026-11-20T10:05:00.000Z,57,950,");

  await page.goto(`${engine.consoleUrl}/console/caps?tab=history&level=frozen`);
  await page.getByText("1 shown").waitFor();
  await page.getByLabel("Level").selectOption("paused");
  await page.getByLabel("Find").fill("no such reason");
  await page.getByLabel("Find").press("Enter");
  await page.getByRole("heading", { name: "No changes match this filter" }).waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("what happened to an e-mail to many, and nothing where all is seen at a glance", async () => {
  const { engine, workspace, chromium } = scene;
  const send = async (to: readonly string[]) =>
    (await workspace.client.post<{ id: string }>("/emails", mail({ to }))).body.id;
  const page = await chromium.pageOf(engine, workspace.id);
  const at = new Date(0).toISOString();
  const events = Array.from({ length: 30 }, (_, n) => ({
    ...{ type: "deferred", at, recipient: `r${n}@example.net`, detail: "451 later" },
  }));
  const many = await send(["r1@example.net", "r2@example.net"]);
  await page.route(`**/v1/emails/${many}`, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ json: { ...((await answer.json()) as object), events } });
  });
  await page.goto(`${engine.consoleUrl}/console/emails/${many}`);
  const timeline = page.locator(".card").filter({ hasText: "Timeline" });
  await find(timeline, "Find", "R17@");
  await expect.poll(() => timeline.locator("li").count()).toBe(1);
  expect(page.url()).toContain("happened=R17%40");
  expect(await exported(timeline)).toBe(
    `At,Type,Recipient,Detail\r\n${at},deferred,r17@example.net,451 later\r\n`,
  );
  await page.goto(`${engine.consoleUrl}/console/emails/${await send(["r1@example.net"])}`);
  await timeline.locator("li").first().waitFor();
  expect(await timeline.getByRole("button", { name: "Export CSV" }).count()).toBe(0);
  expect(chromium.complaints).toEqual([]);
});

/** As many days with mail, and two changes that harm has decided. */
async function judgedDays(many: number): Promise<void> {
  const { sql } = scene.engine;
  const { id } = scene.workspace;
  const today = Math.floor(Date.now() / DAY_MS);
  for (let day = today - many; day < today; day++) {
    await sql`
      insert into tally (workspace_id, day, worker, attempted, delivered, deferred, hard_bounced, soft_bounced,
        blocked, complained, fbl_delivered)
      values (${id}, ${day}, 'test', 103, 100, 0, 3, 0, 0, 1, 0)`;
    await sql`insert into cap_use (workspace_id, day, used, delayed, accepted)
      values (${id}, ${day}, 103, 7, 103)`;
  }
  const counts = { since: "2026-11-20T10:05:00.000Z", days: 0.2, events: 57, of: 950, at_least: 0.047 };
  for (const [measure, level] of [
    ["bounce", "frozen"],
    ["complaint", "paused"],
  ] as const)
    await insertCapChange(
      sql,
      id,
      {
        ...{ before: { day: 300, hour: 100 }, after: { day: 300, hour: 100 }, level, reason: measure },
        counts: { ...counts, measure, limit: 0.04, stream: "news" },
        ...{ policyVersion: null, by: "policy" },
      },
      new Date(),
    );
}

async function find(within: Page | Locator, label: string, words: string): Promise<void> {
  const field = within.getByRole("searchbox", { name: label, exact: true });
  await field.fill(words);
  await field.press("Enter");
}

async function exported(within: Page | Locator): Promise<string> {
  const page = "goto" in within ? within : within.page();
  const saved = page.waitForEvent("download");
  await within.getByRole("button", { name: "Export CSV" }).click();
  return readFile(await (await saved).path(), "utf8");
}
