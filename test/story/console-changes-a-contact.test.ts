/** What is left as it was is not sent: others may have changed it, and a tag may have a comma in it. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

const scene = sceneOf(openConsole);

inChromium("the field that was typed into, and no other", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const made = async (path: string, body: object) => (await client.post<{ id: string }>(path, body)).body.id;
  const audience = await made("/audiences", { name: "Customers" });
  const given = { email: "ada@example.com", first_name: "Ada", tags: ["Paris, France", "vip"] };
  const path = `/audiences/${audience}/contacts`;
  const id = await made(path, given);
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console${path}/${id}`);
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Last name").fill("Lovelace");
  await client.call("PATCH", `${path}/${id}`, { first_name: "Augusta", properties: { city: "London" } });
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  expect((await client.get(`${path}/${id}`)).body).toMatchObject({
    ...{ first_name: "Augusta", last_name: "Lovelace", tags: given.tags, properties: { city: "London" } },
  });

  await page.getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Properties").fill("{city}");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("The field “Properties” is not valid JSON:").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("button", { name: "Edit" }).click();
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(chromium.complaints).toEqual([]);
});
