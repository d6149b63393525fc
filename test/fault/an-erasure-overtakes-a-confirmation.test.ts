/**
 * A person is erased between the decision to ask them and the writing of the mail: the mail must not keep
 * them.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Reservations } from "../../src/admission/reserve.ts";
import { type ConfirmationParts, Confirmations } from "../../src/audience/confirm.ts";
import { eraseMail } from "../../src/audience/erasure.ts";
import { Links } from "../../src/audience/links.ts";
import type { Clock } from "../../src/clock.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type MailCommit, mailCommit } from "../../src/record/mail/commit.ts";
import { ownSubmitter } from "../../src/submit.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { tablesWith } from "../rig/traces.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const TIMEOUT_MS = 10_000;
const ADDRESS = "hesitant@overtaken.example";
const clock: Clock = { now: () => Date.now(), given: () => 0 };

let database: OwnDatabase;
let api: TestApi;
let commit: MailCommit;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url });
  const connect = () => connectRecord(database.url, "commits", TIMEOUT_MS);
  commit = mailCommit({ connect, timeoutMs: TIMEOUT_MS }, () => {}, Buffer.from);
});
afterAll(async () => {
  await commit.close();
  await api.stop();
  await database.drop();
});

type Write = ConfirmationParts["write"];

test.each<[when: string, write: (submit: Write, erase: () => Promise<void>) => Write, statuses: string[]]>([
  [
    "before the mail is written",
    (submit, erase) => async (mail) => {
      await erase();
      return submit(mail);
    },
    [],
  ],
  [
    "before the mail is written, by a process that dies before it can note it",
    (submit, erase) => async (mail) => {
      await erase();
      await submit(mail);
      throw new Error("died");
    },
    [],
  ],
  [
    "after the mail is written, before that is noted",
    (submit, erase) => async (mail) => {
      await submit(mail);
      await erase();
    },
    ["canceled"],
  ],
])("erased %s", async (_, write, statuses) => {
  const ws = await api.workspace();
  const { body } = await ws.client.post<{ id: string }>("/audiences", { name: "A", double_opt_in: true });
  const contacts = `/audiences/${body.id}/contacts`;
  const erase = async () => {
    expect((await ws.client.call("DELETE", `${contacts}/${ADDRESS}?mode=erase`)).status).toBe(200);
  };
  const reservations = new Reservations(api.redis, api.sql, clock);
  const submit = ownSubmitter({
    reservations,
    commit,
    reads: api.sql,
    clock,
    shortage: () => null,
    onLag: () => {},
  });
  const confirmations = new Confirmations({
    sql: api.sql,
    links: new Links("a secret of the tests, long enough for any use", api.url),
    clock,
    from: "no-reply@example.com",
    textOf: async () => null,
    onFault: (error) => {
      throw error;
    },
    write: write(submit, erase),
  });

  const added = await ws.client.post<{ id: string }>(contacts, { email: ADDRESS });
  await ownMailWritten(ws.id);
  // as an api finds it that died before it had written the mail
  await api.sql`delete from email where workspace_id = ${ws.id}`;
  await api.sql`delete from body where workspace_id = ${ws.id}`;
  await api.sql`update confirmation set is_mailed = false where contact_id = ${added.body.id}`;
  await confirmations.send(ws.id, added.body.id).catch((error: Error) => {
    expect(error.message).toBe("died");
  });
  expect(await eraseMail(api.sql, ws.id, clock)).toBe(false);
  expect(await tablesWith(api.sql, "hesitant@overtaken")).toEqual([]);
  const kept = await api.sql<{ status: string }[]>`select status from email where workspace_id = ${ws.id}`;
  expect(kept.map(({ status }) => status)).toEqual(statuses);
});

async function ownMailWritten(workspaceId: string): Promise<void> {
  for (;;) {
    const noted = await api.sql`
      select 1 from confirmation where workspace_id = ${workspaceId} and is_mailed`;
    if (noted.length > 0) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
