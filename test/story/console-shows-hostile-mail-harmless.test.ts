/** HTML with script, form, refresh, frames and remote pictures does nothing in the preview, until pictures are asked for. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHROMIUM_PATH } from "../rig/chromium.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Chromium } from "../rig/page.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const HAS_CHROMIUM = CHROMIUM_PATH !== null;
let engine: Engine;
let workspace: TestWorkspace;
let chromium: Chromium;
let outside: Server;
const asked: string[] = [];
beforeAll(async () => {
  if (!HAS_CHROMIUM) return;
  outside = createServer((request, response) => {
    asked.push(request.url ?? "");
    response
      .writeHead(200, { "content-type": "image/svg+xml" })
      .end('<svg xmlns="http://www.w3.org/2000/svg"/>');
  });
  await new Promise<void>((resolve) => outside.listen(0, "127.0.0.1", resolve));
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
  workspace = await engine.workspace();
  chromium = await Chromium.open();
});
afterAll(async () => {
  await chromium?.close();
  await engine?.stop();
  outside?.close();
});

function hostile(elsewhere: string): string {
  return `<meta http-equiv="refresh" content="0;url=${elsewhere}/refresh"><base href="${elsewhere}/base/">
    <script>top.document.title = "taken"; fetch("${elsewhere}/script")</script>
    <script src="${elsewhere}/script.js"></script><link rel="stylesheet" href="${elsewhere}/style.css">
    <style>body { background: url(${elsewhere}/background) }</style>
    <p id="shown" onclick="top.document.title = 'taken'">What the mail says</p>
    <img src="${elsewhere}/picture" onerror="top.document.title = 'taken'"><img src="x" onerror="parent.document.title = 'taken'">
    <iframe src="${elsewhere}/frame"></iframe><object data="${elsewhere}/object"></object>
    <form action="${elsewhere}/form" target="_top"><button id="press">Press</button></form>
    <a id="link" href="${elsewhere}/link" target="_top">link</a><svg onload="top.document.title = 'taken'"></svg>`;
}

test.runIf(HAS_CHROMIUM)(
  "the preview shows the words, and nothing acts or leaves",
  async () => {
    const elsewhere = `http://127.0.0.1:${(outside.address() as AddressInfo).port}`;
    const html = hostile(elsewhere);
    const { body } = await workspace.client.post<{ id: string }>(
      "/emails",
      mail({ html, subject: "<img src=x onerror=1>" }),
    );
    const page = await chromium.pageOf(engine, workspace.id);
    await page.goto(`${engine.consoleUrl}/console/emails/${body.id}`);
    await page.getByRole("heading", { level: 1, name: "<img src=x onerror=1>" }).waitFor();
    const frame = page.frameLocator("iframe");
    await frame.getByText("What the mail says").click();
    await frame.locator("#press").click();
    await frame.locator("#link").click();
    expect(new URL(page.url()).pathname).toBe(`/console/emails/${body.id}`);
    expect(await page.title()).not.toBe("taken");
    expect(asked).toEqual([]);

    await page.getByLabel("Load remote images").check();
    await expect.poll(() => asked).toContain("/picture");
    await frame.getByText("What the mail says").click();
    expect(asked.filter((path) => path !== "/picture" && path !== "/background")).toEqual([]);
    expect(await page.title()).not.toBe("taken");
  },
  90_000,
);
