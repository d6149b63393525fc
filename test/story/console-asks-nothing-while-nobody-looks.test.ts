/** A page that is hidden, or whose session has ended, asks nothing, however long it stays open. */
import type { Page, Request } from "playwright-core";
import { expect } from "vitest";
import { DAY_MS } from "../../src/clock.ts";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

const scene = sceneOf(openConsole);
/** A page reads again every 15 s. */
const LONG_MS = 120_000;

inChromium("hidden, seen again, and signed out elsewhere", async () => {
  const { engine, workspace, chromium } = scene;
  // without any figures it shows the first steps instead
  const today = Math.floor(Date.now() / DAY_MS);
  await engine.sql`
    insert into tally (workspace_id, day, worker, attempted, delivered)
    values (${workspace.id}, ${today}, 'test', 1, 1)`;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.clock.install();
  const last = page.waitForResponse("**/call/caps");
  await page.goto(`${engine.consoleUrl}/console/overview`);
  await last;
  await page.clock.pauseAt(new Date(Date.now() + LONG_MS));

  await look(page, "hidden");
  const calls: string[] = [];
  page.on("request", (request: Request) => calls.push(new URL(request.url()).pathname));
  await page.clock.runFor(LONG_MS);
  expect(calls).toEqual([]);

  const again = page.waitForRequest("**/call/overview?**");
  await look(page, "visible");
  await again;
  const byItself = page.waitForRequest("**/call/overview?**");
  await page.clock.runFor(LONG_MS);
  await byItself;

  await engine.sql`
    delete from session where account_id in (select account_id from member where workspace_id = ${workspace.id})`;
  await page.clock.runFor(LONG_MS);
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  calls.length = 0;
  await page.clock.runFor(LONG_MS);
  expect(calls).toEqual([]);
  expect(chromium.complaints).toEqual([]);
});

inChromium("hidden, while an import runs", async () => {
  const { engine, workspace, chromium } = scene;
  const { body } = await workspace.client.post<{ id: string }>("/audiences", { name: "People" });
  const page = await chromium.pageOf(engine, workspace.id);
  await page.route("**/call/contacts/import/*", (route) =>
    route.fulfill({
      json: {
        ...{ object: "import", id: "1", state: "running", rows: 10, done: 4, imported: 4, skipped: 0 },
        ...{ rejected: [], reason: null },
      },
    }),
  );
  const underWay = new Set<Request>();
  page.on("request", (request) => request.url().includes("/call/contacts/") && underWay.add(request));
  page.on("requestfinished", (request) => underWay.delete(request));
  page.on("requestfailed", (request) => underWay.delete(request));
  await page.clock.install();
  await page.goto(`${engine.consoleUrl}/console/audiences/${body.id}/import?import=1`);
  await page.getByText("4 of 10 rows").waitFor();
  await page.clock.pauseAt(new Date(Date.now() + LONG_MS));
  const asked = page.waitForResponse("**/call/contacts/import/1");
  await page.clock.runFor(LONG_MS);
  await asked;
  await look(page, "hidden");
  await page.clock.runFor(LONG_MS);
  await expect.poll(() => underWay.size).toBe(0);
  const calls: string[] = [];
  page.on("request", (request: Request) => calls.push(new URL(request.url()).pathname));
  await page.clock.runFor(LONG_MS);
  expect(calls).toEqual([]);
});

/** As the browser tells that the tab is in front, or another one is. */
function look(page: Page, state: "visible" | "hidden"): Promise<unknown> {
  return page.evaluate(`
    Object.defineProperty(document, "visibilityState", { configurable: true, value: "${state}" });
    document.dispatchEvent(new Event("visibilitychange"));
  `);
}
