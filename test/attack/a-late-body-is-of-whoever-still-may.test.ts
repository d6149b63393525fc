/**
 * A request has a minute for its body. Whoever is about to lose a role could begin changes, and send their
 * bodies once it is taken: what counts is who they are when the body has come.
 */
import { request } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { eventually } from "../rig/eventually.ts";
import { Browser, person, signedIn } from "../rig/people.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const ROOM_BYTES = 1024 * 1024;
/** Has room whatever the witness sends, who has none as soon as some of it has been read. */
const LATE_BYTES = 300 * 1024;
const WITNESS_BYTES = 400 * 1024;

let engine: Engine;
let witness: Browser;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], {
    settings: { CONSOLE_PORT: "0", BODY_BYTES_IN_FLIGHT_MAX: String(ROOM_BYTES) },
  });
  witness = await signedIn(engine.consoleUrl, engine.sql, (await engine.workspace()).id);
});
afterAll(() => engine.stop());

type Asked = { id: string; workspace: TestWorkspace };
const LOSSES = {
  "a role": ({ id, workspace }: Asked) =>
    engine.sql`update member set role = 'member' where account_id = ${id} and workspace_id = ${workspace.id}`,
  "a membership": ({ id, workspace }: Asked) =>
    engine.sql`delete from member where account_id = ${id} and workspace_id = ${workspace.id}`,
  "a session": ({ id }: Asked) => engine.sql`delete from session where account_id = ${id}`,
  "an operator's flag": ({ id }: Asked) =>
    engine.sql`update account set is_operator = false where id = ${id}`,
  "a workspace": ({ workspace }: Asked) =>
    engine.sql`update workspace set suspended_at = now() where id = ${workspace.id}`,
};

const HOOK = { endpoint: "https://example.com/hook", events: ["email.sent"] };
const FIND = { what: newId(Date.now()) };

test.each([
  ["a role", "POST", "keys", { preset: "full" }, 403, "forbidden"],
  ["a role", "POST", "members", { email: "x@example.com", role: "admin" }, 403, "forbidden"],
  ["a role", "POST", "v1/webhooks", HOOK, 403, "forbidden"],
  ["a membership", "POST", "keys", { preset: "full" }, 404, "not_found"],
  ["a membership", "POST", "v1/audiences", { name: "Late" }, 404, "not_found"],
  ["a session", "POST", "keys", { preset: "full" }, 401, "not_signed_in"],
  ["a session", "POST", "v1/audiences", { name: "Late" }, 401, "not_signed_in"],
  ["an operator's flag", "POST", "operator/find", FIND, 403, "forbidden"],
  ["a workspace", "POST", "v1/audiences", { name: "Late" }, 403, "workspace_suspended"],
] as const)("who has lost %s meanwhile: %s %s %s", async (lost, method, path, body, status, name) => {
  const workspace = await engine.workspace();
  const { id, email } = await person(engine.sql, workspace.id, "admin");
  await engine.sql`update account set is_operator = true where id = ${id}`;
  const browser = new Browser(engine.consoleUrl);
  await browser.signIn(email);
  const late = begin(browser, method, path, body);
  await eventually(async () => {
    const { status: seen } = await witness.post("keys", `{}${" ".repeat(WITNESS_BYTES)}`);
    expect(seen).toBe(503);
  });
  await LOSSES[lost]({ id, workspace });
  expect(await late.end()).toMatchObject({ status, body: { name } });
  const made = await engine.sql`
    select from api_key where workspace_id = ${workspace.id} and name = 'Full access'
    union all select from webhook where workspace_id = ${workspace.id}
    union all select from invitation where workspace_id = ${workspace.id}
    union all select from audience where workspace_id = ${workspace.id} and name = 'Late'`;
  expect(made).toHaveLength(0);
});

/** All of a change but its last byte. */
function begin({ url, cookie, csrf, workspace }: Browser, method: string, path: string, body: object) {
  const text = JSON.stringify(body).padStart(LATE_BYTES);
  const asking = request(`${url}/console/call/${path}`, {
    method,
    headers: {
      ...{ origin: url, cookie, "x-csrf-token": csrf, "x-workspace": workspace },
      ...{ "content-type": "application/json", "content-length": text.length },
    },
  });
  const answered = new Promise<{ status: number; body: unknown }>((resolve, reject) => {
    asking.once("error", reject);
    asking.once("response", async (response) => {
      const chunks: Buffer[] = await response.toArray();
      resolve({ status: response.statusCode ?? 0, body: JSON.parse(Buffer.concat(chunks).toString()) });
    });
  });
  asking.write(text.slice(0, -1));
  return {
    end() {
      asking.end(text.slice(-1));
      return answered;
    },
  };
}
