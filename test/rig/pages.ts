/** What the pages of a test showed when it failed: a wait that ended says only what did not come. */
import type { Page } from "playwright-core";

const TEXT_CHARS_MAX = 600;
const FAULTS_MAX = 20;
/** The newest: earlier tests of the file may have left theirs open. */
const PAGES_MAX = 3;

/** Pages that are open, each with what went wrong on it. */
const open = new Map<Page, string[]>();

export function watchPage(page: Page): void {
  const faults: string[] = [];
  open.set(page, faults);
  page.on("close", () => open.delete(page));
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("requestfailed", (request) => {
    faults.push(`${request.method()} ${request.url()}: ${request.failure()?.errorText}`);
  });
  page.on("response", (response) => {
    if (response.status() < 400) return;
    faults.push(`${response.request().method()} ${response.url()}: ${response.status()}`);
  });
}

/** Throws what the test threw, with what is on its pages. */
export async function whatPagesShow(error: Error): Promise<never> {
  const newest = [...open].slice(-PAGES_MAX);
  const shown = await Promise.all(newest.map(([page, faults]) => whatIsOn(page, faults)));
  error.message = [error.message, ...shown].join("\n\n");
  throw error;
}

async function whatIsOn(page: Page, faults: readonly string[]): Promise<string> {
  const text = await page
    .evaluate<string>("document.body.innerText")
    .catch((error: Error) => `unreadable: ${error.message}`);
  const wrong = faults.slice(-FAULTS_MAX).map((fault) => `  ${fault}`);
  return [`${page.url()} shows:`, text.slice(0, TEXT_CHARS_MAX), ...wrong].join("\n");
}
