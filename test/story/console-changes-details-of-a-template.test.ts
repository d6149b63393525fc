/** The name, the sender and the plain text of a template: what is left as it was is not sent. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

const scene = sceneOf(openConsole);

inChromium("what was changed is saved, and nothing else", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const given = { name: "Order", subject: "Your order", html: "<p>Hello</p>" };
  const { id } = (await client.post<{ id: string }>("/templates", given)).body;
  const stored = async () => (await client.get(`/templates/${id}`)).body;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
  const save = async (fields: Record<string, string>) => {
    await page.getByRole("button", { name: "Details" }).click();
    const dialog = page.getByRole("dialog");
    for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label).fill(value);
    await dialog.getByRole("button", { name: "Save" }).click();
    return dialog;
  };

  await (await save({ Name: "Order confirmation" })).waitFor({ state: "detached" });
  await page.getByRole("heading", { level: 1, name: "Order confirmation" }).waitFor();
  expect(await stored()).toMatchObject({ ...given, name: "Order confirmation", from: null, text: null });

  const more = { From: "Shop <orders@example.com>", "Plain text": "Hello\nBye" };
  await (await save(more)).waitFor({ state: "detached" });
  expect(await stored()).toMatchObject({ from: more.From, text: more["Plain text"] });
  await client.call("PATCH", `/templates/${id}`, { text: "Hello\r\nBye" });
  await page.reload();
  await (await save({ Name: "Order" })).waitFor({ state: "detached" });
  expect(await stored()).toMatchObject({ name: "Order", text: "Hello\r\nBye" });

  const refused = await save({ From: "nobody" });
  await refused.getByRole("alert").waitFor();
  await page.keyboard.press("Escape");
  expect(await stored()).toMatchObject({ from: more.From });
  expect(chromium.complaints).toEqual([]);
});
