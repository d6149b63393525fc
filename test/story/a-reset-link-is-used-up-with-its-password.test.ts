/** A link to a new password works once: for the one password that is kept, and never for none. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newToken, tokenHash } from "../../src/console/sessions.ts";
import { keepReset, resetPassword } from "../../src/record/accounts/accounts.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser, PASSWORD, signedIn } from "../rig/people.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

let database: OwnDatabase;
let engine: Engine;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine(["api", "console"], {
    databaseUrl: database.url,
    settings: { CONSOLE_PORT: "0" },
  });
});
afterAll(async () => {
  await engine?.stop();
  await database?.drop();
});

async function ownerWithLink(): Promise<{ owner: Browser; token: string }> {
  const workspace = await engine.workspace();
  const owner = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
  const token = newToken();
  const [member] = await engine.sql<{ id: string }[]>`
    select account_id as id from member where workspace_id = ${workspace.id}`;
  await keepReset(engine.sql, member?.id as string, tokenHash(token), new Date());
  return { owner, token };
}

test("where the password cannot be kept, the link works again", async () => {
  const { owner, token } = await ownerWithLink();
  const confirm = () =>
    new Browser(engine.consoleUrl).post("reset/confirm", { token, password: "another one 1" });
  await engine.sql.unsafe(`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'full'; end $$;
    create trigger refuse before update on account execute function refuse()`);
  expect((await confirm()).status).toBe(500);
  await engine.sql.unsafe("drop trigger refuse on account; drop function refuse()");
  expect((await owner.get("session")).status).toBe(200);
  expect((await confirm()).status).toBe(200);
  expect((await owner.get("session")).status).toBe(401);
  expect((await confirm()).status).toBe(422);
});

test("of many that use it in the same moment, one has its password kept", async () => {
  const { token } = await ownerWithLink();
  const reset = { link: tokenHash(token), since: new Date(0) };
  const passwords = Array.from({ length: 8 }, (_, n) => `${PASSWORD} ${n}`);
  const owners = await Promise.all(passwords.map((password) => resetPassword(engine.sql, reset, password)));
  const kept = passwords.filter((_, n) => owners[n] !== null);
  expect(kept).toHaveLength(1);
  const [account] = await engine.sql<{ hash: string }[]>`
    select password_hash as hash from account where id = ${owners.find((id) => id !== null) as string}`;
  expect(account?.hash).toBe(kept[0]);
});
