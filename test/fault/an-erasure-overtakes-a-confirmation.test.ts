/** A person is erased between the decision to ask them and the writing of the mail: the mail must not keep them. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Reservations } from "../../src/admission/reserve.ts";
import { Confirmations } from "../../src/audience/confirm.ts";
import { eraseMail } from "../../src/audience/erasure.ts";
import { Links } from "../../src/audience/links.ts";
import type { Clock } from "../../src/clock.ts";
import { mailCommit } from "../../src/record/commit.ts";
import { connectRecord } from "../../src/record/connect.ts";
import { ownSubmitter } from "../../src/submit.ts";
import { services } from "../rig/services.ts";
import { tablesWith } from "../rig/traces.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const TIMEOUT_MS = 2_000;
const ADDRESS = "hesitant@overtaken.example";
const clock: Clock = { now: () => Date.now(), given: () => 0 };

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test("the mail is struck out like those that were there before", async () => {
  const ws = await api.workspace();
  const { body } = await ws.client.post<{ id: string }>("/audiences", { name: "A", double_opt_in: true });
  const contacts = `/audiences/${body.id}/contacts`;
  const commit = mailCommit(
    { connect: () => connectRecord(services().databaseUrl, "commits", TIMEOUT_MS), timeoutMs: TIMEOUT_MS },
    () => {},
  );
  const reservations = new Reservations(api.redis, api.sql, clock);
  const submit = ownSubmitter({ reservations, commit, clock, brake: () => null, onLag: () => {} });
  const confirmations = new Confirmations({
    sql: api.sql,
    links: new Links("a secret of the tests, long enough for any use", api.url),
    clock,
    from: "no-reply@example.com",
    letter: async () => null,
    async write(mail) {
      expect((await ws.client.call("DELETE", `${contacts}/${ADDRESS}?mode=erase`)).status).toBe(200);
      return submit(mail);
    },
  });

  const added = await ws.client.post<{ id: string }>(contacts, { email: ADDRESS });
  await ownMailWritten(ws.id);
  // as an api finds it that died before it had written the mail
  await api.sql`delete from email where workspace_id = ${ws.id}`;
  await api.sql`delete from body where workspace_id = ${ws.id}`;
  await api.sql`update confirmation set is_mailed = false where contact_id = ${added.body.id}`;
  await confirmations.send(ws.id, added.body.id);
  await eraseMail(api.sql, ws.id, clock);
  expect(await tablesWith(api.sql, "hesitant@overtaken")).toEqual([]);
  const [mail] = await api.sql`select status from email where workspace_id = ${ws.id}`;
  expect(mail?.status).toBe("canceled");
  await commit.close();
});

async function ownMailWritten(workspaceId: string): Promise<void> {
  for (;;) {
    const noted = await api.sql`
      select 1 from confirmation where workspace_id = ${workspaceId} and is_mailed`;
    if (noted.length > 0) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
