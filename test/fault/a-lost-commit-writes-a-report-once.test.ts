/** A worker of webhooks that did not hear whether its report was written writes it again: it counts once. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import { type DeliveryRow, type Report, saveReport } from "../../src/record/outbox/dispatch.ts";
import type { EventName } from "../../src/record/outbox/outbox.ts";
import { replayEvent, replayFailed, replayRange } from "../../src/record/outbox/replay.ts";
import { ERASING_LOCKS, insertWebhook } from "../../src/record/outbox/webhooks.ts";
import { egressRules } from "../../src/webhooks/endpoint.ts";
import { newSecret, SecretSealer } from "../../src/webhooks/secret.ts";
import { WebhookWorker } from "../../src/webhooks/work.ts";
import { openReceiver, type Receiver } from "../rig/hookreceiver.ts";
import { ownDatabase } from "../rig/services.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const SEALER = new SecretSealer("a secret of this test, long enough");
const NO_DNS = { resolve4: () => Promise.reject(), resolve6: () => Promise.reject() } as never;
const EVENTS = 60;

let api: TestApi;
let sql: Sql;
let receiver: Receiver;
let drop: () => Promise<void>;
let key: { workspaceId: string; id: string };
let token: string;
let updatedAt: Date;
beforeAll(async () => {
  const database = await ownDatabase();
  drop = database.drop;
  api = await testApi({ databaseUrl: database.url, timeoutMs: 10_000 });
  sql = api.sql;
  receiver = await openReceiver();
});
afterAll(async () => {
  await receiver.close();
  await api.stop();
  await drop();
});
beforeEach(async () => {
  const { id: workspaceId } = await api.workspace();
  key = { workspaceId, id: newId(Date.now()) };
  const secrets = SEALER.seal(key, [{ secret: newSecret(), until: null }]);
  const endpoint = receiver.url(`/${key.id}`);
  await insertWebhook(sql, { ...key, endpoint, events: null, publicKey: null, secrets }, 50, new Date());
  for (let n = 1; n <= EVENTS; n++)
    await sql`
      insert into outbox (workspace_id, at, type, subject_id)
      values (${workspaceId}, now(), 'contact.deleted', ${newId(n % 7)})`;
  token = randomUUID();
  const [held] = await sql<{ updatedAt: Date }[]>`
    update webhook set lease_token = ${token} where id = ${key.id} returning updated_at as "updatedAt"`;
  updatedAt = held?.updatedAt as Date;
});

/** One event delivered, one refused, one failed for good, one that waits, and a gap in the log. */
async function reportOf(): Promise<Report> {
  const at = Date.now();
  const [delivered, refused, lost, waiting, freed] = Array.from({ length: 5 }, () => newId(0));
  const row = (sequence: number, subjectId: string | undefined, more: Partial<DeliveryRow>): DeliveryRow => ({
    ...{ ...key, sequence, at: new Date(at), type: "contact.deleted", subjectId: subjectId as string },
    ...{ entry: null, detail: null, tries: 1, dueAt: null, failedAt: null, ...more },
  });
  for (const { sequence, subjectId } of [row(1, delivered, {}), row(4, freed, {})])
    await sql`
      insert into webhook_delivery (workspace_id, webhook_id, sequence, at, type, subject_id)
      values (${key.workspaceId}, ${key.id}, ${sequence}, now(), 'contact.deleted', ${subjectId})`;
  const attempt = (sequence: number, subjectId: string | undefined, status: number) => ({
    ...{ ...key, attemptId: newId(at), sequence, at, status, ms: 5, error: null, response: null },
    ...{ subjectId: subjectId as string, type: "contact.deleted" },
  });
  return {
    progress: [
      {
        ...{
          ...key,
          cursor: 12,
          missed: 7,
          failures: 2,
          deliveredAt: at,
          failingSince: at,
          retryAt: at + 60_000,
        },
        ...{ isGone: false, updatedAt, isBack: false, replay: null },
      },
    ],
    rows: [
      row(2, refused, { dueAt: at + 60_000 }),
      row(3, lost, { tries: 20, failedAt: at }),
      row(5, waiting, { tries: 0 }),
    ],
    done: [{ ...key, sequence: 1 }],
    freed: [{ ...key, subjectId: freed as string }],
    attempts: [attempt(1, delivered, 200), attempt(2, refused, 500), attempt(3, lost, 500)],
  };
}

const keptIn = async () => ({
  webhook: await sql`select cursor, missed, failures, failing_since, retry_at, delivered_at, status, told_by
    from webhook where id = ${key.id}`,
  rows: await sql`select * from webhook_delivery where webhook_id = ${key.id} order by sequence`,
  replays: await sql`select * from webhook_replay where webhook_id = ${key.id}`,
  attempts: await sql`select * from webhook_attempt where webhook_id = ${key.id} order by id`,
});

