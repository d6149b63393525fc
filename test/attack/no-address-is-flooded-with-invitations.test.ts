/** Invitations are mailed by the operator's sender, to whatever address an admin names. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type Browser, signedIn } from "../rig/people.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

let engine: Engine;
let workspace: TestWorkspace;
let admin: Browser;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
  workspace = await engine.workspace();
  admin = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "admin");
});
afterAll(() => engine.stop());

test("one address is mailed three in an hour, also when each replaces or follows a withdrawn one", async () => {
  const email = "victim@example.org";
  const statuses: number[] = [];
  for (let n = 0; n < 3; n++) {
    const { status, body } = await invite(n === 1 ? email.toUpperCase() : email);
    statuses.push(status);
    if (n === 0) await admin.call("DELETE", `invitations/${body.id}`);
  }
  const atOnce = await Promise.all([invite(email), invite(email), invite(email)]);
  expect(statuses).toEqual([201, 201, 201]);
  for (const refused of atOnce) {
    expect(refused).toMatchObject({ status: 429, body: { name: "rate_limit_exceeded" } });
    expect(refused.body.message).toMatch(/^victim@example\.org was invited three times .* 60 minutes\.$/);
  }
  expect(await mailed()).toBe(3);
  // and others are invited as before
  expect((await invite("colleague@example.org")).status).toBe(201);
});

test("a workspace mails a hundred in a day, withdrawn ones among them", async () => {
  const before = await mailed();
  let last = { status: 201, body: {} as Invited };
  for (let n = before; n <= 100 && last.status === 201; n++) {
    last = await invite(`person${n}@example.org`);
    if (last.status === 201) await admin.call("DELETE", `invitations/${last.body.id}`);
  }
  expect(last.status).toBe(429);
  expect(last.body.message).toMatch(/100 invitations within a day\. Try again in 24 hours\.$/);
  expect(await mailed()).toBe(100);
});

type Invited = { id: string; message?: string };

function invite(email: string) {
  return admin.post<Invited>("members", { email, role: "member" });
}

async function mailed(): Promise<number> {
  const [row] = await engine.sql<{ count: number }[]>`
    select count(*)::int from email where workspace_id = ${workspace.id}`;
  return row?.count ?? 0;
}
