/**
 * An endpoint's answer is written down while its contact or e-mail is erased: whichever comes first, nothing
 * stays.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { type Report, saveReport } from "../../src/record/outbox/dispatch.ts";
import { forgetResponses, insertWebhook } from "../../src/record/outbox/webhooks.ts";
import { mail, type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi({ timeoutMs: 10_000 });
});
afterAll(() => api.stop());

test("an answer that comes while an erasure is at work is kept without its words", async () => {
  const { id: workspaceId, client } = await api.workspace();
  const { body } = await client.post<{ id: string }>("/emails", mail({ to: "gone@example.net" }));
  const key = { workspaceId, id: newId(Date.now()) };
  const shape = { endpoint: "https://a.example/", events: null, publicKey: null, secrets: Buffer.alloc(1) };
  await insertWebhook(api.sql, { ...key, ...shape }, 50, new Date());
  const token = randomUUID();
  const [held] = await api.sql<{ updatedAt: Date }[]>`
    update webhook set lease_token = ${token} where id = ${key.id} returning updated_at as "updatedAt"`;
  let saving: Promise<void> = Promise.resolve();
  await api.sql.begin(async (tx) => {
    for (const statement of forgetResponses(tx, [{ workspaceId, id: body.id }])) await statement;
    saving = saveReport(api.sql, token, reportOf(held?.updatedAt as Date), new Date());
    await expect
      .poll(async () => {
        const waiting = await api.sql`
          select from pg_locks where locktype = 'advisory' and not granted
            and database = (select oid from pg_database where datname = current_database())`;
        return waiting.length;
      })
      .toBeGreaterThan(0);
    await tx`update email set head = ${tx.json({ to: ["erased@erased.invalid"] })} where id = ${body.id}
      and workspace_id = ${workspaceId}`;
  });
  await saving;
  const attempts =
    await api.sql`select response, subject_id from webhook_attempt where webhook_id = ${key.id}`;
  expect(attempts).toEqual([{ response: null, subject_id: null }]);

  function reportOf(updatedAt: Date): Report {
    const at = Date.now();
    const progress = {
      ...{ ...key, cursor: 1, missed: 0, failures: 0, deliveredAt: at, failingSince: null, retryAt: null },
      ...{ isGone: false, updatedAt, isBack: false, replay: null },
    };
    const attempt = {
      ...{ ...key, attemptId: newId(at), sequence: 1, at, status: 500, ms: 5, error: "500" },
      ...{ response: "no gone@example.net here", subjectId: body.id, type: "email.delivered" },
    };
    return { progress: [progress], rows: [], done: [], freed: [], attempts: [attempt] };
  }
});
