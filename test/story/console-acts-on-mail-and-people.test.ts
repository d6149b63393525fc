/** What owners and admins press on the screens of an e-mail, an automation, a contact and a domain. */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { DnsServer } from "../rig/dns.ts";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { mail } from "../rig/workspace.ts";

const HOUR_MS = 3_600_000;
const scene = sceneOf(async () => {
  const dns = new DnsServer();
  await dns.open();
  const opened = await openConsole(["api"], { settings: { DNS_SERVERS: dns.address } });
  return {
    ...{ ...opened, dns },
    async close() {
      await opened.close();
      await dns.close();
    },
  };
});

type Sent = { status: string; scheduled_at: string | null };

const path = (one: string) => `${scene.engine.consoleUrl}/console/${one}`;
const read = async <T>(one: string) => (await scene.workspace.client.get<T>(one)).body;

async function scheduled(): Promise<string> {
  const scheduled_at = new Date(Date.now() + HOUR_MS).toISOString();
  const { body } = await scene.workspace.client.post<{ id: string }>("/emails", mail({ scheduled_at }));
  return body.id;
}

const confirm = (page: Page, button: string) =>
  page.getByRole("dialog").getByRole("button", { name: button }).click();

inChromium("a scheduled e-mail goes at another time, and then not at all", async () => {
  const { engine, workspace, chromium } = scene;
  const id = await scheduled();
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(path(`emails/${id}`));
  await page.getByRole("button", { name: "Reschedule" }).click();
  const later = new Date(Date.now() + 48 * HOUR_MS);
  later.setUTCSeconds(0, 0);
  // a field of the browser's own time
  const local = await page.evaluate((ms) => {
    const at = new Date(ms);
    return new Date(ms - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  }, later.getTime());
  const dialog = page.getByRole("dialog", { name: "Reschedule" });
  await dialog.getByLabel("Send at").fill(local);
  await dialog.getByRole("button", { name: "Reschedule" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(await read<Sent>(`/emails/${id}`)).toMatchObject({ scheduled_at: later.toISOString() });

  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await confirm(page, "Cancel the e-mail");
  await page.getByRole("heading", { level: 1 }).locator("..").getByText("Canceled").first().waitFor();
  expect((await read<Sent>(`/emails/${id}`)).status).toBe("canceled");
  expect(chromium.complaints).toEqual([]);
});

inChromium("an e-mail is looked at as a phone shows it and as text, and its id is copied", async () => {
  const { engine, workspace, chromium } = scene;
  const given = mail({ html: "<p>Your order</p>", text: "Your order in plain words" });
  const { body } = await workspace.client.post<{ id: string }>("/emails", given);
  const page = await chromium.pageOf(engine, workspace.id);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(path(`emails/${body.id}`));
  const frame = page.locator("iframe");
  await page.getByRole("button", { name: "Desktop", pressed: true }).waitFor();
  const wide = (await frame.boundingBox())?.width ?? 0;
  await page.getByRole("button", { name: "Phone" }).click();
  await page.getByRole("button", { name: "Phone", pressed: true }).waitFor();
  expect((await frame.boundingBox())?.width).toBeLessThan(Math.min(wide, 420));
  await page.frameLocator("iframe").getByText("Your order").waitFor();
  await page.getByRole("tab", { name: "Text" }).click();
  await page.getByText("Your order in plain words").waitFor();

  const copied = () => page.evaluate<string>("navigator.clipboard.readText()");
  await page.getByRole("button", { name: `Copy ${body.id}` }).click();
  await page
    .getByRole("button", { name: `Copy ${body.id}` })
    .getByText("Copied")
    .waitFor();
  expect(await copied()).toBe(body.id);
  await page.getByRole("button", { name: "Copy as curl" }).click();
  await expect.poll(copied).toContain(`/api/v1/emails/${body.id} -H 'Authorization: Bearer `);
  expect(chromium.complaints).toEqual([]);
});

inChromium("an automation is disabled, and enabled again", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const { body: audience } = await client.post<{ id: string }>("/audiences", { name: "Customers" });
  const document = { name: "Welcome", audience_id: audience.id, event: "joined", entry: "once" };
  const steps = [{ wait: "2h" }];
  const { body } = await client.post<{ id: string }>("/automations", { ...document, steps });
  const before = (await read<{ status: string }>(`/automations/${body.id}`)).status;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(path(`automations/${body.id}`));
  await page.getByRole("button", { name: "Disable" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Runs that are under way go on").waitFor();
  expect((await read<{ status: string }>(`/automations/${body.id}`)).status).toBe(before);
  await dialog.getByRole("button", { name: "Disable" }).click();
  await page.getByRole("button", { name: "Enable" }).waitFor();
  expect((await read<{ status: string }>(`/automations/${body.id}`)).status).toBe("disabled");
  await page.getByRole("button", { name: "Enable" }).click();
  await page.getByRole("button", { name: "Disable" }).waitFor();
  expect((await read<{ status: string }>(`/automations/${body.id}`)).status).toBe(before);
});

inChromium("an owner erases a contact, of whom nothing is left", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const { body: audience } = await client.post<{ id: string }>("/audiences", { name: "Readers" });
  const contacts = `/audiences/${audience.id}/contacts`;
  const { body } = await client.post<{ id: string }>(contacts, { email: "ann@example.net" });
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(path(`audiences/${audience.id}/contacts/${body.id}`));
  await page.getByRole("button", { name: "Erase" }).click();
  await confirm(page, "Erase");
  await page.getByRole("heading", { level: 1, name: "Readers" }).waitFor();
  expect((await client.get(`${contacts}/${body.id}`)).status).toBe(404);
  const left = await engine.sql`select from contact where workspace_id = ${workspace.id} and id = ${body.id}`;
  expect(left).toHaveLength(0);
});

inChromium("an admin makes a key and offers every role but owner", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id, "admin");
  await page.goto(path("members"));
  await page.getByRole("button", { name: "Invite" }).click();
  const dialog = page.getByRole("dialog", { name: "Invite" });
  const offered = dialog.getByLabel("Role").locator("option");
  expect(await offered.count()).toBe(2);
  expect(await dialog.locator('option[value="owner"]').count()).toBe(0);
  await dialog.getByLabel("Email").fill("bea@example.net");
  await dialog.getByRole("button", { name: "Send the invitation" }).click();
  await page.getByText("A link was mailed to bea@example.net").waitFor();
  await page.getByRole("button", { name: "Done" }).click();
  await page.locator("tbody tr").filter({ hasText: "bea@example.net" }).getByText("Member").waitFor();
  await page.goto(path("keys"));
  await page.getByRole("button", { name: "Create API key" }).click();
  await page.getByLabel("Name").fill("of an admin");
  await page.getByLabel("Preset").selectOption("sending");
  await page.getByRole("button", { name: "Create key" }).click();
  const key = await page.getByRole("textbox", { name: "of an admin" }).inputValue();
  await page.getByRole("button", { name: "I have stored it" }).click();
  await page.getByRole("row").filter({ hasText: "of an admin" }).waitFor();
  const headers = { authorization: `Bearer ${key}` };
  expect((await fetch(`${engine.url}/api/v1/emails`, { headers })).status).not.toBe(401);
  await page.goto(path("operator"));
  await page.getByRole("alert").getByText("Only operators can do this.").waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("a domain shows its records to copy, and what DNS has of them when it is asked", async () => {
  const { engine, workspace, chromium, dns } = scene;
  const name = `${workspace.handle.toLowerCase()}.example.net`;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(path("domains"));
  await page.getByRole("button", { name: "Add domain" }).first().click();
  const dialog = page.getByRole("dialog", { name: "Add domain" });
  await dialog.getByLabel("Domain").fill(name);
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  const record = page.locator("tbody tr").filter({ hasText: "Ownership" });
  const [host, value] = await record.locator("code").allTextContents();
  expect(host).toBe(`_postrider.${name}`);
  await record.getByRole("button", { name: "Copy" }).last().click();
  await expect.poll(() => page.evaluate<string>("navigator.clipboard.readText()")).toBe(value);

  await page.getByRole("button", { name: "Check DNS now" }).click();
  await record.getByText("Failed").waitFor();
  dns.zones.set(host as string, { txt: [value as string] });
  await page.getByRole("button", { name: "Check DNS now" }).click();
  await record.getByText("Verified").waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("a page of the console's own origin may not call the API there", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  const answer = await page.evaluate(async (key) => {
    const response = await fetch("/api/v1/emails", { headers: { authorization: `Bearer ${key}` } });
    return { status: response.status, body: (await response.json()) as { name: string } };
  }, workspace.client.key);
  expect(answer).toMatchObject({ status: 403, body: { name: "browser_request_blocked" } });
});
