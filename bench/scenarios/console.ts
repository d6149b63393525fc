/**
 * console: each screen of a workspace of `--backlog` e-mails (1,000,000) of the last 30 days in a real
 * Chromium, opened anew each time: until the first paint, and until all that it shows is there. Then the list
 * of e-mails with each filter. The role `console` runs alone; the browser is on the same machine, and a page
 * of one line shows what it takes in any case.
 */
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { freePort } from "../../src/embedded/port.ts";
import { newId } from "../../src/ids.ts";
import { CHROMIUM_PATH } from "../../test/rig/chromium.ts";
import { PASSWORD, person } from "../../test/rig/people.ts";
import { type Figure, figure } from "../figure.ts";
import { quantile } from "../load.ts";
import type { Bench } from "../machine.ts";
import { DAY_MS, DAYS, fillDays, indexAll, PEOPLE } from "../pastmail.ts";
import type { Scenario } from "../scenario.ts";

const VISITS = 12;
const SCREENS = [
  ...["emails", "overview", "queue", "caps", "caps?tab=history", "caps?tab=evidence", "suppressions"],
  ...["audiences", "templates", "automations", "domains", "webhooks", "keys", "members", "usage", "audit"],
  ...["operator", "profile"],
];
/** A frame after the last placeholder has gone, and none came for three frames. */
const NOTE_WHEN_SHOWN = `
  window.isShown = new Promise((resolve) => {
    let [since, frames] = [0, 0];
    const look = () => {
      const isThere = document.querySelector("h1") && !document.querySelector(".skeleton");
      if (!isThere) frames = 0;
      else if (frames++ === 0) since = performance.now();
      if (frames > 3) resolve(since);
      else requestAnimationFrame(look);
    };
    look();
  });
  window.isPainted = new Promise((resolve) =>
    new PerformanceObserver((list) => {
      for (const { name, startTime } of list.getEntries()) if (name === "first-contentful-paint") resolve(startTime);
    }).observe({ type: "paint", buffered: true }),
  );`;

type Visit = { painted: number; shown: number; called: number };

const consoleScreens: Scenario = {
  name: "console",
  does: "the console's screens and filters in Chromium, in a workspace of `--backlog` e-mails",
  async run(bench, { sizes, tell }) {
    if (CHROMIUM_PATH === null)
      return { figures: [], skipped: ["console: there is no chromium in PATH (apt-get install chromium)"] };
    const workspace = await bench.workspace();
    const rareKey = newId(Date.now());
    await fillDays(bench, workspace, sizes.backlog, rareKey, tell);
    await indexAll(bench, workspace, tell);
    const consoleUrl = await startConsole(bench);
    const browser = await chromium.launch({ executablePath: CHROMIUM_PATH, args: ["--no-sandbox"] });
    bench.endings.add(() => browser.close());
    const context = await browser.newContext({ viewport: { width: 1_280, height: 900 } });
    await context.addInitScript(NOTE_WHEN_SHOWN);
    await signIn(bench, workspace.id, context, consoleUrl);

    const figures = [figure("e-mails", sizes.backlog, "")];
    const newest = await newestEmail(bench, workspace.id);
    figures.push(await lineFigure(context, `${consoleUrl}/assets/none`));
    for (const screen of [...SCREENS, `emails/${newest}`]) {
      tell(screen);
      const name = screen === `emails/${newest}` ? "one e-mail" : screen;
      figures.push(...figuresOf(name, await visits(context, `${consoleUrl}/${screen}`)));
    }
    for (const [name, query] of Object.entries(filters(rareKey))) {
      tell(name);
      figures.push(...figuresOf(`e-mails, ${name}`, await visits(context, `${consoleUrl}/emails?${query}`)));
    }
    return { figures };
  },
};

async function startConsole(bench: Bench): Promise<string> {
  const port = String(await freePort());
  await bench.role("console", { CONSOLE_PORT: port });
  return `http://127.0.0.1:${port}/console`;
}