test("a second write of the same report changes nothing", async () => {
  const report = await reportOf();
  await saveReport(sql, token, report, new Date());
  const first = await keptIn();
  expect(first.webhook).toMatchObject([{ missed: "7", failures: 2 }]);
  expect(first.attempts).toHaveLength(3);
  expect(first.rows.map(({ sequence }) => Number(sequence))).toEqual([2, 3, 4, 5]);
  await saveReport(sql, token, report, new Date(Date.now() + 5_000));
  expect(await keptIn()).toEqual(first);
});

test("a report without attempts counts the events that the log did not hold once", async () => {
  const { progress } = await reportOf();
  const report = { progress, rows: [], done: [], freed: [], attempts: [] };
  await saveReport(sql, token, report, new Date());
  await saveReport(sql, token, report, new Date());
  expect((await keptIn()).webhook).toMatchObject([{ cursor: "12", missed: "7" }]);
});

test("what an owner asks for between the two stays asked for", async () => {
  const report = await reportOf();
  await saveReport(sql, token, report, new Date());
  await sql`insert into event_sequence (workspace_id, last) values (${key.workspaceId}, ${EVENTS})`;
  await sql`
    update outbox o set sequence = n from (
      select ctid, tableoid, row_number() over () as n from outbox where workspace_id = ${key.workspaceId}) f
    where o.ctid = f.ctid and o.tableoid = f.tableoid`;
  const [event] = await sql<EventName[]>`
    select subject_id as "subjectId", sequence::float8 as sequence from outbox
    where workspace_id = ${key.workspaceId} and sequence = 1`;
  expect(await replayEvent(sql, key, event as EventName, new Date())).toBe(true);
  expect(await replayFailed(sql, key, 10, new Date())).toBe(1);
  expect(await replayRange(sql, key, { id: newId(0), from: 1, to: 2 }, new Date())).toBe("begun");
  const asked = await keptIn();
  await saveReport(sql, token, report, new Date());
  expect(await keptIn()).toEqual(asked);
});

test("a report whose first writing is still under way counts once", async () => {
  const report = await reportOf();
  let writing: Promise<unknown>[] = [];
  await sql.begin(async (tx) => {
    // the first waits here when it has written how the endpoint fares, and the second for the first
    await tx`select pg_advisory_xact_lock(${ERASING_LOCKS}, hashtext(${key.workspaceId}))`;
    const locks = () => sql`
      select from pg_locks where not granted
        and pid in (select pid from pg_stat_activity where datname = current_database())`;
    writing = [saveReport(sql, token, report, new Date())];
    await expect.poll(locks).toHaveLength(1);
    writing.push(saveReport(sql, token, report, new Date()));
    await expect.poll(locks).toHaveLength(2);
  });
  await Promise.all(writing);
  const kept = await keptIn();
  expect(kept.webhook).toMatchObject([{ missed: "7" }]);
  expect(kept.attempts).toHaveLength(3);
});

test("a worker that hears of no second commit notes each request once", async () => {
  await sql`update webhook set lease_token = null where id = ${key.id}`;
  receiver.answerWith = (_, response, nth) => response.writeHead(nth % 4 === 0 ? 500 : 200).end();
  let begun = 0;
  const losing = new Proxy(sql, {
    get: (target, name) =>
      name !== "begin"
        ? Reflect.get(target, name)
        : async (work: Parameters<Sql["begin"]>[0]) => {
            const result = await sql.begin(work);
            if (++begun % 2 === 0) throw new Error("the answer was lost");
            return result;
          },
  });
  const rules = egressRules([{ address: "127.0.0.0", prefix: 8 }]);
  const later = { ms: 0 };
  const worker = new WebhookWorker({
    ...{ sql: losing, sealer: SEALER, dns: NO_DNS, rules, now: () => Date.now() + later.ms, given: () => 0 },
    ...{ random: () => 0, crowding: () => 0, tellOwners: async () => {}, onFault: () => {} },
  });
  const told = async () => {
    await worker.turn().catch(() => {});
    later.ms += 60_000;
    const rows = await sql`select from webhook where id = ${key.id} and cursor = ${EVENTS}`;
    const open = await sql`select from webhook_delivery where webhook_id = ${key.id}`;
    return rows.length === 1 && open.length === 0;
  };
  await expect.poll(told, { timeout: 60_000, interval: 20 }).toBe(true);
  await worker.stop(5_000).catch(() => {});
  const { attempts } = await keptIn();
  const heard = receiver.heard.filter(({ path }) => path === `/${key.id}`);
  expect(attempts).toHaveLength(heard.length);
  expect(heard.length).toBeGreaterThan(EVENTS);
});
