/** Restoring a version of a template makes exactly that version again, with all that it had and had not. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { signedIn } from "../rig/people.ts";

const scene = sceneOf(openConsole);

inChromium("what was added since is gone, and what was taken away is back", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const bare = { name: "Order", html: "<p>Hello {{who}}</p>" };
  const { id } = (await client.post<{ id: string }>("/templates", bare)).body;
  const isOfVersion = (name: string) => name.endsWith("_at") || name === "version";
  const stored = async () =>
    JSON.stringify((await client.get(`/templates/${id}`)).body, (name, value) =>
      isOfVersion(name) ? undefined : value,
    );
  const first = await stored();
  const more = {
    ...{ name: "Confirmation", subject: "Your order", html: "<p>Bye</p>", text: "Bye" },
    ...{ from: "Shop <orders@example.com>", reply_to: "help@example.com" },
    variables: [{ key: "who", fallback_value: "friend" }],
  };
  await client.call("PATCH", `/templates/${id}`, more);
  const second = await stored();
  expect(second).not.toEqual(first);

  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/templates/${id}?tab=versions`);
  const restore = (version: number) =>
    page
      .getByRole("listitem")
      .filter({ hasText: `Version ${version}` })
      .getByRole("button", { name: "Restore" });
  await page.getByText("From: Shop <orders@example.com>").waitFor();
  await restore(1).click();
  await page.getByRole("button", { name: "Version 3" }).waitFor();
  expect(await stored()).toEqual(first);
  await restore(2).click();
  await page.getByRole("button", { name: "Version 4" }).waitFor();
  expect(await stored()).toEqual(second);
  expect(chromium.complaints).toEqual([]);
});

inChromium("as with every change of a template, on a plan that has templates", async () => {
  const { engine } = scene;
  const own = await engine.workspace();
  const { id } = (await own.client.post<{ id: string }>("/templates", { name: "Order", html: "a" })).body;
  const browser = await signedIn(engine.consoleUrl, engine.sql, own.id, "member");
  const restore = (version: number) => browser.post(`templates/${id}/restore`, { version });
  expect(await restore(2)).toMatchObject({ status: 404, body: { name: "not_found" } });
  expect(await restore(1)).toMatchObject({ status: 200, body: { id, restored: 1 } });
  await engine.sql`update workspace set plan = 'free' where id = ${own.id}`;
  expect(await restore(1)).toMatchObject({ status: 402, body: { name: "plan_required" } });
  await engine.keyring.suspend(own.id, "a test");
  expect(await restore(1)).toMatchObject({ status: 403, body: { name: "workspace_suspended" } });
});
