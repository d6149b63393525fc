/**
 * The primary is killed while mail is taken and delivered, and its synchronous standby is promoted. What
 * DATABASE_URL names leads to the new primary: the same processes go on. What was accepted is delivered once,
 * also what waited for its time, and an idempotency key gets its first answer.
 */
import { appendFileSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Postgres, startPostgres } from "../../src/embedded/postgres.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { insist } from "../rig/insistent.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { type OwnRedis, ownRedis, services } from "../rig/services.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { type Standby, startStandby } from "../rig/standby.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const LANES = 4;
const MAILS = 80;
/** Of them were accepted when the primary is killed. */
const BEFORE = 30;
const POLL = { timeout: 60_000, interval: 100 };

let primary: Postgres;
let standby: Standby;
let toPrimary: TcpProxy;
let redis: OwnRedis;
let sink: Sink;
let engine: Engine;
let shop: TestWorkspace;
const ends: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  const folder = mkdtempSync(join(services().folder, "promoted-"));
  primary = await startPostgres({ folder, durable: false, log: () => {} });
  ends.push(() => primary.stop());
  standby = await startStandby(primary);
  ends.push(() => standby.stop());
  await waitForStandby();
  [redis, sink] = await Promise.all([ownRedis(), openSink()]);
  ends.push(() => Promise.all([redis.stop(), sink.close()]));
  const url = new URL(primary.tcpUrl);
  toPrimary = await openProxy({ port: Number(url.port) });
  ends.push(() => toPrimary.close());
  url.port = String(toPrimary.port);
  engine = await startEngine(["api", "deliver", "keeper"], {
    ...{ databaseUrl: url.href, redisUrl: redis.url, smtpUrl: sink.url },
  });
  ends.push(() => engine.stop());
  shop = await engine.workspace("pro");
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

/** From now on a commit is answered when the standby has it, too. */
async function waitForStandby(): Promise<void> {
  const sql = connectRecord(primary.url, "setup", 30_000);
  appendFileSync(join(primary.folder, "data", "postgresql.auto.conf"), "synchronous_standby_names = '*'\n");
  await sql`select pg_reload_conf()`;
  const isSynchronous = async () =>
    (await sql`select from pg_stat_replication where sync_state = 'sync'`).length === 1;
  while (!(await isSynchronous()));
  await sql.end({ timeout: 1 });
}

type Accepted = { n: number; id: string };

/** Every fifth is due only after the primary is gone. */
function mailOf(n: number) {
  return mail({ subject: `Order ${n}`, ...(n % 5 === 0 && { scheduled_at: "in 10 seconds" }) });
}

async function accept(n: number): Promise<Accepted> {
  const answer = await insist<{ id: string }>(
    [engine.url],
    shop.client.key,
    "/emails",
    mailOf(n),
    `order-${n}`,
  );
  if (answer === null) throw new Error("refused for its quota");
  return { n, id: answer.id };
}

async function failOver(): Promise<void> {
  process.kill(primary.pid, "SIGQUIT");
  await primary.ended;
  await standby.promote();
  toPrimary.lead({ port: standby.port });
  toPrimary.cut();
}

test("mail goes on", async () => {
  const accepted: Accepted[] = [];
  let next = 0;
  let failing: Promise<void> | null = null;
  const lane = async () => {
    while (next < MAILS) {
      accepted.push(await accept(next++));
      if (accepted.length === BEFORE) failing = failOver();
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  await failing;

  expect(new Set(accepted.map(({ id }) => id)).size).toBe(MAILS);
  const stillOpen = async () => (await standby.sql`select from email where status <> 'delivered'`).length;
  await expect.poll(stillOpen, POLL).toBe(0);
  const told = sink.ledger.mails.map(({ messageId }) => messageId.slice(0, 36));
  expect(told.sort()).toEqual(accepted.map(({ id }) => id).sort());
  const [first] = accepted as [Accepted];
  expect((await accept(first.n)).id).toBe(first.id);
  expect(await standby.sql`select from email`).toHaveLength(MAILS);
  expect((await fetch(`${engine.url}/readyz`)).status).toBe(200);
});
