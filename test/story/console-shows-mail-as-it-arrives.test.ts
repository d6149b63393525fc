/**
 * The list of e-mails: three arrive without reload, filters are in the URL, and what is filtered is exported.
 */
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { PASSWORD, person } from "../rig/people.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);
/** The stream is the page's own then, and the test can stand in its way. */
const ALONE = "delete globalThis.SharedWorker";

inChromium("an empty list teaches, and three mails arrive without reload", async () => {
  const page = await scene.chromium.pageOf(scene.engine, scene.workspace.id, "member");
  await page.getByText(/curl http.*\/api\/v1\/emails/).waitFor();
  await page.evaluate("window.wasReloaded = false");
  for (const n of [1, 2, 3]) await scene.workspace.client.post("/emails", mail({ subject: `Order ${n}` }));
  for (const n of [1, 2, 3]) await page.getByRole("cell", { name: `Order ${n}` }).waitFor();
  expect(await page.evaluate("window.wasReloaded")).toBe(false);
  expect(scene.chromium.complaints).toEqual([]);
});

inChromium("a stream that a proxy refused once is opened again", async () => {
  const page = await scene.chromium.page();
  await page.addInitScript(ALONE);
  let refusals = 0;
  await page.route("**/console/call/live?*", (route) =>
    refusals++ === 0 ? route.fulfill({ status: 502 }) : route.continue(),
  );
  const opened = page.waitForResponse((answer) => /\/call\/live/.test(answer.url()) && answer.ok());
  const { email } = await person(scene.engine.sql, scene.workspace.id, "member");
  await page.goto(`${scene.engine.consoleUrl}/console`);
  await signIn(page, email, PASSWORD);
  await opened;
  expect(refusals).toBe(2);
});

inChromium("what happened while the stream was broken shows once it is back", async () => {
  const { engine, chromium } = scene;
  const workspace = await engine.workspace();
  const { email } = await person(engine.sql, workspace.id, "member");
  const page = await chromium.page();
  // then it does not read every 15 seconds
  await page.addInitScript(`setInterval = () => 0; ${ALONE}`);
  await page.route("**/console/call/live?*", (route) => route.fulfill({ status: 502 }));
  const refused = page.waitForResponse("**/console/call/live?*");
  await page.goto(`${engine.consoleUrl}/console`);
  await signIn(page, email, PASSWORD);
  await page.getByText(/curl http.*\/api\/v1\/emails/).waitFor();
  await refused;
  await workspace.client.post("/emails", mail({ subject: "Sent meanwhile" }));
  await page.unrouteAll();
  await page.getByRole("cell", { name: "Sent meanwhile" }).waitFor();
});

inChromium("what happened between the first look and the stream shows at once", async () => {
  const { engine, chromium } = scene;
  const workspace = await engine.workspace();
  const { email } = await person(engine.sql, workspace.id, "member");
  const page = await chromium.page();
  // then it does not read every 15 seconds
  await page.addInitScript(`setInterval = () => 0; ${ALONE}`);
  let open = () => {};
  const mayOpen = new Promise<void>((resolve) => {
    open = resolve;
  });
  await page.route("**/console/call/live?*", (route) => mayOpen.then(() => route.continue()));
  await page.goto(`${engine.consoleUrl}/console`);
  await signIn(page, email, PASSWORD);
  await page.getByText(/curl http.*\/api\/v1\/emails/).waitFor();
  await workspace.client.post("/emails", mail({ subject: "Sent meanwhile" }));
  open();
  await page.getByRole("cell", { name: "Sent meanwhile" }).waitFor();
});

inChromium("who looks at a page again sees what happened meanwhile", async () => {
  const { engine, chromium } = scene;
  const workspace = await engine.workspace();
  const { email } = await person(engine.sql, workspace.id, "member");
  const page = await chromium.page();
  // nothing but that makes it read again: no timer, and no stream
  await page.addInitScript(`
    ${ALONE};
    window.seen = "visible";
    setInterval = () => 0;
    Object.defineProperty(document, "visibilityState", { get: () => window.seen });`);
  await page.route("**/console/call/live?*", (route) => route.abort());
  await page.goto(`${engine.consoleUrl}/console`);
  await signIn(page, email, PASSWORD);
  await page.getByText(/curl http.*\/api\/v1\/emails/).waitFor();
  const look = (how: string) =>
    page.evaluate(`window.seen = "${how}"; document.dispatchEvent(new Event("visibilitychange"))`);
  await look("hidden");
  await workspace.client.post("/emails", mail({ subject: "Sent meanwhile" }));
  await look("visible");
  await page.getByRole("cell", { name: "Sent meanwhile" }).waitFor();
});

