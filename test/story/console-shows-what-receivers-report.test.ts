/**
 * A bounce and a complaint come in over SMTP, as receivers write them: an open page shows them with their
 * evidence, and undoing the suppression lets mail go again.
 */
import { expect } from "vitest";
import type { Mail } from "../rig/ledger.ts";
import { FEEDBACK, ReportLoop } from "../rig/loop.ts";
import { Chromium, inChromium, sceneOf } from "../rig/page.ts";
import { arf, dsn, handIn } from "../rig/reports.ts";

const scene = sceneOf(async () => {
  const loop = await ReportLoop.open({ roles: ["console"], settings: { CONSOLE_PORT: "0" } });
  const chromium = await Chromium.open();
  return {
    ...{ loop, chromium },
    async close() {
      await chromium.close();
      await loop.close();
    },
  };
});

type Report = (to: string, copy: Mail) => Promise<unknown>;

const bounce: Report = (to, { from }) =>
  handIn(scene.loop.port, from, dsn({ recipient: to, diagnostic: "smtp; 550 5.1.1 no such user" }));

const complaint: Report = (_, { from, raw }) => {
  const header = String(raw).split("\r\n\r\n", 1)[0]?.split("\r\n") ?? [];
  return handIn(scene.loop.port, FEEDBACK, arf({ header: [`Return-Path: <${from}>`, ...header] }));
};

async function isReportedAndUndone(
  to: string,
  report: Report,
  words: string,
  evidence: RegExp,
): Promise<void> {
  const { loop, chromium } = scene;
  const { id, copies } = await loop.send(to);
  const page = await chromium.pageOf(loop.engine, loop.ws.id);
  await page.goto(`${loop.engine.consoleUrl}/console/emails/${id}`);
  const timeline = page.locator("section").filter({ hasText: "Timeline" });
  await timeline.getByText("Delivered", { exact: true }).waitFor();
  await report(to, copies[0] as Mail);
  const told = timeline.locator("li").filter({ hasText: words });
  await told.waitFor();
  await told.getByText(evidence).waitFor();

  await page.getByRole("link", { name: `Is ${to} suppressed?` }).click();
  await page.getByText(`${to} is suppressed`).waitFor();
  const row = page.getByRole("row").filter({ hasText: to });
  await row.getByText(evidence).filter({ visible: true }).waitFor();
  await page.getByRole("button", { name: `Undo the suppression of ${to}` }).click();
  await page.getByRole("button", { name: "Undo the suppression", exact: true }).click();
  await row.waitFor({ state: "detached" });
  const { id: next } = await loop.send(to);
  await loop.once(next, ({ status }) => status === "delivered");
  expect(chromium.complaints).toEqual([]);
}

inChromium("a bounce is seen with the receiver's words, and undone", () =>
  isReportedAndUndone("gone@example.net", bounce, "Bounced", /550 5\.1\.1 no such user/),
);

inChromium("a complaint is seen with its source, and undone", () =>
  isReportedAndUndone("cross@example.net", complaint, "Complained", /abuse/),
);
