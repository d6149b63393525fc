/** Only the person undoes an unsubscription, so one click does not make it; asking them again says so. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

const scene = sceneOf(openConsole);

inChromium("unsubscribing is confirmed, and asking again tells that the person decides", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const made = async (path: string, body: object) => (await client.post<{ id: string }>(path, body)).body.id;
  const path = `/audiences/${await made("/audiences", { name: "Customers" })}/contacts`;
  const id = await made(path, { email: "ada@example.com" });
  const status = async () => (await client.get<{ status: string }>(`${path}/${id}`)).body.status;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console${path}/${id}`);
  const dialog = page.getByRole("dialog");

  await page.getByRole("button", { name: "Unsubscribe" }).click();
  await dialog.getByText("Only the person can undo that").waitFor();
  expect(await status()).toBe("subscribed");
  await dialog.getByRole("button", { name: "Unsubscribe" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(await status()).toBe("unsubscribed");

  await page.getByRole("button", { name: "Ask to subscribe again" }).click();
  await dialog.getByRole("button", { name: "Send the mail" }).click();
  await page.getByRole("status").getByText("A mail asks ada@example.com to confirm.").waitFor();
  expect(await status()).toBe("unsubscribed");
  const { sql } = engine;
  const [asked] = await sql`select asked from confirmation where contact_id = ${id}`;
  expect(asked).toMatchObject({ asked: 1 });
  expect(chromium.complaints).toEqual([]);
});
