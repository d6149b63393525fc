/**
 * An event starts a run: its screen shows what each step did and what comes next, and stopping ends it,
 * without reload.
 */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { openStage } from "../rig/stage.ts";

const scene = sceneOf(async () => {
  const stage = await openStage();
  const opened = await openConsole(["api", "automate"], stage);
  return {
    ...opened,
    async close() {
      await opened.close();
      await stage.close();
    },
  };
});

inChromium("from its first step to where it waits, and until it is stopped", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const make = async (path: string, body: object) => (await client.post<{ id: string }>(path, body)).body.id;
  const audience_id = await make("/audiences", { name: "Customers" });
  const email = "ann@example.net";
  await make(`/audiences/${audience_id}/contacts`, { email });
  const waiting = [{ wait: "2h" }, { tag: { add: ["patient"] } }];
  const steps = [
    { tag: { add: ["greeted"] } },
    {
      split: [
        // biome-ignore lint/suspicious/noThenProperty: the word of the document
        { if: [{ field: "contact.tags", contains: "vip" }], then: [] },
        { else: waiting },
      ],
    },
  ];
  const terms = { name: "Welcome", audience_id, event: "signed.up", entry: "once" };
  const id = await make("/automations", { ...terms, steps });

  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/automations/${id}?tab=runs`);
  await page.getByText("No run yet").waitFor();
  await client.post("/events", { audience_id, email, name: "signed.up" });
  await page.getByRole("row").getByRole("link", { name: email }).click();
  await page.getByRole("heading", { level: 1, name: "Run" }).waitFor();
  await page.getByText("Running").waitFor();
  const greeted = page.locator(".step", { hasText: "+ greeted" });
  // the page looks every fifteen seconds, and sooner when it hears of something
  await expect.poll(() => greeted.getAttribute("class"), { timeout: 40_000 }).toContain("done");
  await page.locator(".step", { hasText: "Split" }).getByText("else").waitFor();
  const wait = page.locator(".step", { hasText: "Wait" });
  await wait.getByText("ends in").waitFor();
  expect(await wait.getAttribute("class")).not.toContain("done");
  await page
    .locator(".timeline")
    .getByRole("listitem")
    .filter({ hasText: "wait" })
    .getByText("Waiting")
    .waitFor();
  await page.locator(".timeline").getByText("until").waitFor();
  const patient = page.locator(".step", { hasText: "+ patient" });
  expect(await patient.getAttribute("class")).not.toContain("done");
  await page.getByRole("link", { name: email }).click();
  await page.getByText("greeted").first().waitFor();

  await page.goto(`${engine.consoleUrl}/console/automations/${id}?tab=runs`);
  await page.getByRole("button", { name: "Stop all runs" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop them" }).click();
  await page.getByRole("row").getByText("Cancelled").waitFor();
  expect(chromium.complaints).toEqual([]);
});
