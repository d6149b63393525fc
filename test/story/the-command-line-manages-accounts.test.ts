import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser } from "../rig/people.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine(["console"], { settings: { CONSOLE_PORT: "0" } });
});
afterAll(() => engine.stop());

const { postrider, json } = commandLine();

test("an owner signs in, becomes an operator, and gets a new password", async () => {
  const email = `${randomUUID()}@example.com`;
  const create = ["workspace", "create", "--name", "Shop", "--plan", "pro", "--owner-email", email];
  const { owner } = await json<{ owner: { password: string } }>(...create);
  const again = await json<{ owner: { password: string | null } }>(...create);
  expect(again.owner.password).toBeNull();
  const browser = new Browser(engine.consoleUrl);
  await browser.signIn(email, { password: owner.password });
  expect((await browser.get("operator/workspaces")).status).toBe(403);
  await json("account", "set", email.toUpperCase(), "--operator", "on");
  expect((await browser.get("operator/workspaces")).status).toBe(200);
  const { password } = await json<{ password: string }>("account", "password", email);
  expect((await browser.get("session")).status).toBe(401);
  expect((await browser.signIn(email, { password: owner.password })).status).toBe(401);
  expect((await browser.signIn(email, { password })).status).toBe(200);
  expect((await postrider("account", "password", "nobody@example.com")).status).toBe(1);
});
