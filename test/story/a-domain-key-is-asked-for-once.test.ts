/**
 * However many mails of a domain wait for its key, the record is asked once; and what it cannot say now holds
 * them back.
 */
import { randomUUID } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { makeKey, newSelector, publicPartOf, Sealer } from "../../src/domain/key.ts";
import { Signer } from "../../src/domain/signer.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { insertDomainKey } from "../../src/record/workspaces/domainkeys.ts";
import { insertWorkspace } from "../../src/record/workspaces/workspaces.ts";
import { services } from "../rig/services.ts";

const MESSAGE = Buffer.from("From: a@example.com\r\n\r\nHi\r\n");
const sealer = new Sealer("a secret of the tests, long enough");
const sql = connectRecord(services().databaseUrl, "reads", 20_000);
afterAll(() => sql.end({ timeout: 1 }));

async function signingWorkspace(): Promise<string> {
  const workspaceId = randomUUID();
  const workspace = { id: workspaceId, handle: workspaceId.slice(0, 8), name: "test", plan: "pro" as const };
  await insertWorkspace(sql, { ...workspace, limits: {} }, new Date());
  const made = await makeKey("ed25519");
  const name = { workspaceId, domain: "example.com", selector: newSelector() };
  const row = { ...name, algorithm: made.algorithm, publicKey: publicPartOf(made) };
  await insertDomainKey(sql, { ...row, sealedKey: sealer.seal(name, made) }, "signing", new Date());
  return workspaceId;
}

/** The same connection, with every query counted. */
function counted(): { sql: Sql; asked(): number } {
  let asked = 0;
  const apply = (target: Sql, self: unknown, args: unknown[]): unknown => {
    asked++;
    return Reflect.apply(target, self, args);
  };
  return { sql: new Proxy(sql, { apply }), asked: () => asked };
}

test("once for all that wait, and again when it was long ago", async () => {
  const workspaceId = await signingWorkspace();
  const { sql: counting, asked } = counted();
  const signer = new Signer({ sql: counting, sealer });
  const signAll = () =>
    Promise.all(Array.from({ length: 100 }, () => signer.sign(workspaceId, "news.example.com", MESSAGE)));
  const all = [...(await signAll()), ...(await signAll())];
  expect(new Set(all.map(String)).size).toBe(1);
  expect(String(all[0])).toContain("d=example.com;");
  expect(asked()).toBe(1);
  expect(await signer.sign(workspaceId, "example.org", MESSAGE)).toEqual(MESSAGE);
  expect(asked()).toBe(2);

  const forgetful = new Signer({ sql: counting, sealer, refreshMs: -1 });
  await forgetful.sign(workspaceId, "example.com", MESSAGE);
  await forgetful.sign(workspaceId, "example.com", MESSAGE);
  expect(asked()).toBe(4);
});

test("a record that gives no answer, or a key that does not open: no mail goes unsigned", async () => {
  const workspaceId = await signingWorkspace();
  const gone = connectRecord(services().databaseUrl, "reads", 20_000);
  await gone.end();
  const cut = new Signer({ sql: gone, sealer });
  expect(await cut.sign(workspaceId, "example.com", MESSAGE)).toMatchObject({ error: "KEY_UNREAD" });
  const stranger = new Signer({ sql, sealer: new Sealer("another secret, as long as the first") });
  expect(await stranger.sign(workspaceId, "example.com", MESSAGE)).toMatchObject({ error: "KEY_UNUSABLE" });
});
