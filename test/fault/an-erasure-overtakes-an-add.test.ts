/**
 * Somebody who had unsubscribed is erased while another process waits for the audience to add them again:
 * what was kept of them is seen although the wait began before it was there, also in an audience that had
 * suppressed nobody.
 */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { addressHasher } from "../../src/audience/links.ts";
import { newId } from "../../src/ids.ts";
import { lockAudiences } from "../../src/record/contacts/audiences.ts";
import { type ContactCommit, contactCommit } from "../../src/record/contacts/commit.ts";
import { keepSuppressed } from "../../src/record/contacts/contacts.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { eventually } from "../rig/eventually.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const TIMEOUT_MS = 10_000;
const ADDRESS = "gone@x.example";
const hashOf = vi.fn(addressHasher("a secret of the tests, long enough for any use"));

let database: OwnDatabase;
let api: TestApi;
let commit: ContactCommit;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url });
  const connect = () => connectRecord(database.url, "commits", TIMEOUT_MS);
  commit = contactCommit({ connect, timeoutMs: TIMEOUT_MS }, hashOf);
});
afterAll(async () => {
  await commit.close();
  await api.stop();
  await database.drop();
});

test("who was erased meanwhile stays unsubscribed", async () => {
  const { id: workspaceId, client } = await api.workspace();
  const { id: audienceId } = (await client.post<{ id: string }>("/audiences", { name: "People" })).body;
  const add = (identity: string) => {
    const added = { kind: "add", id: newId(Date.now()), identity, email: identity, fields: {} } as const;
    const change = { ...added, optIn: { consent: null } };
    return commit.submit({
      workspaceId,
      audienceId,
      who: { identity },
      change,
      keyId: null,
      given: 0,
      bytes: 100,
    });
  };
  await add("somebody@x.example");
  expect(hashOf).not.toHaveBeenCalled();

  let adding: ReturnType<typeof add> | undefined;
  await api.sql.begin(async (tx) => {
    await lockAudiences(tx, [{ workspaceId, audienceId }]);
    adding = add(ADDRESS);
    await eventually(async () => {
      const waiting = await api.sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      expect(waiting).toHaveLength(1);
    });
    const key = { workspaceId, audienceId, hash: hashOf(ADDRESS), isUnsubscribed: true };
    await Promise.all(keepSuppressed(tx, [key], new Date()));
  });
  expect(await adding).toMatchObject({ kind: "changed", contact: { status: "unsubscribed" } });
  expect(await add("another@x.example")).toMatchObject({
    kind: "changed",
    contact: { status: "subscribed" },
  });
});
