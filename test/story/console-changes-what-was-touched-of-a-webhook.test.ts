/** The form that changes a webhook sends what was touched: the rest may be somebody else's newer choice. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { openStage } from "../rig/stage.ts";

const OURS = "https://hooks.example.net/ours";
const THEIRS = "https://hooks.example.net/theirs";
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

async function editing() {
  const { engine, workspace, chromium } = scene;
  const { body } = await workspace.client.post<{ id: string }>("/webhooks", {
    endpoint: OURS,
    events: ["email.sent", "email.bounced"],
  });
  const path = `/webhooks/${body.id}`;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console${path}`);
  await page.getByRole("button", { name: "Edit" }).click();
  const dialog = page.getByRole("dialog", { name: "Edit webhook" });
  const saved = async () => {
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    return (await workspace.client.get(path)).body;
  };
  return { page, dialog, path, saved };
}

inChromium("without a choice it is told of all events", async () => {
  const { dialog, saved } = await editing();
  await dialog.getByLabel("email.sent").uncheck();
  await dialog.getByLabel("email.bounced").uncheck();
  expect(await saved()).toMatchObject({ endpoint: OURS, events: null });
});

inChromium("an endpoint that somebody else gave it meanwhile stays", async () => {
  const { dialog, path, saved } = await editing();
  await scene.workspace.client.call("PATCH", path, { endpoint: THEIRS });
  await dialog.getByLabel("email.sent").uncheck();
  expect(await saved()).toMatchObject({ endpoint: THEIRS, events: ["email.bounced"] });
});

inChromium("where nothing was touched nothing changes", async () => {
  const { path, saved } = await editing();
  await scene.workspace.client.call("PATCH", path, { endpoint: THEIRS, events: ["email.delivered"] });
  expect(await saved()).toMatchObject({ endpoint: THEIRS, events: ["email.delivered"] });
});

inChromium("what somebody else has changed of the same is told before it is replaced", async () => {
  const { dialog, path, saved } = await editing();
  await scene.workspace.client.call("PATCH", path, { endpoint: THEIRS, events: ["email.delivered"] });
  await dialog.getByLabel("Endpoint").fill(`${OURS}/typed`);
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByRole("alert").getByText(`Endpoint: “${THEIRS}”`).waitFor();
  expect((await scene.workspace.client.get(path)).body).toMatchObject({ endpoint: THEIRS });
  expect(await dialog.getByLabel("email.delivered").isChecked()).toBe(true);
  expect(await saved()).toMatchObject({ endpoint: `${OURS}/typed`, events: ["email.delivered"] });
});
