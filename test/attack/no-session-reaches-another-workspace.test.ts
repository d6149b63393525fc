/**
 * Every call of the console's table, by everybody who may not make it: without a session, from another site,
 * without the token, with another role, for a workspace of others, and with ids of others in a workspace of
 * one's own. A call without a row in BODIES fails.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ConsoleCall, MANAGERS } from "../../src/console/calls.ts";
import { type ConsoleParts, callTable } from "../../src/console/console.ts";
import type { Sessions } from "../../src/console/sessions.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { eventually } from "../rig/eventually.ts";
import { type Browser, person, signedIn } from "../rig/people.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Ids = {
  email: string;
  key: string;
  member: string;
  invitation: string;
  template: string;
  contact: string;
  automation: string;
};

const MARK = "none of your business";
const NO_PARTS = { serverSecret: "no secret at all", apiUrl: "", door: {} } as unknown as ConsoleParts;
const TABLE = callTable(NO_PARTS, {} as Sessions, { url: "" });
const POLICY = {};

/**
 * What of the other workspace stands for the parameter of a path; none: the path names nothing of a
 * workspace.
 */
const IDS: Record<string, keyof Ids> = {
  "keys/{id}": "key",
  "members/{id}": "member",
  "invitations/{id}": "invitation",
  "emails/{id}/raw": "email",
  "emails/{id}/html": "email",
  "emails/{id}/why": "email",
  "emails/{id}/again": "email",
  "emails/{id}/retry": "email",
  "templates/{id}/versions": "template",
  "templates/{id}/restore": "template",
  "contacts/{id}/consent": "contact",
  "automations/{id}/flow": "automation",
  "automations/{id}/versions/{version}": "automation",
};

/** A body that the call takes. */
const BODIES: Record<string, (audience: string) => object | undefined> = {
  "POST keys": () => ({ preset: "full" }),
  "DELETE keys/{id}": () => undefined,
  "POST members": () => ({ email: "mallory@example.com", role: "member" }),
  "PATCH members/{id}": () => ({ role: "owner" }),
  "DELETE members/{id}": () => undefined,
  "DELETE invitations/{id}": () => undefined,
  "POST caps/replay": () => ({ policy: POLICY }),
  "POST caps/simulate": () => ({ scenario: "no-such-scenario" }),
  "POST queue/retry": () => ({}),
  "POST queue/cancel": () => ({}),
  "POST emails/{id}/again": () => undefined,
  "POST emails/{id}/retry": () => undefined,
  "POST templates/{id}/restore": () => ({ version: 1 }),
  "POST templates/render": () => ({ html: "<p></p>" }),
  "POST contacts/import": (audience_id) => ({ audience_id, csv: "email\nmallory@example.com" }),
  "DELETE session": () => undefined,
  "DELETE sessions": () => undefined,
  "POST password": () => ({ password: "wrong", new_password: "another password" }),
  "POST totp/secret": () => undefined,
  "POST totp": () => ({ secret: "A".repeat(32), code: "000000", password: "wrong" }),
  "DELETE totp": () => ({ password: "wrong", code: "000000" }),
  "POST operator/workspaces/{id}/suspend": () => ({ reason: "spam" }),
  "POST operator/workspaces/{id}/resume": () => undefined,
  "POST operator/find": () => ({ what: "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90" }),
  "POST operator/queue/suspend": () => ({ destination: "example.net", reason: "slow" }),
  "POST operator/queue/resume": () => ({ destination: "example.net" }),
  "POST operator/queue/retry": () => ({}),
  "POST operator/queue/bounce": () => ({ destination: "example.net", reason: "gone" }),
  "POST operator/caps/{id}": () => ({ fixed: 1_000_000, reason: "mine" }),
  "POST session": () => ({ email: "a@example.com", password: "wrong" }),
  "POST reset": () => ({ email: "a@example.com" }),
  "POST reset/confirm": () => ({ token: "wrong", password: "another password" }),
  "POST invitation": () => ({ token: "wrong" }),
  "POST invitation/accept": () => ({ token: "wrong", password: "another password" }),
};

