/**
 * A browser makes a call again by itself when a connection that it used before breaks without an answer, and
 * so does whoever is told that there was none: mail goes once.
 */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { inChromium, openConsoleBehindProxy, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";
import type { TcpProxy } from "../rig/proxy.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsoleBehindProxy);

inChromium("an e-mail that is sent again, and a test of a template", async () => {
  const { workspace, chromium, proxy } = scene;
  const { client } = workspace;
  const { id } = (await client.post<{ id: string }>("/emails", mail({ subject: "Order" }))).body;
  const given = { name: "Order", subject: "Test", from: "Shop <hello@example.com>", html: "<p>Hello</p>" };
  const template = (await client.post<{ id: string }>("/templates", given)).body.id;
  const page = await behindProxy(proxy);

  await page.goto(`http://127.0.0.1:${proxy.port}/console/emails/${id}`);
  await page.getByRole("button", { name: "Send again" }).click();
  await sendAndLoseReply(page, "Send again", `/call/emails/${id}/again`);
  await expect.poll(() => page.url()).not.toContain(id);
  expect(await sent("Order")).toBe(2);

  await page.goto(`http://127.0.0.1:${proxy.port}/console/templates/${template}`);
  await page.getByRole("button", { name: "Send a test" }).click();
  await sendAndLoseReply(page, "Send", "/call/v1/emails");
  await page.waitForURL("**/console/emails/*");
  expect(await sent("Test")).toBe(1);
  expect(chromium.complaints).toEqual([]);
});

/** Until it is told that it was sent, as people do. */
async function sendAndLoseReply(page: Page, button: string, path: string): Promise<void> {
  const isLost = scene.proxy.cutReply((request) => request.includes(`POST /console${path} `));
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: button, exact: true }).click();
  await isLost;
  await expect
    .poll(async () => (await dialog.getByRole("alert").count()) + Number((await dialog.count()) === 0))
    .toBe(1);
  if ((await dialog.count()) === 0) return;
  await dialog.getByText("and whether this was done").waitFor();
  await dialog.getByRole("button", { name: button, exact: true }).click();
}

async function sent(subject: string): Promise<number> {
  const { data } = (await scene.workspace.client.get<{ data: { subject: string }[] }>("/emails?limit=100"))
    .body;
  return data.filter((email) => email.subject === subject).length;
}

async function behindProxy(proxy: TcpProxy): Promise<Page> {
  const { engine, workspace, chromium } = scene;
  const { email } = await person(engine.sql, workspace.id, "owner");
  const page = await chromium.page();
  await page.goto(`http://127.0.0.1:${proxy.port}/console`);
  await signIn(page, email);
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  return page;
}
