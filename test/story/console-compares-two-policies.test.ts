/**
 * The simulator on the policy in force beside another one: each is drawn under its name, and what both were
 * measured to do stands side by side.
 */
import { expect } from "vitest";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

const scene = sceneOf(openConsole);

inChromium("each policy has its own charts, and the measures are compared", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/caps/simulator`);
  await page.getByLabel("Scenario").selectOption("clean-start");
  await page.getByLabel("Days").fill("20");
  await page.getByLabel("Workspaces").fill("6");
  await page.getByText("Use another policy").click();
  const stricter = { ...DEFAULT_POLICY, start: { day: 100, hour: 50 }, growth: 1.05 };
  await page.getByLabel("Policy", { exact: true }).fill(JSON.stringify(stricter));
  await page.getByRole("button", { name: "Simulate" }).click();

  const [theirs, mine] = ["Under the policy in force", "Under your policy"].map((name) =>
    page.getByRole("region", { name, exact: true }),
  ) as [ReturnType<typeof page.locator>, ReturnType<typeof page.locator>];
  await mine.getByRole("img", { name: /^Cap, demand and sent/ }).waitFor();
  for (const chart of [
    /^Daily cap and waiting mail over all workspaces/,
    /^Levels over time/,
    /^Evidence for a step, by the hour/,
    /^Bounces: the windows that decided/,
    /^Complaints: the windows that decided/,
    /^Receivers/,
  ])
    for (const region of [theirs, mine])
      expect(await region.getByRole("img", { name: chart }).count()).toBe(1);
  const caps = (region: typeof mine) =>
    region.locator("figure", { hasText: "Cap, demand and sent" }).locator("svg").first().innerHTML();
  expect(await caps(mine)).not.toBe(await caps(theirs));

  const measures = page.getByRole("region", { name: "Measures" });
  expect(await measures.getByRole("columnheader").allTextContents()).toEqual([
    ...["Measure", "The policy in force", "The policy in force, at worst"],
    ...["Your policy", "Your policy, at worst", "Your policy, with 95% confidence"],
  ]);
  const sent = await measures
    .getByRole("row", { name: /^Recipients sent to/ })
    .getByRole("cell")
    .allTextContents();
  expect(sent[3]).not.toBe(sent[1]);
  expect(sent[5]).toMatch(/less$/);
  expect(chromium.complaints).toEqual([]);
});
