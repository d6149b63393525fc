/**
 * The simulator answers with sentences and charts; the graph of an automation shows its steps, and refuses a
 * wrong document in words.
 */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

const scene = sceneOf(openConsole);

inChromium("a scenario is simulated", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/caps/simulator`);
  await page.getByLabel("Scenario").selectOption("bought-list");
  await page.getByLabel("Days").fill("30");
  await page.getByLabel("Workspaces").fill("1");
  let goOn = () => {};
  const isSeen = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  await page.route("**/call/caps/simulate", async (route) => {
    if (route.request().method() === "GET")
      return route.fulfill({ json: { object: "simulation_progress", share: 0.41 } });
    await isSeen;
    await route.continue();
  });
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByText("12 of 30 days are simulated.").waitFor();
  goOn();
  await page.getByText(/bad e-mails go out before the first step/).waitFor({ timeout: 60_000 });
  expect(await page.getByRole("img", { name: /^Cap, demand and sent/ }).count()).toBe(1);
  expect(await page.getByRole("progressbar").count()).toBe(0);
  expect(await page.getByLabel("Days", { exact: true }).inputValue()).toBe("30");
  expect(chromium.complaints).toEqual([]);
});

inChromium("the overview names what it counts, and the next step of the caps", async () => {
  const { engine, workspace, chromium } = scene;
  const today = Math.floor(Date.now() / 86_400_000);
  await engine.sql`
    insert into tally (workspace_id, day, worker, attempted, delivered, deferred, hard_bounced, soft_bounced,
      blocked, failed, throttled, fbl_delivered)
    select ${workspace.id}, ${today} - n, 'test', 1000, 990, 0, 0, 0, 0, 0, 0, 0 from generate_series(0, 9) n`;
  await engine.sql`
    insert into cap_use (workspace_id, day, used, delayed, accepted)
    select ${workspace.id}, ${today} - n, 1000, 0, 1002 from generate_series(0, 4) n`;
  const page = await chromium.pageOf(engine, workspace.id);
  const steps = page.waitForResponse("**/call/caps");
  await page.goto(`${engine.consoleUrl}/console/overview`);
  await page.locator(".tile").filter({ hasText: "First attempts" }).getByText("10,000").waitFor();
  const accepted = page.locator(".tile").filter({ hasText: "Accepted" });
  await accepted.getByText("5,010").waitFor();
  await accepted.getByText(/^since \d+ \w+$/).waitFor();
  const chart = page.getByRole("img", {
    name: /^Recipients per day .*last: Accepted 1,002, First attempts 1,000/,
  });
  await page
    .locator("figcaption")
    .first()
    .getByText(/^\d+ \w{3}:$/)
    .waitFor();
  // of the days before any were counted it is not known
  await chart.hover();
  await chart.getByText("Accepted: –").waitFor();
  type Ahead = { day: string; likely: { capDay: number; reason: string | null } };
  const { forecast } = (await (await steps).json()) as { forecast: Ahead[] };
  const next = forecast.find(({ likely }) => likely.reason !== null);
  const said = next
    ? `Next: ${next.likely.capDay.toLocaleString("en")} a day from ${next.day}`
    : "No change is ahead";
  await page.getByText(said).waitFor();
});

inChromium("the graph of an automation follows its document", async () => {
  const { engine, workspace, chromium } = scene;
  const steps = [
    { wait: "2h" },
    {
      // biome-ignore lint/suspicious/noThenProperty: the word of the document
      split: [{ if: [{ field: "contact.tags", contains: "vip" }], then: [{ tag: { add: ["greeted"] } }] }],
    },
  ];
  const { body: audience } = await workspace.client.post<{ id: string }>("/audiences", {
    name: "Customers",
  });
  const document = { name: "Welcome", audience_id: audience.id, event: "signed.up", entry: "once", steps };
  const { body } = await workspace.client.post<{ id: string }>("/automations", document);
  const email = "ann@example.net";
  await workspace.client.post(`/audiences/${audience.id}/contacts`, { email });
  await workspace.client.post("/events", { audience_id: audience.id, email, name: "signed.up" });
  const [run] = await engine.sql<{ id: string }[]>`
      insert into run_step (workspace_id, run_id, seq, position, kind, result, began_at, ended_at)
      select workspace_id, id, 1, '1.0.0', 'tag', 'done', now(), now() from run where workspace_id = ${workspace.id}
      returning run_id as id`;
  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/automations/${body.id}/runs/${run?.id}`);
  const tag = page.locator(".step", { hasText: "+ greeted" });
  await expect.poll(() => tag.getAttribute("class")).toContain("done");
  await page.goto(`${engine.consoleUrl}/console/automations/${body.id}`);
  const graph = page.getByRole("region", { name: "Steps" });
  for (const words of ["next for 1 run", "1 done", "signed.up", "2h", 'if tags contains "vip"', "+ greeted"])
    await graph.getByText(words).waitFor();
  expect(await graph.locator(".step", { hasText: "next for 1 run" }).getAttribute("class")).not.toContain(
    "done",
  );
  await page.getByRole("link", { name: "Customers" }).waitFor();
  await page.getByText("once for each contact").waitFor();
  await page.getByRole("tab", { name: "Document" }).click();
  const editor = page.getByLabel("Document of the automation");
  await editor.fill((await editor.inputValue()).replace('"2h"', '"2 fortnights"'));
  await page.getByRole("button", { name: "Save as the next version" }).click();
  await page.getByRole("alert").getByText("steps[0].wait").waitFor();
  await editor.fill((await editor.inputValue()).replace('"2 fortnights"', '"3h"'));
  await page.getByRole("button", { name: "Save as the next version" }).click();
  await page.getByRole("button", { name: "Discard changes" }).waitFor({ state: "detached" });
  await page.getByRole("tab", { name: "Graph" }).click();
  await graph.getByText("3h").waitFor();
  await page.getByLabel("Version").selectOption("1");
  await graph.getByText("2h").waitFor();
  expect(page.url()).toContain("version=1");
});
