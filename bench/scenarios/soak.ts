/**
 * soak: whether anything grows. Sixteen days of load, each as long as `--seconds`. At night, when all mail
 * has left, the clocks of Postgres and of all roles are set a day ahead. Mail is kept for a day, and the log
 * of requests for seven, so from the ninth day on as much is dropped as is written. The keeper looks for old
 * days when it starts and then every ten minutes: it is started anew every night.
 */
import { DAY_MS } from "../../src/clock.ts";
import { makeSteppable, setClockOfPostgres } from "../../test/rig/steppedclock.ts";
import { audienceOf } from "../audience.ts";
import { type Course, type Figure, figure } from "../figure.ts";
import { quantile } from "../load.ts";
import type { Bench, SteppedRole } from "../machine.ts";
import { mail } from "../mails.ts";
import { memoryMb } from "../meter.ts";
import { openLoop, type Shot } from "../openloop.ts";
import type { Scenario } from "../scenario.ts";
import { aim, type Target, targetAt } from "../target.ts";
import { until } from "../until.ts";

const DAYS = 16;
const QUARTER = DAYS / 4;
const BATCH_OF = 10;
/** Of ten requests the first is an event, the second a mail for a moment later; the others are batches. */
const REQUESTS_OF_A_KIND = 10;
const LATER_MS = 3_000;
/** Every run of the automation tags its contact and ends. */
const STEPS = [{ tag: { add: ["seen"] } }];
const KEPT: Record<string, string> = { RETENTION_DAYS: "1", BODY_RETENTION_DAYS: "1", EVENT_LOG_DAYS: "1" };
const MEGABYTE = 1024 * 1024;
const WANTED = "at most 1.1";

/** When all mail of a day has left: what there is, by name. Names in MB end with it. */
type Evening = { second: number; values: Record<string, number> };

const soak: Scenario = {
  name: "soak",
  does: "sixteen days of `--seconds` each at `--rate`, with days dropped: whether memory, Redis or tables grow",
  async run(bench, { seconds, sizes: { rate }, tell }) {
    await makeSteppable(bench.postgres.url);
    const workspace = await bench.workspace();
    const events = await audienceOf(bench, workspace, STEPS);
    const roles = await Promise.all(
      (["api", "deliver", "automate"] as const).map((name) => bench.steppedRole(name, 0, KEPT)),
    );
    let keeper = await bench.steppedRole("keeper", 0, KEPT);
    const [api] = roles;
    if (!api) throw new Error("there is no api");
    const target = targetAt(api.url, workspace.key, rate, bench.endings.signal);
    const evenings: Evening[] = [];
    const waits: number[] = [];
    const began = performance.now();
    let [accepted, failures] = [0, 0];
    for (let day = 0; day < DAYS; day++) {
      const fired = await openLoop(
        { rate, count: rate * seconds, signal: bench.endings.signal },
        (n) => shotOf(target, events, n, day * DAY_MS),
        ({ status }, n) => {
          if (status >= 200 && status < 300) accepted += mailsOf(n);
        },
      );
      for (const wait of fired.waits) waits.push(wait);
      failures += fired.failures;
      await until("the mail of the day left", async () => !(await isOpen(bench)));
      const second = (performance.now() - began) / 1000;
      evenings.push({ second, values: await valuesOf(bench, [...roles, keeper]) });
      tell(`day ${day + 1} of ${DAYS}, ${accepted} e-mails`);
      await keeper.stop();
      const aheadMs = (day + 1) * DAY_MS;
      await Promise.all([
        setClockOfPostgres(bench.sql, aheadMs),
        ...roles.map((one) => one.setClock(aheadMs)),
      ]);
      keeper = await bench.steppedRole("keeper", aheadMs, KEPT);
      await until("the day before yesterday was dropped", () => isDropped(bench, aheadMs));
    }
    waits.sort((a, b) => a - b);
    return {
      figures: [
        figure("e-mails", accepted, ""),
        figure("e-mails that did not arrive", accepted - bench.sink.count(), "", "0"),
        figure("requests refused or failed", failures, "", "0"),
        figure("answer p99", quantile(waits, 0.99), "ms"),
        ...grown(evenings),
      ],
      courses: coursesOf(evenings),
    };
  },
};

function mailsOf(n: number): number {
  const kind = n % REQUESTS_OF_A_KIND;
  return kind === 0 ? 0 : kind === 1 ? 1 : BATCH_OF;
}

function shotOf(target: Target, events: readonly string[], n: number, aheadMs: number): Shot {
  const mails = mailsOf(n);
  if (mails === 0) return { ...aim(target, "POST", "/events"), body: events[n % events.length] ?? null };
  if (mails > 1)
    return aim(
      target,
      "POST",
      "/emails/batch",
      Array.from({ length: mails }, (_, at) => mail(n + at)),
    );
  const later = new Date(Date.now() + aheadMs + LATER_MS).toISOString();
  return aim(target, "POST", "/emails", { ...mail(n), scheduled_at: later });
}

async function isOpen({ sql }: Bench): Promise<boolean> {
  return (await sql`select 1 from bag union all select 1 from due limit 1`).length > 0;
}

/** Of mail and bodies. A day goes when all of it is older than a day. */
async function isDropped({ sql }: Bench, aheadMs: number): Promise<boolean> {
  const yesterday = new Date(Date.now() + aheadMs - DAY_MS).toISOString().slice(0, 10).replaceAll("-", "");
  const kept = await sql`
    select 1 from pg_class where relkind = 'r' and relname ~ '^(email|body)_[0-9]{8}$' and right(relname, 8) < ${yesterday}`;
  return kept.length === 0;
}

async function valuesOf({ sql, redis, postgres, redisServer }: Bench, roles: readonly SteppedRole[]) {
  const [size] = await sql<{ bytes: number }[]>`
    select pg_database_size(current_database())::float8 as bytes`;
  const used = /^used_memory:(\d+)/m.exec(await redis.info("memory"))?.[1];
  return {
    ...Object.fromEntries(roles.map(({ name, pid }) => [`memory of ${name}`, memoryMb(pid)])),
    "memory of postgres": memoryMb(postgres.pid),
    "memory of redis": memoryMb(redisServer.pid),
    "data in redis": Number(used) / MEGABYTE,
    "tables and indexes": (size?.bytes ?? 0) / MEGABYTE,
  };
}

/** The median of the last quarter of the days beside that of the one before. */
function grown(evenings: readonly Evening[]): Figure[] {
  const names = Object.keys(evenings[0]?.values ?? {});
  return names.flatMap((name) => {
    const all = evenings.map(({ values }) => values[name] ?? 0);
    const last = quantile(all.slice(-QUARTER).sort(ascending), 0.5);
    const before = quantile(all.slice(-2 * QUARTER, -QUARTER).sort(ascending), 0.5);
    return [
      figure(name, last, "MB"),
      figure(`${name}, last quarter against the one before`, before > 0 ? last / before : 1, "x", WANTED),
    ];
  });
}

function ascending(a: number, b: number): number {
  return a - b;
}

function coursesOf(evenings: readonly Evening[]): Course[] {
  return Object.keys(evenings[0]?.values ?? {}).map((name) => ({
    ...{ name, about: "memory", unit: "MB" },
    points: evenings.map(({ second, values }) => [second, values[name] ?? 0]),
  }));
}

export const scenarios = [soak];
