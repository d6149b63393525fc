/** Half of a document, a link that was cut, a server that is away: the page says so, and goes on. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);

/** All of it is JSON, as it is now and then while somebody writes a document. */
const HALVES = [
  '{"steps":[null]}',
  '{"steps":[1,"x",[],{}]}',
  '{"steps":[{"split":{}}]}',
  '{"steps":[{"split":null}]}',
  '{"steps":[{"split":[null]}]}',
  '{"steps":[{"split":[{"if":null,"then":{}}]}]}',
  '{"steps":[{"split":{"percent":{"a":50},"a":{}}}]}',
  '{"steps":[{"tag":{"add":"x"}}]}',
  '{"steps":[{"tag":null}]}',
  '{"steps":[{"send":null}]}',
  '{"steps":[{"wait":null}]}',
  "null",
];

inChromium("the graph is drawn while the document is written", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const audience = (await client.post<{ id: string }>("/audiences", { name: "Customers" })).body.id;
  const document = { name: "Welcome", audience_id: audience, event: "signed.up", steps: [{ wait: "1h" }] };
  const { body } = await client.post<{ id: string }>("/automations", document);
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/automations/${body.id}?tab=document`);
  const editor = page.getByLabel("Document of the automation");
  const before = await editor.inputValue();
  for (const half of HALVES) await editor.fill(half);
  await editor.fill(before.replace("1h", "2h"));
  await page.getByRole("region", { name: "Steps" }).getByText("2h").waitFor();
  await page.getByRole("button", { name: "Save as the next version" }).click();
  await expect
    .poll(async () => JSON.stringify((await client.get(`/automations/${body.id}`)).body))
    .toContain("2h");
  expect(chromium.complaints.splice(0)).toEqual([]);
});

inChromium("a link that was cut shows a page, and the way on", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  for (const path of ["emails/%E0%A4%A", "emails/%", "audiences/%ff/contacts/%", "%"]) {
    await page.goto(`${engine.consoleUrl}/console/${path}`);
    await page.locator("h1").waitFor();
    await page.getByRole("link", { name: "Members" }).waitFor();
  }
  expect(chromium.complaints.splice(0)).toEqual([]);
});

inChromium("a link leads to no other call than that of its screen", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const far = "..%2F..%2Fmembers";
  for (const path of [
    `emails/${far}`,
    `templates/${far}`,
    `audiences/${far}/import?import=${far}`,
    `audiences/${far}/import?import=..`,
    "emails/%00",
  ]) {
    await page.goto(`${engine.consoleUrl}/console/${path}`);
    await page.getByRole("alert").first().waitFor();
  }
  const others = ["members", "v1/emails/", "contacts/"].map((path) => `/console/call/${path}`);
  expect(asked.filter((path) => others.includes(path))).toEqual([]);
  expect(chromium.complaints.splice(0)).toEqual([]);
});

inChromium("a filter that cannot be read is told, and can be removed", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  for (const filter of ["status=foo", "since=yesterday", "tag=:"]) {
    await page.goto(`${engine.consoleUrl}/console/emails?${filter}`);
    await page.getByRole("alert").waitFor();
    await page.getByRole("button", { name: "Remove the filter" }).click();
    await page.getByRole("heading", { name: "Send the first e-mail" }).waitFor();
    expect(new URL(page.url()).search).toBe("");
  }
});

inChromium("nobody is called free of suppression while that is not known", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  const refusal = { statusCode: 503, name: "service_unavailable", message: "Postgres is away." };
  await page.route("**/v1/suppressions/*", (route) => route.fulfill({ status: 503, json: refusal }));
  await page.goto(`${engine.consoleUrl}/console/suppressions?find=ada@example.com`);
  await page.getByText("Postgres is away.").waitFor();
  expect(await page.getByText("is not suppressed").count()).toBe(0);
  await page.unrouteAll();
  await page.reload();
  await page.getByText("ada@example.com is not suppressed.").waitFor();
});

inChromium("a console that could not be loaded loads once the server is back", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.route("**/call/session", (route) => route.abort());
  await page.reload();
  await page.getByRole("heading", { name: "The console cannot be loaded" }).waitFor();
  await page.unrouteAll();
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
});

inChromium("whose session ended while the server was away signs in once it is back", async () => {
  const { engine, workspace, chromium } = scene;
  const { id, email } = await person(engine.sql, workspace.id);
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console`);
  await signIn(page, email);
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  await page.route("**/call/session", (route) => route.abort());
  await page.reload();
  await page.getByRole("heading", { name: "The console cannot be loaded" }).waitFor();
  await engine.sql`delete from session where account_id = ${id}`;
  await page.unrouteAll();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

