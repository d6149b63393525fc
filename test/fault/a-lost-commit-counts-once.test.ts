/**
 * The answer to the commit of a settle group gets lost after it was done. The group is written again, and
 * nothing of it may be counted again: the policy of the caps believes these counts.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const MAILS = 300;
const PATIENCE_MS = 60_000;

let stage: Stage;
let toPostgres: TcpProxy;
let api: Engine;
let worker: Engine;
beforeAll(async () => {
  stage = await openStage();
  const { port, username, password, pathname } = new URL(stage.databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  const options = { redisUrl: stage.redisUrl, smtpUrl: stage.sink.url, settings: { RETRY_SCHEDULE: "1" } };
  api = await startEngine(["api", "keeper"], { ...options, databaseUrl: stage.databaseUrl });
  worker = await startEngine(["deliver"], {
    ...options,
    databaseUrl: `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`,
  });
});
afterAll(async () => {
  await worker.stop();
  await api.stop();
  await Promise.all([toPostgres.close(), stage.close()]);
});

test("each e-mail is counted once, however often the answer to a commit gets lost", async () => {
  const ws = await api.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  let cuts = 0;
  const settles = (request: Buffer) => request.includes("commit");
  const cutAgain = (): Promise<void> =>
    toPostgres.cutReply(settles).then(() => {
      cuts++;
      return cuts < 12 ? cutAgain() : undefined;
    });
  const cutting = cutAgain();
  const manners = ["", "", "once-451+", "refuse-550+"];
  for (let n = 0; n < MAILS; n += 30) {
    const batch = Array.from({ length: 30 }, (_, k) =>
      mail({ to: `${manners[k % 4]}p${n + k}@example.net` }),
    );
    expect((await ws.client.post("/emails/batch", batch)).status).toBe(200);
  }
  const counts = await settled(api.sql, ws.id, PATIENCE_MS);
  await cutting;
  expect(cuts).toBe(12);
  await expect
    .poll(() => tallies(ws), { timeout: PATIENCE_MS })
    .toEqual({
      attempted: MAILS,
      delivered: counts.delivered,
      bounced: counts.bounced,
      deferred: await attemptsBeyondTheFirst(ws),
    });
});

async function tallies(ws: TestWorkspace) {
  const [row] = await api.sql`
    select sum(attempted)::int as attempted, sum(delivered)::int as delivered, sum(hard_bounced)::int as bounced,
           sum(deferred)::int as deferred from tally where workspace_id = ${ws.id}`;
  return row;
}

async function attemptsBeyondTheFirst(ws: TestWorkspace): Promise<number> {
  const [row] = await api.sql<{ n: number }[]>`
    select sum(attempts - 1)::int as n from email where workspace_id = ${ws.id}`;
  return row?.n ?? 0;
}
