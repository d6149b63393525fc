/**
 * A contact is erased while it is being copied into another audience: what was read of it before is not kept
 * there.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { lockAudiences } from "../../src/record/contacts/audiences.ts";
import { deleteContacts } from "../../src/record/contacts/contacts.ts";
import { eventually } from "../rig/eventually.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const ADDRESS = "gone@x.example";

let database: OwnDatabase;
let api: TestApi;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url, timeoutMs: 10_000 });
});
afterAll(async () => {
  await api.stop();
  await database.drop();
});

test("who is erased meanwhile is not brought back", async () => {
  const { id: workspaceId, client } = await api.workspace();
  const audience = async (name: string) =>
    (await client.post<{ id: string }>("/audiences", { name })).body.id;
  const [from, to] = [await audience("From"), await audience("To")];
  const { id } = (await client.post<{ id: string }>(`/audiences/${from}/contacts`, { email: ADDRESS })).body;

  let copying: ReturnType<typeof client.post> | undefined;
  await api.sql.begin(async (tx) => {
    await lockAudiences(tx, [{ workspaceId, audienceId: from }]);
    copying = client.post(`/contacts/${ADDRESS}/segments/${to}`);
    await eventually(async () => {
      const waiting = await api.sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      expect(waiting).toHaveLength(1);
    });
    for (const statement of deleteContacts(tx, [{ workspaceId, id }], new Date())) await statement;
  });
  expect((await copying)?.status).toBe(404);
  expect(await api.sql`select from contact where workspace_id = ${workspaceId}`).toHaveLength(0);
});

test("nobody who stays waits for it", async () => {
  const { client } = await api.workspace();
  const audience = async (name: string) =>
    (await client.post<{ id: string }>("/audiences", { name })).body.id;
  const [from, to] = [await audience("From"), await audience("To")];
  await client.post(`/audiences/${from}/contacts`, { email: ADDRESS });
  expect((await client.post(`/contacts/${ADDRESS}/segments/${to}`)).status).toBe(201);
});
