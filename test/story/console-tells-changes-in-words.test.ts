/** The audit log says what was done in plain words. The call that did it is a detail, and in the export. */
import { readFile } from "node:fs/promises";
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { Browser, person } from "../rig/people.ts";

const scene = sceneOf(openConsole);

inChromium("what owners and operators change, and what they are refused", async () => {
  const { engine, chromium } = scene;
  const workspace = await engine.workspace();
  const { email } = await person(engine.sql, workspace.id);
  await engine.sql`update account set is_operator = true where email = ${email}`;
  const owner = new Browser(engine.consoleUrl);
  await owner.signIn(email);
  const given = { name: "Order", html: "<p>Hello</p>" };
  const { id } = (await owner.post<{ id: string }>("v1/templates", given)).body;
  await owner.call("PATCH", `v1/templates/${id}`, { name: "Bill" });
  await owner.call("DELETE", "v1/templates/none");
  const { body: domain } = await owner.post<{ id: string }>("v1/domains", { name: "gone.example.com" });
  await owner.call("DELETE", `v1/domains/${domain.id}`);
  const { body: audience } = await owner.post<{ id: string }>("v1/audiences", { name: "Readers" });
  await owner.post("operator/queue/retry", { destination: "example.net" });

  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/audit`);
  await signIn(page, email);
  const row = (words: string) => page.locator("tbody tr").filter({ hasText: words });
  const detail = (words: string, said: string) => row(words).getByText(said).filter({ visible: true });
  await row("Changed a template").getByText("PATCH /templates/{id_or_external_id}: 200").waitFor();
  await row("Changed a template").getByText("Done", { exact: true }).waitFor();
  await row("Deleted a template").getByText("Refused", { exact: true }).waitFor();
  // what it was called, also where it is gone, and what was made
  await detail("Removed a domain", "gone.example.com").waitFor();
  await detail("Added a domain", "gone.example.com").waitFor();
  await detail("Changed a template", "Order → Bill").waitFor();
  await detail("Created an audience", "Readers").waitFor();
  const { body: log } = await owner.get<{ data: { action: string; detail: unknown }[] }>("audit");
  const made = log.data.find(({ action }) => action === "POST /audiences");
  expect(made?.detail).toEqual({ id: audience.id, name: "Readers" });
  await page.getByLabel("Find").fill("changed a template");
  await page.getByLabel("Find").press("Enter");
  await expect.poll(() => page.locator("tbody tr").count()).toBe(1);
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export CSV" }).click();
  const file = await readFile(await (await saved).path(), "utf8");
  expect(file).toContain("changed a template");
  expect(file).toContain("PATCH /templates/{id_or_external_id}");

  await page.getByRole("link", { name: "Operator" }).click();
  await page.getByRole("tab", { name: "Audit log" }).click();
  await row("Retried deferred mail of all workspaces").first().waitFor();
  expect(chromium.complaints).toEqual([]);
});
