/** An operator sees all numbers of an override, and changes one without losing the others. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";

const scene = sceneOf(openConsole);

inChromium("the number of an hour is shown and kept, and a time alone ends nothing", async () => {
  const { engine, workspace, chromium } = scene;
  const { email, id } = await person(engine.sql, workspace.id);
  await engine.sql`update account set is_operator = true where id = ${id}`;
  const override = async () =>
    (
      await engine.sql<{ override: object | null }[]>`
      select override from capacity where workspace_id = ${workspace.id}`
    )[0]?.override;
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console`);
  await signIn(page, email);
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  await page.goto(`${engine.consoleUrl}/console/caps`);
  const set = async (fields: Record<string, string>) => {
    await page.getByRole("button", { name: "Override" }).click();
    const dialog = page.getByRole("dialog");
    for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label).fill(value);
    await dialog.getByLabel("Reason").fill("a known sender");
    await dialog.getByRole("button", { name: "Set" }).click();
    return dialog;
  };

  await (await set({ "Fixed an hour": "700" })).waitFor({ state: "detached" });
  await page.getByText("exactly 700 an hour").waitFor();
  await (await set({ "Fixed a day": "5000" })).waitFor({ state: "detached" });
  await page.getByText("exactly 5,000 a day, exactly 700 an hour").waitFor();
  expect(await override()).toMatchObject({ fixed: 5_000, fixedHour: 700 });

  const end = new Date("2098-06-01T10:00").getTime();
  await (await set({ "Fixed an hour": "800", Until: "2098-06-01T10:00" })).waitFor({ state: "detached" });
  await page.getByText("exactly 5,000 a day, exactly 800 an hour, until ").waitFor();
  expect(await override()).toMatchObject({ fixed: 5_000, fixedHour: 800, until: end });
  await (await set({ "Fixed an hour": "700" })).waitFor({ state: "detached" });
  await page.getByText("exactly 5,000 a day, exactly 700 an hour, until ").waitFor();
  expect(await override()).toMatchObject({ fixed: 5_000, fixedHour: 700, until: end });

  const refused = await set({ "Fixed a day": "", "Fixed an hour": "", Until: "2099-01-01T10:00" });
  await refused.getByRole("alert").getByText("Give one of the numbers at least.").waitFor();
  expect(await override()).toMatchObject({ fixed: 5_000, fixedHour: 700 });
  await refused.getByLabel("End the override that there is").check();
  await refused.getByRole("button", { name: "End the override" }).click();
  await refused.waitFor({ state: "detached" });
  await page.getByText("exactly 700 an hour").waitFor({ state: "detached" });
  expect(await override()).toBeNull();
  expect(chromium.complaints).toEqual([]);
});
