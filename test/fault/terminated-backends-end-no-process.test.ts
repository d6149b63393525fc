/**
 * An administrator, a failover or a fast shutdown ends every connection to Postgres, again and again, under
 * load.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Keyring } from "../../src/admission/keyring.ts";
import { apply } from "../../src/automation/apply.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import type { Role } from "../../src/rules/roles.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { runsEnded, settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { terminateBackends, ticks } from "../rig/terminate.ts";
import { freshWorkspace, mail, SECRET, type TestWorkspace } from "../rig/workspace.ts";

const ROLES: readonly Role[] = ["api", "keeper", "deliver", "automate"];
const BATCH = 10;
const STEADY_SECONDS = 60;
const BURST_TIMES = 40;
const SEND_EVERY_MS = 100;
const PATIENCE_MS = 120_000;

let stage: Stage;
let sql: Sql;
let client: RedisClient;
const processes = new Map<Role, EngineProcess>();
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  sql = connectRecord(stage.databaseUrl, "setup", 30_000); // one connection, which is the one that ends the others
  client = connectRedis(stage.redisUrl, "worker", 20_000);
  const options = {
    ...stage,
    smtpUrl: `${stage.smtpUrl}?pool=20`,
    settings: { RETRY_SCHEDULE: "1" },
  };
  await Promise.all(ROLES.map(async (role) => processes.set(role, await startProcess([role], options))));
  const keyring = new Keyring({
    redis: client,
    sql,
    serverSecret: SECRET,
    clock: { now: Date.now, given: () => 0 },
  });
  const url = `http://127.0.0.1:${processes.get("api")?.port}`;
  ws = await freshWorkspace(keyring, url, "pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
});
afterAll(async () => {
  await Promise.all([...processes.values()].map((one) => one.isRunning() && one.kill()));
  client.disconnect();
  await sql.end({ timeout: 1 });
  await stage.close();
});

const ended = () => [...processes].flatMap(([role, process]) => (process.isRunning() ? [] : [role]));

/** Until it is accepted: the key makes the repetitions one request. */
async function accepted<T>(path: string, body: unknown, key: string): Promise<T> {
  for (;;) {
    const answer = await ws.client.post<T>(path, body, { "idempotency-key": key });
    if (answer.status < 300) return answer.body;
    expect([409, 500, 503], JSON.stringify(answer.body)).toContain(answer.status);
    expect(ended(), "processes that ended").toEqual([]);
  }
}

test("no process ends, nothing accepted is lost, and sending goes on afterwards", async () => {
  const { id: audienceId } = await accepted<{ id: string }>("/audiences", { name: "All" }, "audience");
  const steps = [{ send: { from: "shop@example.com", subject: "Hello", text: "Hello" } }];
  const document = { name: "Flow", audience_id: audienceId, event: "go", entry: "every", steps };
  await apply(sql, ws.id, document, Date.now());
  await accepted(`/audiences/${audienceId}/contacts`, { email: "a@example.net" }, "contact");

  const ids: string[] = [];
  const work: Promise<void>[] = [];
  let events = 0;
  const load = new AbortController();
  const send = async (key: string): Promise<void> => {
    type Batch = { data: { id: string }[] };
    const { data } = await accepted<Batch>("/emails/batch", Array(BATCH).fill(mail()), `batch ${key}`);
    const later = mail({ scheduled_at: "in 5 seconds" });
    const one = await accepted<{ id: string }>("/emails", later, `later ${key}`);
    ids.push(...data.map(({ id }) => id), one.id);
    await accepted(
      "/events",
      { audience_id: audienceId, email: "a@example.net", name: "go" },
      `event ${key}`,
    );
    events++;
  };
  const loading = (async () => {
    for await (const n of ticks(SEND_EVERY_MS)) {
      if (load.signal.aborted) break;
      const sending = send(`${n}`);
      sending.catch(() => {}); // reported below, with all of them
      work.push(sending);
    }
  })();

  const steadily = await terminateBackends(sql, 1_000, STEADY_SECONDS);
  expect(ended(), "processes that ended when their backends were terminated every second").toEqual([]);
  const inBursts = await terminateBackends(sql, 250, BURST_TIMES);
  expect(ended(), "processes that ended when their backends were terminated four times a second").toEqual([]);
  load.abort();
  await Promise.all([loading, ...work]);

  expect(steadily).toBeGreaterThan(STEADY_SECONDS);
  expect(inBursts).toBeGreaterThan(BURST_TIMES);
  expect(await runsEnded(sql, ws.id, PATIENCE_MS)).toEqual({ finished: events });
  expect(await settled(sql, ws.id, PATIENCE_MS)).toEqual({ delivered: ids.length + events });
  await send("after");
  expect(await runsEnded(sql, ws.id, PATIENCE_MS)).toEqual({ finished: events });
  expect(await settled(sql, ws.id, PATIENCE_MS)).toEqual({ delivered: ids.length + events });
  expect(stage.sink.ledger.compare(ids.map((id) => `${id}@example.com`)).missing).toEqual([]);
  expect(ended()).toEqual([]);
}, 400_000);
