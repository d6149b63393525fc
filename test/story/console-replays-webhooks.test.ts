/** A webhook is added on the page, tried with a test event, and sent again what its endpoint refused. */
import { expect } from "vitest";
import { openReceiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { openStage } from "../rig/stage.ts";

const scene = sceneOf(async () => {
  const [stage, receiver] = await Promise.all([openStage(), openReceiver()]);
  const opened = await openConsole(["api", "webhooks"], { ...stage, settings: TO_LOOPBACK });
  return {
    ...{ ...opened, receiver },
    async close() {
      await opened.close();
      await receiver.close();
      await stage.close();
    },
  };
});

inChromium("the attempts show the endpoint's answers, and a replay arrives under the same id", async () => {
  const { engine, workspace, chromium, receiver } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/webhooks`);
  await page.getByRole("button", { name: "Add webhook" }).click();
  await page.getByLabel("Endpoint").fill(receiver.url());
  await page.getByRole("button", { name: "Add", exact: true }).click();
  expect(await page.getByLabel("Secret", { exact: true }).inputValue()).toMatch(/^whsec_/);
  await page.getByRole("button", { name: "I have stored it" }).click();
  await page.getByRole("button", { name: "Send a test event" }).click();
  await receiver.until(({ heard }) => heard.length === 1);
  await page
    .getByRole("row")
    .filter({ hasText: "webhook.test" })
    .getByText("200")
    .waitFor({ timeout: 12_000 });

  // it is not tried again by itself meanwhile, however long the page takes
  receiver.answerWith = (_, response) =>
    response.writeHead(503, { "retry-after": "3600" }).end("The shop is being restocked.");
  await workspace.client.post("/audiences", { name: "Customers" }).then(({ body }) =>
    workspace.client.post(`/audiences/${(body as { id: string }).id}/contacts`, {
      email: "ada@example.net",
    }),
  );
  await receiver.until(({ heard }) => heard.length === 2);
  await page.getByRole("tab", { name: "Attempts" }).click();
  const refused = page.getByRole("row").filter({ hasText: "503" });
  await refused.getByText("The shop is being restocked.").waitFor();

  receiver.answerWith = (_, response) => response.end("ok");
  await page.getByRole("tab", { name: "Events" }).click();
  const row = page.getByRole("row").filter({ hasText: "contact.created" });
  await row.getByRole("button", { name: "Replay" }).click();
  await receiver.until(({ heard }) => heard.length === 3);
  const [, first, second] = receiver.heard;
  expect(second?.headers["webhook-id"]).toBe(first?.headers["webhook-id"]);
  expect(second?.body).toBe(first?.body);
  await row.getByText("Success").waitFor();
  await page.getByRole("button", { name: "Replay" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Send again" }).click();
  await page.getByRole("status").getByText("0 events are sent again.").waitFor();
  expect(chromium.complaints).toEqual([]);
});