inChromium("a device whose clock is hours wrong tells how long ago it was", async () => {
  const { engine, chromium } = scene;
  const workspace = await engine.workspace();
  const { email } = await person(engine.sql, workspace.id, "member");
  for (const hours of [5, -5]) {
    const subject = `Just now, off by ${hours}`;
    await workspace.client.post("/emails", mail({ subject }));
    const page = await chromium.page();
    await page.clock.setFixedTime(Date.now() + hours * 3_600_000);
    await page.goto(`${engine.consoleUrl}/console`);
    await signIn(page, email, PASSWORD);
    const row = page.getByRole("row").filter({ hasText: subject });
    await row.waitFor();
    expect(await row.locator("time").textContent()).toMatch(/^(now|\d+s ago)$/);
  }
});

inChromium("a filter is a link, and what it shows is exported", async () => {
  await scene.workspace.client.post("/emails", mail({ to: "ada@example.net", subject: "=1+1, for Ada" }));
  const page = await scene.chromium.pageOf(scene.engine, scene.workspace.id);
  await page.getByLabel("To", { exact: true }).fill("ada@example.net");
  await page.getByLabel("To", { exact: true }).press("Enter");
  await page.waitForURL(/to=ada%40example\.net/);
  await page.reload();
  await page.getByRole("cell", { name: "for Ada" }).waitFor();
  expect(await page.getByRole("row").count()).toBe(2);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export CSV" }).click(),
  ]);
  const [head, row, ...rest] = readFileSync(await download.path(), "utf8")
    .trimEnd()
    .split("\r\n");
  expect(head).toBe("Status,To,Subject,Accepted,From,Id");
  expect(row).toMatch(/^accepted,ada@example\.net,"'=1\+1, for Ada",/);
  expect(rest).toEqual([]);
});

inChromium("a refusal is shown in the server's words", async () => {
  const page = await scene.chromium.pageOf(scene.engine, scene.workspace.id);
  await page.goto(`${scene.engine.consoleUrl}/console/emails?to=nobody`);
  await page.getByRole("alert").getByText("`to` must be an address").waitFor();
});

inChromium("the palette goes where the keyboard says", async () => {
  const page = await scene.chromium.pageOf(scene.engine, scene.workspace.id);
  await page.keyboard.press("Control+k");
  await page.keyboard.type("api keys");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
  expect(new URL(page.url()).pathname).toBe("/console/keys");
});

inChromium("the palette opens by a key that is pressed as soon as there is a screen", async () => {
  const page = await scene.chromium.pageOf(scene.engine, scene.workspace.id);
  // before the page has been painted once
  await page.addInitScript(`new MutationObserver((_, watcher) => {
    if (!document.querySelector("h1")) return;
    watcher.disconnect();
    dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }));
  }).observe(document, { childList: true, subtree: true })`);
  await page.reload();
  await page.getByRole("dialog", { name: "Command palette" }).waitFor();
});

inChromium("the palette gives the focus back", async () => {
  const page = await scene.chromium.pageOf(scene.engine, scene.workspace.id);
  const link = page.getByRole("link", { name: "Members" });
  for (const key of ["Enter", "Escape"]) {
    await link.focus();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("change the theme");
    await page.keyboard.press(key);
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await link.evaluate((element) => element.matches(":focus"))).toBe(true);
  }
});

inChromium("the palette opens an e-mail by the Message-ID that a receiver names", async () => {
  const { client } = scene.workspace;
  const { body } = await client.post<{ id: string }>("/emails", mail({ subject: "Where is it?" }));
  const { body: email } = await client.get<{ message_id: string }>(`/emails/${body.id}`);
  const page = await scene.chromium.pageOf(scene.engine, scene.workspace.id, "member");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Go to a screen" }).fill(email.message_id.toUpperCase());
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Where is it?" }).waitFor();
});
