/** A bounce and a complaint appear with their evidence; undoing the suppression lets mail go again. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHROMIUM_PATH } from "../rig/chromium.ts";
import { type ConsoleScene, openConsole } from "../rig/page.ts";
import { mail } from "../rig/workspace.ts";

const HAS_CHROMIUM = CHROMIUM_PATH !== null;
let scene: ConsoleScene;
beforeAll(async () => {
  if (HAS_CHROMIUM) scene = await openConsole();
});
afterAll(() => scene?.close());

test.runIf(HAS_CHROMIUM)(
  "a reported bounce is seen, and undone",
  async () => {
    const { engine, workspace, chromium } = scene;
    const to = "ada@example.net";
    const { body } = await workspace.client.post<{ id: string }>("/emails", mail({ to }));
    const report = {
      email_id: body.id,
      recipient: to,
      type: "bounce",
      category: "hard",
      detail: "550 5.1.1 no such user",
    };
    await workspace.client.post("/feedback", [report]);
    await workspace.client.post("/suppressions", {
      email: to,
      reason: "bounce",
      evidence: "550 5.1.1 no such user",
    });
    const page = await chromium.pageOf(engine, workspace.id);
    await page.goto(`${engine.consoleUrl}/console/suppressions?find=${to}`);
    await page.getByText(`${to} is suppressed`).waitFor();
    const row = page.getByRole("row").filter({ hasText: to });
    await row.getByText("550 5.1.1 no such user").waitFor();
    await page.getByRole("button", { name: `Undo the suppression of ${to}` }).click();
    await page.getByRole("button", { name: "Undo the suppression", exact: true }).click();
    await page.getByText("Nobody is suppressed").waitFor();
    expect((await workspace.client.get(`/suppressions/${to}`)).status).toBe(404);
  },
  90_000,
);
