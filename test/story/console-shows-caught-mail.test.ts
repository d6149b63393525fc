/**
 * The mailbox of a developer's machine: caught mail appears while the screen is open, with what mail programs
 * would refuse of its HTML, the headers that filters look at, and a preview that asks nobody for anything.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "vitest";
import { startMailbox } from "../../src/embedded/mailbox.ts";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { openStage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(async () => {
  const [stage, mailbox] = await Promise.all([openStage(), startMailbox()]);
  const settings = { MAILBOX_URL: mailbox.url };
  const opened = await openConsole(["api", "deliver"], { ...stage, smtpUrl: mailbox.smtpUrl, settings });
  return {
    ...opened,
    async close() {
      await opened.close();
      await mailbox.stop();
      await stage.close();
    },
  };
});

/** Says whether anybody has asked. */
async function tracker() {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { asked, url, close: () => new Promise((resolve) => server.close(resolve)) };
}

inChromium("a mail appears by itself, with its faults, its headers and a closed preview", async () => {
  const { engine, workspace, chromium } = scene;
  const { asked, url, close } = await tracker();
  const page = await chromium.pageOf(engine, workspace.id);
  await page.getByRole("link", { name: "Mailbox" }).click();
  await page.getByRole("heading", { level: 1, name: "Mailbox" }).waitFor();
  const html = `<p>Order 17</p><script>alert(1)</script><form><input></form><img src="${url}/pixel.gif">`;
  await workspace.client.post("/emails", mail({ subject: "First", html, to: "ann@example.net" }));
  await page.getByRole("link", { name: "ann@example.net" }).waitFor();
  // of whoever looks on
  await workspace.client.post("/emails", mail({ subject: "Second", text: "plain", to: "bea@example.net" }));
  await page.getByRole("link", { name: "bea@example.net" }).waitFor();
  await page.getByLabel("Subject").fill("First");
  await page.getByLabel("Subject").press("Enter");
  await expect.poll(() => page.locator("tbody tr").count()).toBe(1);

  await page.getByRole("link", { name: "ann@example.net" }).click();
  await page.getByRole("heading", { level: 1, name: "First" }).waitFor();
  await page.frameLocator("iframe").getByText("Order 17").waitFor();
  for (const fault of [
    "Scripts are removed by every mail program.",
    "Forms do not work in most mail programs.",
    "A picture has no alt text: many programs show no pictures at first.",
  ])
    await page.getByRole("listitem").getByText(fault).waitFor();
  await page
    .locator(".card")
    .filter({ hasText: "Headers that filters look at" })
    .getByText("message-id")
    .waitFor();
  await page.getByRole("tab", { name: "Headers" }).click();
  await page.getByText("subject: First").waitFor();
  await page.getByRole("tab", { name: "Raw" }).click();
  await page.getByText("MIME-Version: 1.0").waitFor();
  expect(asked).toEqual([]);
  await close();
});