let engine: Engine;
let victim: TestWorkspace;
let victimAudience: string;
let own: TestWorkspace;
let ids: Ids;
let mallory: Browser;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
  [victim, own] = [await engine.workspace(), await engine.workspace()];
  victimAudience = (await victim.client.post<{ id: string }>("/audiences", { name: MARK })).body.id;
  ids = await fill(victim);
  mallory = await signedIn(engine.consoleUrl, engine.sql, own.id);
});
afterAll(() => engine.stop());

test("every call that changes something has a row", () => {
  const changing = TABLE.filter(({ method }) => method !== "GET").map(nameOf);
  expect(changing.sort()).toEqual(Object.keys(BODIES).sort());
  const named = TABLE.filter(({ scope, path }) => scope === "workspace" && path.includes("{"));
  expect(named.map(({ path }) => path).filter((path) => path !== "contacts/import/{id}")).toEqual(
    expect.arrayContaining(Object.keys(IDS)),
  );
});

test("without a session every call but the open ones is refused", async () => {
  for (const call of TABLE.filter(({ scope }) => scope !== "open"))
    expect(await ask(call, { cookie: "", "x-csrf-token": "x" }), nameOf(call)).toMatchObject({
      status: 401,
      body: { name: "not_signed_in" },
    });
  const byKey = await ask(callOf("GET keys"), { cookie: "", authorization: `Bearer ${victim.client.key}` });
  expect(byKey.status).toBe(401);
});

test.each([
  ["another origin", { origin: "https://evil.example" }],
  ["no origin", { origin: "" }],
  ["an origin that is hidden", { origin: "null" }],
  ["a page of another site", { "sec-fetch-site": "cross-site" }],
  ["another host below ours", { "sec-fetch-site": "same-site" }],
])("from %s nothing is changed", async (_, headers) => {
  for (const call of TABLE.filter(({ method }) => method !== "GET"))
    expect(await ask(call, headers), nameOf(call)).toMatchObject({
      status: 403,
      body: { name: "cross_site_request" },
    });
});

test.each([
  ["no token", ""],
  ["a wrong token", "wrong"],
])("with %s nothing is changed", async (_, token) => {
  for (const call of TABLE.filter(({ method, scope }) => method !== "GET" && scope !== "open"))
    expect(await ask(call, { "x-csrf-token": token }), nameOf(call)).toMatchObject({
      status: 403,
      body: { name: "cross_site_request" },
    });
});

test("who is no operator makes no call of operators", async () => {
  for (const call of TABLE.filter(({ scope }) => scope === "operator"))
    expect(await ask(call), nameOf(call)).toMatchObject({ status: 403, body: { name: "forbidden" } });
});

test("a member makes no call of owners and admins, and no such call of the API", async () => {
  const member = await signedIn(engine.consoleUrl, engine.sql, own.id, "member");
  const managed = TABLE.filter((call) => call.scope === "workspace" && !call.roles.includes("member"));
  expect(managed.length).toBeGreaterThan(4);
  for (const call of managed)
    expect(await ask(call, {}, member), nameOf(call)).toMatchObject({
      status: 403,
      body: { name: "forbidden" },
    });
  for (const call of managed) expect((call as { roles: readonly string[] }).roles).toEqual(MANAGERS);
  const { id } = (await own.client.post<{ id: string }>("/audiences", { name: "Ours" })).body;
  const contact = `contacts/${(await own.client.post<{ id: string }>("/contacts", { email: "a@example.net" })).body.id}`;
  for (const [method, path] of [
    ["DELETE", `v1/audiences/${id}`],
    ["DELETE", `v1/segments/${id}`],
    ["DELETE", `v1/${contact}?mode=erase`],
    ["DELETE", `v1/%63ontacts/${id}?mode=erase`],
    ["POST", "v1/webhooks"],
    ["POST", "v1//webhooks/"],
  ] as const)
    expect((await member.call(method, path, {})).status, path).toBe(path.includes("%63") ? 404 : 403);
  expect((await member.call("DELETE", `v1/${contact}`)).status).toBe(200);
});

test("a workspace of others is not there, whoever asks and however it is named", async () => {
  const before = await storedOf(victim.id);
  for (const call of TABLE.filter(({ scope }) => scope === "workspace")) {
    const byHeader = await ask(call, { "x-workspace": victim.id });
    expect(byHeader, nameOf(call)).toMatchObject({ status: 404, body: { name: "not_found" } });
    if (call.method !== "GET") continue;
    const byQuery = await mallory.get(`${pathOf(call)}?workspace=${victim.id}`, { "x-workspace": "" });
    expect(byQuery.status, nameOf(call)).toBe(404);
  }
  for (const path of ["v1/emails", `v1/emails/${ids.email}`, "v1/audiences", "live"])
    expect((await mallory.get(path, { "x-workspace": victim.id })).status, path).toBe(404);
  expect((await mallory.post("v1/emails", mail(), { "x-workspace": victim.id })).status).toBe(404);
  expect(await storedOf(victim.id)).toEqual(before);
});

