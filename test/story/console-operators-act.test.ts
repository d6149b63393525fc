/**
 * What operators do on the screens: they suspend a workspace or a destination with a reason, find a mail, and
 * retry and bounce mail.
 */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";
import { openStage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const HOUR_MS = 3_600_000;
const scene = sceneOf(async () => {
  const stage = await openStage();
  const opened = await openConsole(["api", "deliver"], stage);
  return {
    ...opened,
    async close() {
      await opened.close();
      await stage.close();
    },
  };
});

async function operatorPage(path: string) {
  const { engine, workspace, chromium } = scene;
  const { id, email } = await person(engine.sql, workspace.id);
  await engine.sql`update account set is_operator = true where id = ${id}`;
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/${path}`);
  await signIn(page, email);
  return page;
}

inChromium("a workspace is suspended with a reason, which is shown and logged, and resumed", async () => {
  const { engine, chromium } = scene;
  const other = await engine.workspace();
  await engine.sql`update workspace set name = 'Lottery' where id = ${other.id}`;
  const page = await operatorPage("operator?name=Lottery");
  const row = page.locator("tbody tr").filter({ hasText: "Lottery" });
  await row.getByRole("button", { name: "Suspend" }).click();
  const dialog = page.getByRole("dialog", { name: "Suspend Lottery?" });
  await dialog.getByLabel("Reason").fill("phishing, report 17");
  await dialog.getByRole("button", { name: "Suspend" }).click();
  await dialog.waitFor({ state: "detached" });
  await row.getByText("phishing, report 17").waitFor();
  await page.getByRole("tab", { name: "Audit log" }).click();
  const change = page.locator("tbody tr").filter({ hasText: "Suspended a workspace" });
  await change.getByText("phishing, report 17").filter({ visible: true }).waitFor();
  await page.getByRole("tab", { name: "Workspaces" }).click();
  await row.getByRole("button", { name: "Resume" }).click();
  const again = page.getByRole("dialog", { name: "Resume Lottery?" });
  await again.getByLabel("Reason").fill("they have cleaned up");
  await again.getByRole("button", { name: "Resume" }).click();
  await row.getByRole("button", { name: "Suspend" }).waitFor();
  await page.getByRole("tab", { name: "Audit log" }).click();
  const resumed = page.locator("tbody tr").filter({ hasText: "Resumed a workspace" });
  await resumed.getByText("they have cleaned up").filter({ visible: true }).waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("deferred mail to a destination is bounced, and found by its Message-ID", async () => {
  const { engine, workspace, chromium } = scene;
  const to = "defer-451@slow.example.net";
  const { body } = await workspace.client.post<{ id: string }>("/emails", mail({ to }));
  const status = async () =>
    (await workspace.client.get<{ status: string }>(`/emails/${body.id}`)).body.status;
  await expect.poll(status, { timeout: 20_000 }).toBe("deferred");
  const page = await operatorPage("queue");
  const row = page.locator("tbody tr").filter({ hasText: "slow.example.net" });
  await row.getByRole("button", { name: "Bounce" }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("it has closed");
  await page.getByRole("dialog").getByRole("button", { name: "Bounce it" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  expect(await status()).toBe("bounced");
  await page.goto(`${engine.consoleUrl}/console/operator?tab=find`);
  await page.getByLabel("Message-ID or id").fill(`<${body.id}@example.com>`);
  await page.getByRole("button", { name: "Find" }).click();
  await page.locator("tbody tr").filter({ hasText: body.id }).getByText("Bounced", { exact: true }).waitFor();
  await page.getByLabel("Workspace", { exact: true }).fill("no such name");
  await page.getByLabel("Workspace", { exact: true }).press("Enter");
  await page.getByRole("heading", { name: "No e-mails match this filter" }).waitFor();
  await page.getByRole("button", { name: "Remove the filter" }).click();
  await page.getByRole("link", { name: body.id }).click();
  await page.getByText("it has closed").first().waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("a destination is suspended until a time, and resumed; its mail is tried again", async () => {
  const { engine, workspace, chromium } = scene;
  const to = "defer-451@held.example.net";
  const { body } = await workspace.client.post<{ id: string }>("/emails", mail({ to }));
  const nextAttempt = async () =>
    Date.parse(
      (await workspace.client.get<{ next_attempt_at: string }>(`/emails/${body.id}`)).body.next_attempt_at,
    );
  await expect.poll(nextAttempt, { timeout: 20_000 }).toBeGreaterThan(Date.now());
  const page = await operatorPage("queue");
  const row = page.locator("tbody tr").filter({ has: page.getByRole("button", { name: "Retry" }) });
  await row.getByRole("button", { name: "Suspend" }).click();
  const dialog = page.getByRole("dialog", { name: "Suspend held.example.net" });
  await dialog.getByLabel("Hours").fill("2");
  await dialog.getByLabel("Reason").fill("they move their servers");
  const asked = Date.now();
  await dialog.getByRole("button", { name: "Suspend" }).click();
  await dialog.waitFor({ state: "detached" });
  const hold = page.locator(".card").filter({ hasText: "Suspended or slowed down" }).locator("tbody tr");
  await hold.getByText("held.example.net").waitFor();
  await hold.getByText("they move their servers").filter({ visible: true }).waitFor();
  const until = Date.parse((await hold.locator("time").getAttribute("datetime")) ?? "") - asked;
  expect(until / HOUR_MS).toBeCloseTo(2, 1);

  await hold.getByRole("button", { name: "Resume" }).click();
  await hold.waitFor({ state: "detached" });
  const retried = page.waitForResponse("**/call/queue/retry");
  await row.getByRole("button", { name: "Retry" }).click();
  expect(await (await retried).json()).toMatchObject({ retried: 1 });
  await page.getByRole("status").getByText("1 e-mail to held.example.net is tried now.").waitFor();
  expect(await nextAttempt()).toBeLessThanOrEqual(Date.now());
  await page.goto(`${engine.consoleUrl}/console/operator?tab=changes`);
  for (const [words, detail] of [
    ["Suspended a destination", "they move their servers"],
    ["Resumed a destination", "held.example.net"],
  ] as const)
    await page
      .locator("tbody tr")
      .filter({ hasText: words })
      .getByText(detail)
      .filter({ visible: true })
      .waitFor();
  expect(chromium.complaints).toEqual([]);
});
