/**
 * costs: what an e-mail costs of everything that a capacity plan counts (bench/plan.ts), as `deliver` sends
 * it; then the same in two cells with three shards of the queue each, beside what the plan says of that run.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Keyring } from "../../src/admission/keyring.ts";
import { startPostgres } from "../../src/embedded/postgres.ts";
import { startRedis } from "../../src/embedded/redis.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { migrate } from "../../src/record/db/migrate.ts";
import { setShards } from "../../src/record/mail/queueshards.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { type Compared, compareWithPlan, type MeasuredRun } from "../capacity.ts";
import { type Figure, figure } from "../figure.ts";
import { load, WARMUP_SECONDS } from "../load.ts";
import { type Bench, benchWorkspace, CLOCK, type Role, SECRET, type Workspace } from "../machine.ts";
import { BATCH, BATCH_EMAILS } from "../mails.ts";
import { costFigures, type Metered, type Watched } from "../meter.ts";
import type { Run, Scenario } from "../scenario.ts";
import { type Spent, spentEach, spentSoFar } from "../spent.ts";
import { until } from "../until.ts";

const SHARDS = 3;
/** Of both cells together. */
const CONNECTIONS = 8;
/** Of the run with two cells. */
const UNITS = { api: 1, worker: 1, shard: 2, cell: 2 };
const FITS = "0.8 to 1.2";

type OneCell = { sql: Sql; redis: RedisClient; workspace: Workspace };
/** `each`: of each cell. */
type Sent = { mails: number; perSecond: number; metered: Metered; each: Spent[] };

const costs: Scenario = {
  name: "costs",
  does: "what an e-mail costs of CPU, Redis, Postgres, disk and network; then in two cells with three shards each",
  async run(bench, run) {
    const one = await bench.workspace();
    const roles = await rolesOf(bench, {});
    const home = { sql: bench.sql, redis: bench.redis, workspace: one };
    const single = await send(bench, run, roles, [home]);
    await Promise.all(roles.map((role) => role.stop()));
    const { cell, watched, file } = await secondCell(bench);
    await Promise.all([bench.sql, cell.sql].map((sql) => setShards(sql, SHARDS)));
    const fleet = await rolesOf(bench, { CELLS_FILE: file });
    const both = await send(bench, run, fleet, [home, cell], watched);
    const cpuOf = ({ metered, mails }: Sent) =>
      (metered.cpu.reduce((sum, { seconds }) => sum + seconds, 0) * 1000) / mails;
    const [each] = single.each as [Spent];
    return {
      figures: [
        figure("e-mails", single.perSecond, "/s"),
        ...costFigures(single.metered, single.mails),
        figure("Redis commands of an e-mail", each.redisCommands, ""),
        figure("bytes to and from Redis of an e-mail", each.redisBytes, "bytes"),
        figure("commits of an e-mail", each.commits, ""),
        figure("WAL of an e-mail", each.walBytes, "bytes"),
        figure("tables of an e-mail", each.tableBytes, "bytes", "with its body, and before any vacuum"),
        ...Object.entries(each.bytesOf).map(([name, bytes]) =>
          figure(`bytes of an e-mail through ${name}`, bytes, "bytes"),
        ),
        figure("CPU per thousand e-mails in two cells", cpuOf(both), "s"),
        figure("two cells against one, by CPU", cpuOf(both) / cpuOf(single), "x", FITS),
        ...compareWithPlan(measuredIn(single), UNITS, measuredIn(both)).flatMap(comparedFigures),
      ],
      courses: single.metered.courses,
    };
  },
};

function measuredIn({ mails, perSecond, metered, each }: Sent): MeasuredRun {
  // "postgres of the second cell" is a Postgres
  const cpu = (role: string) =>
    metered.cpu.filter(({ name }) => name.startsWith(role)).reduce((sum, { seconds }) => sum + seconds, 0) /
    mails;
  const sumOf = (name: "walBytes" | "tableBytes") => each.reduce((sum, spent) => sum + spent[name], 0);
  return {
    perSecond,
    costs: {
      ...{ api: cpu("api"), deliver: cpu("deliver"), keeper: cpu("keeper") },
      ...{ postgres: cpu("postgres"), redis: cpu("redis") },
      ...{ walBytes: sumOf("walBytes"), tableBytes: sumOf("tableBytes") },
    },
  };
}

