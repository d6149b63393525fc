/** Changes of the caps go back page by page; the window of mail that decided one is shown with its rate. */
import { expect } from "vitest";
import { insertCapChange } from "../../src/record/workspaces/caps.ts";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { signedIn } from "../rig/people.ts";

const scene = sceneOf(openConsole);

inChromium("in the history all of them, and in the evidence those by harm", async () => {
  const { engine, workspace, chromium } = scene;
  const counts = { measure: "bounce", since: "2026-11-20T10:05:00.000Z", days: 0.2, events: 57, of: 950 };
  const harm = { ...counts, at_least: 0.047, limit: 0.04 };
  for (let day = 1; day <= 60; day++) {
    const caps = { day: 300 + day, hour: 100 };
    await insertCapChange(
      engine.sql,
      workspace.id,
      {
        ...{ before: caps, after: caps, level: day === 60 ? "frozen" : "normal", reason: `change ${day}` },
        ...{ counts: day === 60 ? harm : null, policyVersion: null, by: "policy" },
      },
      new Date(Date.UTC(2026, 8, day)),
    );
  }
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "member");
  type Page = { data: { reason: string }[]; next_cursor: string | null };
  const read: string[] = [];
  for (let cursor = ""; ; ) {
    const { body } = await browser.get<Page>(`caps/history?limit=25${cursor}`);
    read.push(...body.data.map(({ reason }) => reason));
    if (body.next_cursor === null) break;
    cursor = `&cursor=${body.next_cursor}`;
  }
  expect(read).toEqual(Array.from({ length: 60 }, (_, n) => `change ${60 - n}`));

  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/caps?tab=history`);
  await page.getByText("50 shown").waitFor();
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByText("60 shown").waitFor();
  await page.getByRole("tab", { name: "Evidence" }).click();
  const row = page.getByRole("region", { name: "Windows that decided" }).getByRole("row").last();
  for (const words of ["Bounces since", "6%, 57 of 950", "4.7%", "4%", "Frozen"])
    await row.getByText(words, { exact: words.endsWith("%") }).waitFor();
  expect(chromium.complaints).toEqual([]);
});