test("ids of others are not there in a workspace of one's own", async () => {
  const before = await storedOf(victim.id);
  for (const call of TABLE.filter(({ scope, path }) => scope === "workspace" && path in IDS)) {
    const answer = await ask(call);
    const text = JSON.stringify(answer.body);
    expect(text, nameOf(call)).not.toContain(MARK);
    if (answer.status === 200) expect(answer.body, nameOf(call)).toMatchObject({ data: [] });
    else expect(answer.status, nameOf(call)).toBe(404);
  }
  const audience = { audience_id: victimAudience };
  expect((await mallory.get(`contacts/export?audience_id=${victimAudience}`)).status).toBe(404);
  expect((await mallory.post("contacts/import", { ...audience, csv: "email\na@example.net" })).status).toBe(
    404,
  );
  expect((await mallory.get(`v1/emails/${ids.email}`)).status).toBe(404);
  expect((await mallory.get(`v1/audiences/${victimAudience}`)).status).toBe(404);
  expect(await storedOf(victim.id)).toEqual(before);
});

function nameOf({ method, path }: ConsoleCall): string {
  return `${method} ${path}`;
}

function callOf(name: string): ConsoleCall {
  return TABLE.find((call) => nameOf(call) === name) as ConsoleCall;
}

/** With ids of the other workspace wherever a path names one. */
function pathOf({ path }: ConsoleCall): string {
  const named = IDS[path];
  return path.replace(/\{\w+\}/, named ? ids[named] : victim.id);
}

function ask(call: ConsoleCall, headers: Record<string, string> = {}, by = mallory) {
  return by.call(call.method, pathOf(call), BODIES[nameOf(call)]?.(victimAudience), headers);
}

async function fill({ client, id, keyId }: TestWorkspace): Promise<Ids> {
  const owner = await signedIn(engine.consoleUrl, engine.sql, id);
  const { id: email } = (await client.post<{ id: string }>("/emails", mail({ subject: MARK }))).body;
  await client.call("PUT", "/templates/theirs", { html: `<p>${MARK}</p>` });
  const { id: template } = (await client.get<{ id: string }>("/templates/theirs")).body;
  const consent = { source: MARK, captured_at: "2026-01-01T00:00:00Z" };
  const contact = await client.post<{ id: string }>(`/audiences/${victimAudience}/contacts`, {
    ...{ email: "victim@example.net", first_name: MARK, consent },
  });
  const invited = await owner.post<{ id: string }>("members", { email: "guest@example.com", role: "member" });
  const member = await person(engine.sql, id, "member");
  const automation = await client.post<{ id: string }>("/automations", {
    ...{ name: MARK, audience_id: victimAudience, event: "signed.up", steps: [] },
  });
  // requests are logged behind their answers: this is the last one
  await eventually(async () => {
    expect(
      await engine.sql`select from request where workspace_id = ${id} and route like '%/automations'`,
    ).toHaveLength(1);
  });
  return {
    automation: automation.body.id,
    email,
    key: keyId,
    template,
    contact: contact.body.id,
    invitation: invited.body.id,
    member: member.id,
  };
}

/** Every row of every table that belongs to the workspace. */
async function storedOf(workspace: string): Promise<Record<string, string[]>> {
  const { sql } = engine;
  const tables = await sql<{ name: string }[]>`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where a.attname = 'workspace_id' and c.relkind in ('r', 'p') and not c.relispartition
      and c.relnamespace = 'public'::regnamespace order by 1`;
  const stored: Record<string, string[]> = {};
  for (const { name } of tables) {
    const rows = await sql<{ row: string }[]>`
      select (to_jsonb(t) - 'last_used_at' - 'epoch')::text as row from ${sql(name)} t
      where workspace_id = ${workspace} order by 1`;
    stored[name] = rows.map(({ row }) => row);
  }
  return stored;
}