function comparedFigures({ name, unit, predicted, measured }: Compared): Figure[] {
  // some roles use so little that their share says nothing
  const wanted = name.startsWith("cores of") ? undefined : FITS;
  return [
    figure(`two cells: ${name}, as planned`, predicted, unit),
    figure(`two cells: ${name}`, measured, unit),
    figure(`two cells: ${name} against the plan`, measured / predicted, "x", wanted),
  ];
}

function rolesOf(bench: Bench, env: Record<string, string>): Promise<Role[]> {
  return Promise.all((["api", "deliver", "keeper"] as const).map((name) => bench.role(name, env)));
}

/** Each cell gets the same load, until all of it is delivered. */
async function send(
  bench: Bench,
  { seconds, tell }: Run,
  roles: readonly Role[],
  cells: readonly OneCell[],
  more: readonly Watched[] = [],
): Promise<Sent> {
  const url = `${roles[0]?.url}/api/v1/emails/batch`;
  const loadAll = (forSeconds: number) =>
    Promise.all(
      cells.map(({ workspace: { key } }) =>
        load(bench, { url, key, body: BATCH, connections: CONNECTIONS / cells.length, seconds: forSeconds }),
      ),
    );
  const isEmpty = async () => {
    const bags = await Promise.all(cells.map(({ sql }) => sql`select 1 from bag limit 1`));
    return bags.every(({ length }) => length === 0);
  };
  await loadAll(WARMUP_SECONDS);
  await until("the mail of the warm-up left", isEmpty);
  const spent = () => Promise.all(cells.map(({ sql, redis }) => spentSoFar(sql, redis, roles)));
  const before = await spent();
  const meter = bench.meter({ more });
  const began = performance.now();
  tell("sends");
  const sent = await loadAll(seconds);
  const mailsOf = sent.map(({ requests, failures }) => (requests - failures) * BATCH_EMAILS);
  const mails = mailsOf.reduce((sum, one) => sum + one, 0);
  tell(`waits until ${mails} e-mails are delivered`);
  await until("everything was delivered", isEmpty);
  const perSecond = mails / ((performance.now() - began) / 1000);
  const metered = meter.stop();
  const after = await spent();
  const each = after.map((one, n) => spentEach(before[n] as Spent, one, mails));
  return { mails, perSecond, metered, each };
}

/** Stores of its own, beside those of the bench, which are home. */
async function secondCell(bench: Bench): Promise<{ cell: OneCell; watched: Watched[]; file: string }> {
  const { endings } = bench;
  const folder = join(bench.folder, "west");
  mkdirSync(folder, { mode: 0o755 });
  const options = { durable: true, log: () => {}, signal: endings.signal };
  const postgres = await endings.start(startPostgres({ ...options, folder: join(folder, "postgres") }));
  const redisServer = await endings.start(startRedis({ ...options, folder: join(folder, "redis") }));
  const sql = connectRecord(postgres.url, "setup", 600_000);
  endings.add(() => sql.end({ timeout: 1 }));
  await migrate(sql, CLOCK.now());
  const redis = connectRedis(redisServer.url, "worker", 10_000);
  endings.add(() => redis.disconnect());
  const workspace = await benchWorkspace(new Keyring({ redis, sql, serverSecret: SECRET, clock: CLOCK }));
  const file = join(folder, "cells.json");
  const west = { database_url: postgres.url, redis_url: redisServer.url };
  writeFileSync(file, JSON.stringify({ home: "east", cells: { east: {}, west } }));
  const watched = [
    { name: "postgres of the second cell", pid: postgres.pid },
    { name: "redis of the second cell", pid: redisServer.pid },
  ];
  return { cell: { sql, redis, workspace }, watched, file };
}

export const scenarios = [costs];
