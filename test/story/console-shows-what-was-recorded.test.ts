/**
 * Consent of a contact, versions of a template and usage by month are shown as the record has them, and no
 * screen asks anybody but the console for anything.
 */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

const scene = sceneOf(openConsole);

inChromium("what a contact agreed to, by source, time and address", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const { id: audience } = (await client.post<{ id: string }>("/audiences", { name: "Readers" })).body;
  const consent = {
    ...{ source: "shop checkout", captured_at: "2026-11-20T10:00:00Z" },
    ...{ ip_address: "192.0.2.7", text: "Yes, write to me." },
  };
  const given = { email: "ann@example.net", double_opt_in: false, consent };
  const { id } = (await client.post<{ id: string }>(`/audiences/${audience}/contacts`, given)).body;
  await client.call("PATCH", `/audiences/${audience}/contacts/${id}`, { unsubscribed: true });
  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/audiences/${audience}/contacts/${id}`);
  const card = page.locator(".card").filter({ has: page.getByRole("heading", { name: "Consent" }) });
  const record = card.getByRole("listitem").filter({ hasText: "shop checkout" });
  for (const words of ["given", "192.0.2.7", "Yes, write to me."]) await record.getByText(words).waitFor();
  await card.getByRole("listitem").filter({ hasText: "withdrawn" }).waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("what a version of a template has changed", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const first = { name: "Order", subject: "Your order", html: "<p>Hello</p>\n<p>It is on its way.</p>" };
  const { id } = (await client.post<{ id: string }>("/templates", first)).body;
  const path = `/templates/${id}`;
  await client.call("PATCH", path, { html: "<p>Hello {{name}}</p>\n<p>It is on its way.</p>" });
  await client.call("PATCH", path, { subject: "On its way" });
  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console${path}?tab=versions`);
  const lines = async () => {
    const [gone, fresh] = [page.locator(".diff del"), page.locator(".diff ins")];
    return [await gone.allTextContents(), await fresh.allTextContents()];
  };
  await page.getByRole("heading", { name: "Version 3 beside 2" }).waitFor();
  expect(await lines()).toEqual([["- Subject: Your order"], ["+ Subject: On its way"]]);
  await page.getByRole("button", { name: "Version 2" }).click();
  await page.getByRole("heading", { name: "Version 2 beside 1" }).waitFor();
  const [gone, fresh] = await lines();
  expect(gone).toContain("- <p>Hello</p>");
  expect(fresh).toContain("+ <p>Hello {{name}}</p>");
  await page.getByRole("button", { name: "Version 1" }).click();
  await page.getByRole("region", { name: "Version 1" }).getByText("<p>Hello</p>").waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("usage by month, and how a key is rotated, without asking any other host", async () => {
  const { engine, workspace, chromium } = scene;
  const today = Math.floor(Date.now() / 86_400_000);
  await engine.sql`
    insert into tally (workspace_id, day, worker, attempted, delivered, deferred, hard_bounced, soft_bounced,
      blocked, failed, throttled, fbl_delivered, complained)
    values (${workspace.id}, ${today}, 'test', 1020, 980, 0, 20, 0, 0, 0, 0, 0, 10)`;
  const page = await chromium.pageOf(engine, workspace.id);
  const asked = new Set<string>();
  page.on("request", (request) => asked.add(new URL(request.url()).origin));
  await page.goto(`${engine.consoleUrl}/console/usage`);
  const month = page
    .getByRole("row")
    .filter({ hasText: new Date().toISOString().slice(0, 7) })
    .getByRole("cell");
  await month.first().waitFor();
  expect(await month.allTextContents()).toEqual([expect.any(String), "980", "20 (2.0%)", "10 (1.0%)"]);
  await page.goto(`${engine.consoleUrl}/console/keys`);
  await page.getByText("How to rotate a key without losing a request").click();
  await page.getByText("Wait until “last used” of the old key stops changing.").waitFor();
  const names = await page.getByRole("navigation").getByRole("link").allTextContents();
  for (const name of names) {
    await page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
    await page.locator("h1").waitFor();
    await page.locator(".skeleton").first().waitFor({ state: "detached" });
  }
  expect(names.length).toBeGreaterThan(10);
  expect([...asked]).toEqual([engine.consoleUrl]);
  expect(chromium.complaints).toEqual([]);
});
