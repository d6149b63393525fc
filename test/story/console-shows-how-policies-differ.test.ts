/** The policy in force beside the one that ships, one that is only tried beside it, and a third replayed. */
import { expect } from "vitest";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { insertCapPolicy } from "../../src/record/workspaces/cappolicies.ts";
import { putShadow, saveShadow } from "../../src/record/workspaces/shadow.ts";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { openStage } from "../rig/stage.ts";

const MINUTE_MS = 60_000;
const scene = sceneOf(async () => {
  const stage = await openStage();
  const opened = await openConsole(["api"], stage);
  return {
    ...opened,
    async close() {
      await opened.close();
      await stage.close();
    },
  };
});

inChromium("line by line, with what each has done and would have done", async () => {
  const { engine, workspace, chromium } = scene;
  const { sql } = engine;
  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/caps?tab=policy`);
  await page.getByText("Nothing: the policy in force is the one that ships.").waitFor();

  const text = (growth: number) => JSON.stringify({ ...DEFAULT_POLICY, growth });
  const inForce = { text: text(1.25), digest: "in force", author: "Ada", reason: "slower" };
  await insertCapPolicy(sql, inForce, 0, new Date());
  const since = new Date(Date.now() - MINUTE_MS);
  await putShadow(sql, { text: text(1.1), digest: "shadow", author: "Ada", since });
  const step = { dayBefore: 1_000, dayAfter: 500, levelBefore: "normal", level: "shrunk", counts: null };
  const change = { ...step, reason: "too many bounces" };
  await saveShadow(sql, "shadow", [{ workspaceId: workspace.id, state: {}, change }], new Date());
  await page.reload();
  const [fromShipped, fromInForce] = [
    page.getByRole("region", { name: "Differences" }).first(),
    page.getByRole("region", { name: "Differences" }).last(),
  ];
  await fromShipped.getByText(`-   "growth": ${DEFAULT_POLICY.growth},`).waitFor();
  await fromShipped.getByText('+   "growth": 1.25,').waitFor();
  await fromInForce.getByText('-   "growth": 1.25,').waitFor();
  await fromInForce.getByText('+   "growth": 1.1,').waitFor();
  expect(await page.locator("ins, del").count()).toBe(4);
  const cells = (table: string, row: string) =>
    page
      .getByRole("region", { name: table })
      .getByRole("row")
      .filter({ hasText: row })
      .getByRole("cell")
      .allTextContents();
  expect(await cells("Steps of both policies", "In force")).toEqual(["In force", "0", "0", "0"]);
  expect(await cells("Steps of both policies", "Shadow")).toEqual(["Shadow", "0", "0", "1"]);
  const [, ...wouldHave] = await cells("What the shadow policy would have done", "too many bounces");
  expect(wouldHave).toEqual(["1,000 to 500", "normal to shrunk", "too many bounces"]);

  await page.getByLabel("Another policy").fill('{"growth": "much"}');
  await page.getByRole("button", { name: "Replay the recorded days" }).click();
  await page.getByRole("alert").getByText("growth").waitFor();
  await page.getByLabel("Another policy").fill(text(1.3));
  await page.getByRole("button", { name: "Replay the recorded days" }).click();
  await page.getByRole("img", { name: /^Recipients per day/ }).waitFor();
  expect(chromium.complaints).toEqual([]);
});
