/** Half of a document, a link that was cut, a server that is away: the page says so, and goes on. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

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
