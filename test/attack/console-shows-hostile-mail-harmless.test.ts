/**
 * HTML with script, form, refresh, frames and remote pictures does nothing in the preview, until pictures are
 * asked for.
 */
import { createServer } from "node:http";
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { listenOn } from "../rig/port.ts";
import { mail } from "../rig/workspace.ts";

const asked: string[] = [];
/** Some things open a connection, and ask for nothing. */
let connections = 0;
const scene = sceneOf(async () => {
  const outside = createServer((request, response) => {
    asked.push(request.url ?? "");
    response
      .writeHead(200, { "content-type": "image/svg+xml" })
      .end('<svg xmlns="http://www.w3.org/2000/svg"/>');
  });
  outside.on("connection", () => connections++);
  const [port, console] = [await listenOn(outside), await openConsole()];
  return {
    ...{ ...console, elsewhere: `http://127.0.0.1:${port}` },
    async close() {
      await console.close();
      outside.close();
    },
  };
});

function hostile(elsewhere: string): string {
  return `<meta http-equiv="refresh" content="0;url=${elsewhere}/refresh"><base href="${elsewhere}/base/">
    <script>top.document.title = "taken"; fetch("${elsewhere}/script")</script>
    <script src="${elsewhere}/script.js"></script><link rel="stylesheet" href="${elsewhere}/style.css">
    <style>body { background: url(${elsewhere}/background) }</style>
    <link rel="preconnect" href="${elsewhere}"><link rel="dns-prefetch" href="${elsewhere}">
    <link rel="prefetch" href="${elsewhere}/prefetch"><link rel="preload" as="image" href="${elsewhere}/preload">
    <link rel="prerender" href="${elsewhere}/prerender"><link rel="icon" href="${elsewhere}/icon">
    <p id="shown" onclick="top.document.title = 'taken'">What the mail says</p>
    <img src="${elsewhere}/picture" onerror="top.document.title = 'taken'"><img src="x" onerror="parent.document.title = 'taken'">
    <iframe src="${elsewhere}/frame"></iframe><object data="${elsewhere}/object"></object>
    <form action="${elsewhere}/form" target="_top"><button id="press">Press</button></form>
    <a id="link" href="${elsewhere}/link" target="_top">link</a><svg onload="top.document.title = 'taken'"></svg>`;
}

inChromium("the preview shows the words, and nothing acts or leaves", async () => {
  const { engine, workspace, chromium, elsewhere } = scene;
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
  expect(connections).toBe(0);

  await page.getByLabel("Load remote images").check();
  await expect.poll(() => asked).toContain("/picture");
  await frame.getByText("What the mail says").click();
  expect(asked.filter((path) => path !== "/picture" && path !== "/background")).toEqual([]);
  expect(await page.title()).not.toBe("taken");
});
