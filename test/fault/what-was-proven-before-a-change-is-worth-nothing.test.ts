/**
 * Between a check and what it allows others change the record: a password is replaced, a role is taken. What
 * was proven before opens no session, sets no password, and invites nobody.
 */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { findAccountById, setPassword } from "../../src/record/accounts/accounts.ts";
import { changeMember, insertInvitation } from "../../src/record/accounts/members.ts";
import { beginSession } from "../../src/record/accounts/sessions.ts";
import type { PersonRole } from "../../src/rules/people.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { person } from "../rig/people.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const EVER = new Date(0);

let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  engine = await startEngine(["api"]);
  workspace = await engine.workspace();
});
afterAll(() => engine.stop());

test("whoever knew the former password gets no session, and sets no other one", async () => {
  const { id } = await person(engine.sql, workspace.id);
  const { passwordHash: former = "" } = (await findAccountById(engine.sql, id)) ?? {};
  const begin = (passwordHash: string) =>
    beginSession(
      engine.sql,
      { hash: randomBytes(32), accountId: id, passwordHash, replaced: null },
      { begunSince: EVER, usedSince: EVER },
      5,
      new Date(),
    );
  expect(await begin(former)).toBe(true);
  expect(await setPassword(engine.sql, id, "new", { former: null, sessionKept: null })).toBe(true);
  expect(await begin(former)).toBe(false);
  expect(await setPassword(engine.sql, id, "other", { former, sessionKept: null })).toBe(false);
  expect((await findAccountById(engine.sql, id))?.passwordHash).toBe("new");
  const [{ sessions }] = (await engine.sql`
    select count(*)::int as sessions from session where account_id = ${id}`) as unknown as [
    { sessions: number },
  ];
  expect(sessions).toBe(0);
});

test("an admin who is removed meanwhile invites nobody", async () => {
  const owner = await person(engine.sql, workspace.id);
  const admin = await person(engine.sql, workspace.id, "admin");
  expect(await invite("a@example.com", "admin", admin.id)).toBe("changed");
  expect(await changeMember(engine.sql, workspace.id, admin.id, "member", owner.id)).toBe("changed");
  expect(await invite("b@example.com", "admin", admin.id)).toBe("not allowed");
  expect(await changeMember(engine.sql, workspace.id, admin.id, null, owner.id)).toBe("changed");
  expect(await invite("c@example.com", "member", admin.id)).toBe("not allowed");
});

test("an owner who is no longer one changes no other owner", async () => {
  const [one, other, third] = await Promise.all([1, 2, 3].map(() => person(engine.sql, workspace.id)));
  if (!one || !other || !third) throw new Error("three owners");
  expect(await changeMember(engine.sql, workspace.id, one.id, "admin", other.id)).toBe("changed");
  expect(await changeMember(engine.sql, workspace.id, third.id, null, one.id)).toBe("not allowed");
  expect(await changeMember(engine.sql, workspace.id, one.id, "owner", one.id)).toBe("not allowed");
  expect(await changeMember(engine.sql, workspace.id, one.id, null, one.id)).toBe("changed");
});

test("an admin takes back no owner's offer by inviting the same address", async () => {
  const owner = await person(engine.sql, workspace.id);
  const admin = await person(engine.sql, workspace.id, "admin");
  expect(await invite("d@example.com", "owner", owner.id)).toBe("changed");
  expect(await invite("D@example.com", "member", admin.id)).toBe("not allowed");
  expect(await invite("D@example.com", "member", owner.id)).toBe("changed");
});

function invite(email: string, role: PersonRole, invitedBy: string) {
  const id = newId(Date.now());
  const invitation = { workspaceId: workspace.id, id, email, role, invitedBy, hash: randomBytes(32) };
  return insertInvitation(engine.sql, invitation, EVER, 100, new Date());
}
