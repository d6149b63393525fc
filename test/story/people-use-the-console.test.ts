/** Over plain HTTP: signing in, a key from each preset, the API by session, roles, and signing out. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser, PASSWORD, person, type SessionBody, signedIn } from "../rig/people.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
  workspace = await engine.workspace();
});
afterAll(() => engine.stop());

test("a person signs in, is known by the session, and signs out", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const browser = new Browser(engine.consoleUrl);
  expect((await browser.get("session")).status).toBe(401);
  const wrong = await browser.post("session", { email, password: `${PASSWORD}!` });
  expect(wrong).toMatchObject({ status: 401, body: { name: "invalid_credentials" } });
  expect((await browser.signIn(email.toUpperCase())).status).toBe(200);
  const { body } = await browser.get<SessionBody>("session");
  expect(body).toMatchObject({
    object: "session",
    account: { email, is_operator: false, has_totp: false },
    workspaces: [{ id: workspace.id, role: "owner", plan: "pro", is_suspended: false }],
    development: false,
    demo_key: null,
  });
  const kept = browser.cookie;
  expect((await browser.call("DELETE", "session")).body).toEqual({ object: "session", deleted: true });
  expect((await browser.get("session", { cookie: kept })).status).toBe(401);
});

test("every preset makes a key that works until it is revoked", async () => {
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "admin");
  const { body: list } = await browser.get<{ presets: { id: string; permissions: string[] }[] }>("keys");
  expect(list.presets.map(({ id }) => id)).toEqual(["full", "audience", "sending"]);
  for (const { id: preset, permissions } of list.presets) {
    const made = await browser.post<{ id: string; key: string }>("keys", { name: preset, preset });
    expect(made).toMatchObject({ status: 201, body: { object: "api_key", permissions } });
    const { id, key } = made.body;
    const call = () =>
      fetch(`${engine.url}/api/v1/audiences`, { headers: { authorization: `Bearer ${key}` } });
    expect((await call()).status).toBe(preset === "sending" ? 403 : 200);
    await expect.poll(async () => (await keyOf(browser, id)).last_used_at).not.toBeNull();
    expect(JSON.stringify(await keyOf(browser, id))).not.toContain(key);
    const revoked = await browser.call("DELETE", `keys/${id}`);
    expect(revoked).toMatchObject({ status: 200, body: { revoked: true } });
    expect((await call()).status).toBe(401);
  }
});

test("a field that a call does not know is named", async () => {
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "admin");
  const { status, body } = await browser.post("keys", { name: "a", preset: "full", presets: "full" });
  expect(status).toBe(422);
  expect(body).toMatchObject({
    name: "validation_error",
    message: "The `presets` field is unknown to this call.",
  });
});

test("the API answers a session as it answers a key", async () => {
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "member");
  const sent = await browser.post<{ id: string }>("v1/emails", mail({ subject: "by session" }));
  expect(sent.status).toBe(200);
  const bySession = await browser.get(`v1/emails/${sent.body.id}`);
  const byKey = await workspace.client.get(`/emails/${sent.body.id}`);
  expect(bySession.body).toEqual(byKey.body);
  const refused = await browser.post("v1/emails", { to: "x" });
  const refusedKey = await workspace.client.post("/emails", { to: "x" });
  expect([refused.status, refused.body]).toEqual([refusedKey.status, refusedKey.body]);
  const twice = { "idempotency-key": "once" };
  const first = await browser.post("v1/emails", mail(), twice);
  expect((await browser.post("v1/emails", mail(), twice)).body).toEqual(first.body);
  expect((await browser.get("v1/nothing")).status).toBe(404);
});

test("a suspended workspace is read and not changed", async () => {
  const own = await engine.workspace();
  const browser = await signedIn(engine.consoleUrl, engine.sql, own.id);
  await engine.keyring.suspend(own.id, "a test");
  expect((await browser.get("v1/emails")).status).toBe(200);
  expect(await browser.post("v1/emails", mail())).toMatchObject({
    status: 403,
    body: { name: "workspace_suspended" },
  });
});

test("mail sent in the console counts for the quota, and is refused beyond it", async () => {
  const small = await engine.workspace("free", { emails_per_day: 2 });
  const browser = await signedIn(engine.consoleUrl, engine.sql, small.id);
  expect((await small.client.post("/emails", mail())).status).toBe(200);
  expect((await browser.post("v1/emails", mail())).status).toBe(200);
  expect((await browser.post("v1/emails", mail())).body).toMatchObject({ name: "quota_exceeded" });
  expect((await small.client.post("/emails", mail())).body).toMatchObject({ name: "quota_exceeded" });
});

async function keyOf(browser: Browser, id: string): Promise<{ last_used_at: string | null }> {
  const { body } = await browser.get<{ data: { id: string; last_used_at: string | null }[] }>("keys");
  const found = body.data.find((one) => one.id === id);
  if (!found) throw new Error(`no key ${id} is listed`);
  return found;
}