async function signIn(
  { sql }: Bench,
  workspaceId: string,
  context: BrowserContext,
  consoleUrl: string,
): Promise<void> {
  const { id, email } = await person(sql, workspaceId);
  await sql`update account set is_operator = true where id = ${id}`;
  const page = await context.newPage();
  await page.goto(consoleUrl);
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Emails", level: 1 }).waitFor();
  await page.close();
}

async function newestEmail({ sql }: Bench, workspaceId: string): Promise<string> {
  const [row] = await sql<{ id: string }[]>`
    select id from email where workspace_id = ${workspaceId} order by id desc limit 1`;
  if (!row) throw new Error("no e-mail is in the record");
  return row.id;
}

/** One of each that the screen offers. */
function filters(rareKey: string): Record<string, string> {
  const day = (n: number) => new Date(Date.now() - n * DAY_MS).toISOString().slice(0, 10);
  return {
    "a status": "status=bounced",
    "a status of few": "status=suppressed",
    "a status of none": "status=scheduled",
    "a recipient": `to=person${PEOPLE >> 1}@example.net`,
    "nobody's address": "to=nobody@example.net",
    "a word of few": "subject=refund",
    "a tag of few": "tag=kind:refund",
    "a key of few": `api_key_id=${rareKey}`,
    "a stream": "stream=transactional",
    "a day": `since=${day(DAYS >> 1)}T00:00:00Z&until=${day(DAYS >> 1)}T23:59:59Z`,
    "a recipient, a word, a day": `to=person77@example.net&subject=order&since=${day(3)}T00:00:00Z&until=${day(2)}T23:59:59Z`,
  };
}

async function visits(context: BrowserContext, url: string): Promise<Visit[]> {
  const done: Visit[] = [];
  for (let n = 0; n < VISITS; n++) {
    const page = await context.newPage();
    await page.goto(url);
    done.push(await visitOf(page));
    const refusal = page.locator(".refusal");
    if ((await refusal.count()) > 0) throw new Error(`${url}: ${await refusal.first().textContent()}`);
    await page.close();
  }
  return done;
}

async function lineFigure(context: BrowserContext, url: string): Promise<Figure> {
  const painted: number[] = [];
  for (let n = 0; n < VISITS; n++) {
    const page = await context.newPage();
    await page.goto(url);
    painted.push(await page.evaluate<number>("isPainted"));
    await page.close();
  }
  painted.sort((a, b) => a - b);
  return figure("a page of one line: first paint, p50", quantile(painted, 0.5), "ms");
}

/** Milliseconds from the start of the navigation; `called`: what the slowest call of the server took. */
function visitOf(page: Page): Promise<Visit> {
  return page.evaluate<Visit>(`Promise.all([isPainted, isShown]).then(([painted, shown]) => ({
    painted,
    shown,
    called: Math.max(0, ...performance.getEntriesByType("resource")
      .filter(({ name, responseEnd }) => name.includes("/console/call/") && responseEnd > 0)
      .map(({ startTime, responseEnd }) => responseEnd - startTime)),
  }))`);
}

function figuresOf(name: string, done: readonly Visit[]): Figure[] {
  const sorted = (of: (visit: Visit) => number) => done.map(of).sort((a, b) => a - b);
  const shown = sorted((visit) => visit.shown);
  return [
    figure(
      `${name}: first paint, p50`,
      quantile(
        sorted((visit) => visit.painted),
        0.5,
      ),
      "ms",
      "below 300",
    ),
    figure(`${name}: all of it, p50`, quantile(shown, 0.5), "ms", "below 300"),
    figure(`${name}: all of it, at most`, shown.at(-1) as number, "ms"),
    figure(
      `${name}: slowest call, p50`,
      quantile(
        sorted((visit) => visit.called),
        0.5,
      ),
      "ms",
      "below 200",
    ),
  ];
}

export const scenarios = [consoleScreens];
