/**
 * At `info` the log tells what an operator asks for afterwards: that sends were refused, what was suspended,
 * whose caps changed, and which statement was slow.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type Launched, launch } from "../rig/launched.ts";
import { scrape } from "../rig/scrape.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { Client, mail, type TestWorkspace } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
/** Half of it is slow. */
const STORE_TIMEOUT_MS = 4_000;
const INFO = 30;
const WARN = 40;

let stage: Stage;
let engine: Engine;
let ws: TestWorkspace;
let client: Client;
let metricsUrl: string;
let sender: Launched;
let keeper: Launched;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  ws = await engine.workspace("pro");
  const settings = { STORE_TIMEOUT_MS: String(STORE_TIMEOUT_MS), METRICS_PORT: "0" };
  sender = launch(["api", "deliver"], { ...stage, settings });
  keeper = launch(["keeper"], { ...stage, settings: { CAPS_EVERY_SECONDS: "1" } });
  const ports = await sender.says("serving");
  const { port } = ports;
  metricsUrl = `http://127.0.0.1:${ports.metricsPort}/metrics`;
  client = new Client(`http://127.0.0.1:${port}`, ws.client.key);
  await keeper.says("serving");
});
afterAll(async () => {
  for (const one of [sender, keeper]) one.signal("SIGTERM");
  await Promise.all([sender.ended, keeper.ended]);
  await engine.stop();
  await stage.close();
});

test("a destination that is suspended", async () => {
  const shell = commandLine(stage);
  await shell.json("queue", "suspend", "held.example", "--reason", "somebody@held.example asked");
  const line = await sender.says("suspended and slowed destinations changed");
  expect(line).toMatchObject({
    level: INFO,
    count: 1,
    holds: [{ destination: "held.example", kind: "suspended", until: null }],
  });
  expect(JSON.stringify(line)).not.toContain("somebody");
});

test("a workspace whose caps changed", async () => {
  const day = Math.floor(Date.now() / DAY_MS);
  await engine.sql`
    insert into tally (workspace_id, day, worker, attempted, delivered, hard_bounced)
    values (${ws.id}, ${day}, 'test', 1000, 500, 500)`;
  const line = await keeper.says("a cap was changed; `postrider caps history` says why");
  expect(line).toMatchObject({ level: INFO, workspace: ws.id });
});

test("a statement that was slow, without its values", async () => {
  const slow = () => sender.lines.find(({ msg, pool }) => msg === "slow statement" && pool === "commits");
  // one of another pool may be told in its place, since one a second is
  while (!slow()) await sendHeldUp();
  const line = slow();
  expect(line).toMatchObject({ level: INFO, statement: expect.stringContaining("$1") });
  expect(line?.ms).toBeGreaterThanOrEqual(STORE_TIMEOUT_MS / 2);
  expect(JSON.stringify(line)).not.toContain(ws.id);
});

/** A send whose ledger somebody else has locked for too long. */
async function sendHeldUp(): Promise<void> {
  let answer: Promise<{ status: number }> | undefined;
  const holder = connectRecord(stage.databaseUrl, "setup", 30_000);
  await holder.begin(async (tx) => {
    await tx`select 1 from ledger where workspace_id = ${ws.id} for update`;
    answer = client.post("/emails", mail());
    await expect.poll(() => waitsForLock(STORE_TIMEOUT_MS / 2)).toBe(true);
  });
  await holder.end();
  expect((await answer)?.status).toBe(200);
}

/** Whether a statement of a commit has waited for so long. */
async function waitsForLock(ms: number): Promise<boolean> {
  const rows = await engine.sql`
    select 1 from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and application_name = 'postrider commits'
      and clock_timestamp() - query_start > make_interval(secs => ${ms / 1_000}::float8)`;
  return rows.length > 0;
}

test("that sends are refused, why, and that they are accepted again; the metrics say why, too", async () => {
  keeper.signal("SIGTERM"); // it would see that there is no shortage
  await keeper.ended;
  await engine.sql`
    insert into brake (name, reason, since) values ('disk', 'only 7 MB of disk are free', now())`;
  const refused = await sender.says("sends are refused for now");
  expect(refused).toMatchObject({ level: WARN, reason: "only 7 MB of disk are free" });
  expect((await client.post("/emails", mail())).status).toBe(503);
  const metrics = await scrape(metricsUrl);
  expect(metrics.value("postrider_requests_unavailable_total", { reason: "disk" })).toBe(1);
  await engine.sql`delete from brake`;
  expect(await sender.says("sends are accepted again")).toMatchObject({ level: INFO });
});