inChromium(
  "a chart whose code did not arrive is drawn once it does, and no longer said to be missing",
  async () => {
    const { engine, workspace, chromium } = scene;
    const page = await chromium.pageOf(engine, workspace.id);
    const code = "**/assets/plot-*";
    await page.route(code, (route) => route.fulfill({ status: 404, body: "" }));
    await page.goto(`${engine.consoleUrl}/console/caps`);
    const missing = page.getByText("The chart could not be loaded.");
    await missing.waitFor();
    await page.getByRole("heading", { name: "Used now" }).waitFor();
    await page.unroute(code);
    // the screen reads again, as it does for news
    await workspace.client.post("/emails", mail());
    await page.locator("figure canvas").waitFor();
    expect(await missing.count()).toBe(0);
    expect(chromium.complaints.splice(0)).toEqual([]);
  },
);

inChromium(
  "a screen that is left before the code of its charts arrives draws nothing elsewhere",
  async () => {
    const { engine, workspace, chromium } = scene;
    const page = await chromium.pageOf(engine, workspace.id);
    let leave = () => {};
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    await page.route("**/assets/plot-*", (route) => left.then(() => route.continue()));
    await page.goto(`${engine.consoleUrl}/console/caps`);
    await page.locator("figure").waitFor();
    await page.getByRole("link", { name: "Members" }).click();
    await page.getByRole("heading", { level: 1, name: "Members" }).waitFor();
    const arrived = page.waitForResponse("**/assets/plot-*");
    leave();
    await arrived;
    expect(await page.locator("canvas").count()).toBe(0);
    await page.goBack();
    await page.locator("figure canvas").waitFor();
    expect(await page.locator("canvas").count()).toBe(1);
    expect(chromium.complaints.splice(0)).toEqual([]);
  },
);

inChromium("what is no answer of the console is told in words", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  const body = "<html>Please sign in to the network</html>";
  await page.route("**/call/usage", (route) => route.fulfill({ contentType: "text/html", body }));
  await page.goto(`${engine.consoleUrl}/console/usage`);
  await page.getByRole("alert").getByText("The answer is not one of the console.").waitFor();
});

inChromium("a time that is none is shown as it is", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.route("**/call/usage", async (route) => {
    const answer = await (await route.fetch()).json();
    answer.quota.day.resets_at = "some day";
    await route.fulfill({ json: answer });
  });
  await page.goto(`${engine.consoleUrl}/console/usage`);
  await page.getByText("Resets some day.").waitFor();
});

inChromium(
  "a browser that keeps nothing of a site shows the console, and a theme that is chosen",
  async () => {
    const { engine, workspace, chromium } = scene;
    const page = await chromium.pageOf(engine, workspace.id);
    await page.addInitScript(() =>
      Object.defineProperty(globalThis, "localStorage", {
        get() {
          throw new DOMException("The operation is insecure.", "SecurityError");
        },
      }),
    );
    await page.goto(`${engine.consoleUrl}/console/emails`);
    await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
    const theme = page.locator("html[data-theme]");
    expect(await theme.count()).toBe(0);
    await page.getByRole("button", { name: /theme/i }).click();
    await theme.waitFor({ state: "attached" });
    expect(chromium.complaints.splice(0)).toEqual([]);
  },
);
