/**
 * In the page: an owner signs in, makes a key from a preset, uses it from Node, sees its last use, and
 * revokes it. The browser itself gets nowhere with a key.
 */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);

function send(key: string): Promise<Response> {
  return fetch(`${scene.engine.url}/api/v1/emails`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(mail()),
  });
}

inChromium("a key is made, used, watched and revoked", async () => {
  const page = await scene.chromium.pageOf(scene.engine, scene.workspace.id);
  await page.goto(`${scene.engine.consoleUrl}/console/keys`);
  await page.getByRole("button", { name: "Create API key" }).click();
  await page.getByLabel("Name").fill("shop backend");
  await page.getByLabel("Preset").selectOption("sending");
  await page.getByRole("button", { name: "Create key" }).click();
  const key = await page.getByRole("textbox", { name: "shop backend" }).inputValue();
  expect(key).toMatch(/^pr_live_[A-Za-z0-9]{32}$/);
  await page.getByRole("button", { name: "I have stored it" }).click();
  expect(await page.content()).not.toContain(key);

  const row = page.getByRole("row").filter({ hasText: "shop backend" });
  await row.getByText("never").waitFor();
  expect((await send(key)).status).toBe(200);
  // uses are written every few seconds, and the page looks every fifteen
  await row.getByText("never").waitFor({ state: "detached", timeout: 45_000 });

  await page.getByRole("button", { name: "Revoke shop backend" }).click();
  await page.getByRole("button", { name: "Revoke the key" }).click();
  await row.waitFor({ state: "detached" });
  const refused = await send(key);
  expect([refused.status, ((await refused.json()) as { name: string }).name]).toEqual([
    401,
    "invalid_api_key",
  ]);
  await page.getByLabel("Show revoked keys").check();
  await row.getByText("Revoked").waitFor();
  expect(scene.chromium.complaints).toEqual([]);
});

inChromium("a page of the API's own origin may not call it", async () => {
  const page = await scene.chromium.page();
  await page.goto(`${scene.engine.url}/healthz`);
  const answer = await page.evaluate(async (key) => {
    const headers = { authorization: `Bearer ${key}` };
    return (await (await fetch("/api/v1/emails", { headers })).json()) as { name: string };
  }, scene.workspace.client.key);
  expect(answer.name).toBe("browser_request_blocked");
});

inChromium("a member sees keys, and can neither make nor revoke one", async () => {
  const page = await scene.chromium.pageOf(scene.engine, scene.workspace.id, "member");
  await page.goto(`${scene.engine.consoleUrl}/console/keys`);
  await page.getByText("Only owners and admins create and revoke keys").waitFor();
  expect(await page.getByRole("button", { name: "Create API key" }).isDisabled()).toBe(true);
  expect(await page.getByRole("button", { name: /^Revoke/ }).count()).toBe(0);
  const status = await page.evaluate(
    async ([workspaceId, id]) => {
      const session = (await (await fetch("/console/call/session")).json()) as { csrf: string };
      const headers = { "x-workspace": workspaceId as string, "x-csrf-token": session.csrf };
      return (await fetch(`/console/call/keys/${id}`, { method: "DELETE", headers })).status;
    },
    [scene.workspace.id, scene.workspace.keyId],
  );
  expect(status).toBe(403);
  expect((await send(scene.workspace.client.key)).status).toBe(200);
});
