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

  await (await save({ From: "" })).waitFor({ state: "detached" });
  expect(await stored()).toMatchObject({ from: null, name: "Order" });
  await (await save({ From: more.From })).waitFor({ state: "detached" });

  const refused = await save({ From: "nobody" });
  await refused.getByRole("alert").waitFor();
  await page.keyboard.press("Escape");
  expect(await stored()).toMatchObject({ from: more.From });
  expect(chromium.complaints).toEqual([]);
});

inChromium(
  "a fault in the variables of a preview is told beside them, and marks no line of the HTML",
  async () => {
    const { engine, workspace, chromium } = scene;
    const given = { name: "Order", subject: "Your order", html: "<p>Hello</p>\n<p>{{name}}</p>\n<p>Bye</p>" };
    const { id } = (await workspace.client.post<{ id: string }>("/templates", given)).body;
    const page = await chromium.pageOf(engine, workspace.id);
    await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
    const [source, preview] = [
      page.locator(".halves > .card").first(),
      page.locator(".halves > .card").last(),
    ];
    for (const [typed, told] of [
      ['{\n "name": "Ada",\n}', "The field “Variables of the preview” is not valid JSON:"],
      ["[1]", "The field “Variables of the preview” must be a JSON object"],
    ] as const) {
      await page.getByLabel("Variables of the preview").fill(typed);
      await preview.getByRole("alert").getByText(told).waitFor();
      expect(await source.locator("mark, [role=alert]").count()).toBe(0);
    }
    await page.getByLabel("Variables of the preview").fill("{}");
    await preview.getByRole("alert").waitFor({ state: "detached" });
    await page.getByLabel("HTML", { exact: true }).fill("<p>\n{{ name | }}");
    await source.getByRole("alert").waitFor();
    expect(await source.locator("mark").textContent()).toBe("2\n");
    expect(chromium.complaints).toEqual([]);
  },
);
