/**
 * In the page: an owner signs in, makes a key from a preset, uses it from Node, sees its last use, and
 * revokes it. The browser itself gets nowhere with a key.
 */
import { randomUUID } from "node:crypto";
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

type Wanted = { preset: string; boxes?: readonly string[]; may: Record<string, boolean | number> };

/** Of the audience People alone; what a key is refused has the status of the refusal. */
const KEYS: Record<string, Wanted> = {
  "does everything": { preset: "full", may: { send: true, list: true, add: true, addElsewhere: true } },
  "adds people": {
    ...{ preset: "audience", boxes: ["People"] },
    may: { send: 403, list: 403, add: true, addElsewhere: 404 },
  },
  "only sends": { preset: "sending", may: { send: true, list: 403, add: 403, addElsewhere: 403 } },
  "only reads": {
    ...{ preset: "own", boxes: ["contacts:read", "People"] },
    may: { send: 403, list: true, add: 403, addElsewhere: 403 },
  },
};

async function triedWith(key: string, [here, elsewhere]: readonly [string, string]) {
  const contacts = (id: string) => `audiences/${id}/contacts`;
  const email = `${randomUUID()}@example.net`;
  const ask = async (method: string, path: string, body?: object) => {
    const { ok, status } = await fetch(`${scene.engine.url}/api/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
    return ok || status;
  };
  return {
    send: await ask("POST", "emails", mail()),
    list: await ask("GET", contacts(here)),
    add: await ask("POST", contacts(here), { email }),
    addElsewhere: await ask("POST", contacts(elsewhere), { email }),
  };
}

inChromium("each preset, and permissions of one's own, make a key that may just that", async () => {
  const { engine, chromium } = scene;
  const own = await engine.workspace();
  const audience = async (name: string) =>
    (await own.client.post<{ id: string }>("/audiences", { name })).body.id;
  const audiences = [await audience("People"), await audience("Others")] as const;
  const page = await chromium.pageOf(engine, own.id, "admin");
  await page.goto(`${engine.consoleUrl}/console/keys`);
  const made: [name: string, key: string][] = [];
  for (const [name, { preset, boxes = [], may }] of Object.entries(KEYS)) {
    await page.getByRole("button", { name: "Create API key" }).click();
    await page.getByLabel("Name").fill(name);
    await page.getByLabel("Preset").selectOption(preset);
    for (const box of boxes) await page.getByRole("checkbox", { name: box, exact: true }).check();
    await page.getByRole("button", { name: "Create key" }).click();
    const key = await page.getByRole("textbox", { name }).inputValue();
    await page.getByRole("button", { name: "I have stored it" }).click();
    expect(await triedWith(key, audiences), name).toEqual(may);
    made.push([name, key]);
  }
  await page.goto(`${engine.consoleUrl}/console/emails`);
  await page.getByLabel("Key").focus();
  const suggested = page.locator("datalist option").filter({ hasText: "only sends (pr_live_" });
  await suggested.waitFor({ state: "attached" });
  await page.getByLabel("Key").fill((await suggested.getAttribute("value")) ?? "");
  await page.getByLabel("Key").press("Enter");
  await expect.poll(() => page.locator("tbody tr").count()).toBe(1);
  await page.goto(`${engine.consoleUrl}/console/keys`);
  for (const [name, key] of made) {
    const row = page.getByRole("row").filter({ hasText: name });
    await row.getByText("never").waitFor({ state: "detached", timeout: 45_000 });
    await page.getByRole("button", { name: `Revoke ${name}` }).click();
    await page.getByRole("button", { name: "Revoke the key" }).click();
    await row.waitFor({ state: "detached" });
    const all = await triedWith(key, audiences);
    expect(all, name).toEqual({ send: 401, list: 401, add: 401, addElsewhere: 401 });
  }
  expect(chromium.complaints).toEqual([]);
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
