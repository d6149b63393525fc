/**
 * A worker of webhooks has places for some hundred endpoints. Workspaces with many slow ones, and hosts
 * behind many, leave places to others; and how much of the log is read for all of them is bounded.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Keyring } from "../../src/admission/keyring.ts";
import { newId } from "../../src/ids.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import {
  claimWebhooks,
  readSpans,
  releaseWebhooks,
  type WebhookClaim,
} from "../../src/record/outbox/dispatch.ts";
import { insertWebhook } from "../../src/record/outbox/webhooks.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { type OwnDatabase, ownDatabase, services } from "../rig/services.ts";
import { SECRET } from "../rig/workspace.ts";

const ENDPOINTS = 6;
const WORKSPACES = 4;
const NOBODY = "00000000-0000-0000-0000-000000000000";

let database: OwnDatabase;
let sql: Sql;
let redis: RedisClient;
const ids: string[] = [];
beforeAll(async () => {
  database = await ownDatabase();
  sql = connectRecord(database.url, "webhooks", 10_000);
  redis = connectRedis(services().redisUrl, "worker", 5_000);
  const clock = { now: Date.now, given: () => 0 };
  const keyring = new Keyring({ redis, sql, serverSecret: SECRET, clock });
  for (let n = 0; n < WORKSPACES; n++) {
    const { id } = await keyring.createWorkspace(`test ${randomUUID()}`, "pro", {});
    ids.push(id);
    for (let m = 0; m < ENDPOINTS; m++)
      await insertWebhook(sql, endpoint(id, `h${m % 2}.example`), 50, new Date());
    await sql`insert into event_sequence (workspace_id, last) values (${id}, 1000)`;
    await sql`
      insert into outbox (workspace_id, sequence, at, type, subject_id)
      select ${id}, n, now(), 'email.delivered', ${id} from generate_series(1, 1000) n`;
  }
  ids.sort();
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
  redis.disconnect();
  await database.drop();
});

const endpoint = (workspaceId: string, host: string) => ({
  ...{ workspaceId, id: newId(Date.now()), endpoint: `https://${host}/hook`, events: null },
  ...{ publicKey: null, secrets: Buffer.alloc(1) },
});

async function claim(more: Partial<WebhookClaim>, token = randomUUID()) {
  const claimed = await claimWebhooks(sql, token, {
    ...{ leaseMs: 10_000, now: new Date(), most: 100, mostOfOne: 100 },
    ...{ held: new Map(), fullHosts: [], from: NOBODY },
    ...more,
  });
  await releaseWebhooks(sql, token, claimed);
  return claimed;
}

function perWorkspace(claimed: readonly { workspaceId: string }[]): number[] {
  return ids.map((id) => claimed.filter(({ workspaceId }) => workspaceId === id).length);
}

test("a workspace gets its share, less what it holds", async () => {
  expect(perWorkspace(await claim({}))).toEqual([6, 6, 6, 6]);
  expect(perWorkspace(await claim({ mostOfOne: 2 }))).toEqual([2, 2, 2, 2]);
  const held = new Map([
    [ids[0] as string, 1],
    [ids[2] as string, 5],
  ]);
  expect(perWorkspace(await claim({ mostOfOne: 2, held }))).toEqual([1, 2, 0, 2]);
});

test("where places are few, those come first that come after the last", async () => {
  expect(perWorkspace(await claim({ most: 7 }))).toEqual([6, 1, 0, 0]);
  expect(perWorkspace(await claim({ most: 7, from: ids[2] as string }))).toEqual([0, 0, 6, 1]);
  expect(perWorkspace(await claim({ most: 7, from: ids[3] as string }))).toEqual([1, 0, 0, 6]);
});

test("a host that has its share gets no more", async () => {
  const claimed = await claim({ fullHosts: ["h1.example"] });
  expect(claimed).toHaveLength((WORKSPACES * ENDPOINTS) / 2);
  expect(new Set(claimed.map((one) => one.endpoint))).toEqual(new Set(["https://h0.example/hook"]));
});

test("the more spans are read, the less of each", async () => {
  await sql`update webhook set events = '{email.bounced}'`;
  const span = (n: number) => ({ place: n, workspaceId: ids[0] as string, after: 0, last: null, most: 10 });
  const [held] = await claim({ most: 1 });
  const id = held?.id as string;
  const spans = (count: number) => Array.from({ length: count }, (_, n) => ({ ...span(n), id }));
  const scanned = async (count: number) =>
    (await readSpans(sql, spans(count))).ends.reduce((sum, { scannedTo }) => sum + scannedTo, 0);
  expect(await scanned(1)).toBe(1_000);
  expect(await scanned(200)).toBe(20_000);
});
