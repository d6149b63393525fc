/**
 * Events that failed for good are asked for again in several batches: of one e-mail they still go one after
 * the other.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { replayFailed } from "../../src/record/outbox/replay.ts";
import { insertWebhook } from "../../src/record/outbox/webhooks.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test("only the first event of each e-mail is due", async () => {
  const { id: workspaceId } = await api.workspace();
  const key = { workspaceId, id: newId(Date.now()) };
  const shape = { endpoint: "https://a.example/", events: null, publicKey: null, secrets: Buffer.alloc(1) };
  await insertWebhook(api.sql, { ...key, ...shape }, 50, new Date());
  const [one, other] = [randomUUID(), randomUUID()];
  const subjects = [one, other, one, one, other];
  for (const [n, subject] of subjects.entries())
    await api.sql`
      insert into webhook_delivery (workspace_id, webhook_id, sequence, at, type, subject_id, tries, failed_at)
      values (${workspaceId}, ${key.id}, ${n + 1}, now(), 'email.delivered', ${subject}, 10, now())`;
  const due = async () => {
    const rows = await api.sql<{ sequence: number }[]>`
      select sequence::int from webhook_delivery where webhook_id = ${key.id} and due_at is not null order by 1`;
    return rows.map(({ sequence }) => sequence);
  };
  expect(await replayFailed(api.sql, key, 1, new Date())).toBe(1);
  expect(await due()).toEqual([1]);
  expect(await replayFailed(api.sql, key, 3, new Date())).toBe(3);
  expect(await due()).toEqual([1, 2]);
  expect(await replayFailed(api.sql, key, 3, new Date())).toBe(1);
  expect(await due()).toEqual([1, 2]);
});
