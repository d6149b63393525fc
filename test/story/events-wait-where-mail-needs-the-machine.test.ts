/** Where others go first all the time, events are told a few at a time, and all of them in the end. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { insertWebhook } from "../../src/record/outbox/webhooks.ts";
import { egressRules } from "../../src/webhooks/endpoint.ts";
import { newSecret, SecretSealer } from "../../src/webhooks/secret.ts";
import { WebhookWorker } from "../../src/webhooks/work.ts";
import { openReceiver, type Receiver } from "../rig/hookreceiver.ts";
import { ownDatabase } from "../rig/services.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const SEALER = new SecretSealer("a secret of this test, long enough");
const NO_DNS = { resolve4: () => Promise.reject(), resolve6: () => Promise.reject() } as never;
const EVENTS = 350;
const A_FEW = 100;

let api: TestApi;
let receiver: Receiver;
let drop: () => Promise<void>;
let worker: WebhookWorker;
let crowding = 1;
let letAnswer: () => void;
const mayAnswer = new Promise<void>((resolve) => {
  letAnswer = resolve;
});
beforeAll(async () => {
  const database = await ownDatabase();
  drop = database.drop;
  api = await testApi({ databaseUrl: database.url, timeoutMs: 10_000 });
  receiver = await openReceiver();
  receiver.answerWith = (_, response) => mayAnswer.then(() => response.writeHead(200).end());
  const { id: workspaceId } = await api.workspace();
  const key = { workspaceId, id: newId(Date.now()) };
  const secrets = SEALER.seal(key, [{ secret: newSecret(), until: null }]);
  const endpoint = receiver.url("/");
  await insertWebhook(api.sql, { ...key, endpoint, events: null, publicKey: null, secrets }, 50, new Date());
  await api.sql`
    insert into outbox (workspace_id, at, type, subject_id)
    select ${workspaceId}, now(), 'contact.deleted', gen_random_uuid() from generate_series(1, ${EVENTS})`;
  worker = new WebhookWorker({
    ...{
      sql: api.sql,
      sealer: SEALER,
      dns: NO_DNS,
      rules: egressRules([{ address: "127.0.0.0", prefix: 8 }]),
    },
    ...{ now: Date.now, given: () => 0, random: () => 0, crowding: () => crowding },
    ...{ tellOwners: async () => {}, onFault: () => {} },
  });
});
afterAll(async () => {
  await worker.stop(5_000);
  await receiver.close();
  await api.stop();
  await drop();
});

test("crowded it reads a few at each turn, and tells all of them in the end", async () => {
  await worker.turn(); // takes the endpoint
  if (worker.inHand === 0) await worker.turn();
  expect(worker.inHand).toBeGreaterThan(0);
  expect(worker.inHand).toBeLessThanOrEqual(A_FEW);
  crowding = 0;
  letAnswer();
  // one whose answer was late or lost is sent again, under the same id
  const all = async () => {
    await worker.turn();
    return new Set(receiver.heard.map(({ headers }) => headers["webhook-id"])).size;
  };
  await expect.poll(all, { timeout: 25_000 }).toBe(EVENTS);
});
