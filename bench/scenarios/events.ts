/**
 * events: over 50 connections, each with one matching automation: the event, its entry and its run committed;
 * then runs of wait, send, tag and split that come due while everything they mail is delivered, and how late
 * they were taken up. sleepers: what a million runs that sleep cost Redis, and how late others wake beside
 * them.
 */
import { newId } from "../../src/ids.ts";
import { audienceOf } from "../audience.ts";
import { figure } from "../figure.ts";
import { load, quantile, quantilesOf, unansweredOf, WARMUP_SECONDS } from "../load.ts";
import type { Bench, Workspace } from "../machine.ts";
import { ONE } from "../mails.ts";
import { costFigures, cpuSeconds } from "../meter.ts";
import { openLoop } from "../openloop.ts";
import type { Result, Run, Scenario } from "../scenario.ts";
import { until } from "../until.ts";

const CONNECTIONS = 50;
const RUNS = 10_000;
const RUNS_PER_SECOND = 500;

const LETTER = {
  from: "shop@example.com",
  subject: "For {{first_name}}",
  html: "<p>Hello {{first_name}}</p>",
};
const RUN_STEPS = [
  { wait: "5s" },
  { send: LETTER },
  { tag: { add: ["mailed"] } },
  { split: { percent: { a: 50, b: 50 }, a: [{ tag: { add: ["a"] } }], b: [{ tag: { add: ["b"] } }] } },
];

const events: Scenario = {
  name: "events",
  does: "events that each start a run, over 50 connections, beside single sends; then how late sleeping runs wake",
  async run(bench, run) {
    const { seconds, tell } = run;
    const workspace = await bench.workspace();
    const bodies = await audienceOf(bench, workspace, [{ wait: "30d" }]);
    const api = await bench.role("api");
    const { key } = workspace;
    const url = `${api.url}/api/v1/events`;
    await load(bench, { url, key, body: bodies, connections: CONNECTIONS, seconds: WARMUP_SECONDS, tell });
    const cpuSoFar = () => [cpuSeconds(api.pid), cpuSeconds(bench.postgres.pid)] as const;
    const before = cpuSoFar();
    const tracked = await load(bench, { url, key, body: bodies, connections: CONNECTIONS, seconds, tell });
    const [apiCpu, postgresCpu] = cpuSoFar().map(
      (cpu, n) => ((cpu - (before[n] as number)) * 1000) / tracked.requests,
    ) as [number, number];
    const singles = await load(bench, {
      url: `${api.url}/api/v1/emails`,
      key,
      body: ONE,
      connections: CONNECTIONS,
      seconds,
      tell,
    });
    tell("the backlog of runs takes its first step");
    await startRoles(bench);
    const backlog = await drained(bench);
    const woken = await wake(bench, run, url);
    return {
      figures: [
        figure(
          "events",
          tracked.perSecond * (1 - tracked.failures / tracked.requests),
          "/s",
          "at least 4,000",
        ),
        figure("events p50", tracked.p50Ms, "ms"),
        figure("events p99", tracked.p99Ms, "ms", "under 60"),
        figure("events refused", tracked.failures, ""),
        figure("single sends refused", singles.failures, ""),
        unansweredOf(tracked, singles),
        figure("api CPU per thousand events", apiCpu, "s"),
        figure("postgres CPU per thousand events", postgresCpu, "s"),
        figure("single sends beside them", singles.perSecond, "/s"),
        figure("against single sends", tracked.perSecond / singles.perSecond, "x"),
        figure("first steps of a backlog", backlog, "/s"),
        ...(woken.figures ?? []),
      ],
      distributions: [
        { name: "answer to an event", unit: "ms", points: tracked.latency },
        ...(woken.distributions ?? []),
      ],
      ...(woken.courses && { courses: woken.courses }),
    };
  },
};

const sleepers: Scenario = {
  name: "sleepers",
  does: "a million runs that sleep (--backlog), what they cost Redis, and how late others wake beside them",
  async run(bench, run) {
    const { id } = await bench.workspace();
    const [api] = await Promise.all([bench.role("api"), startRoles(bench)]);
    const before = await redisBytes(bench);
    await putToSleep(bench, id, run.sizes.backlog);
    const bytes = (await redisBytes(bench)) - before;
    const woken = await wake(bench, run, `${api.url}/api/v1/events`);
    return {
      ...woken,
      figures: [
        figure("sleeping", run.sizes.backlog, "runs"),
        figure("what they cost Redis", bytes / run.sizes.backlog, "bytes each", "0"),
        ...woken.figures,
      ],
    };
  },
};

function startRoles(bench: Bench) {
  return Promise.all([bench.role("deliver"), bench.role("keeper"), bench.role("automate")]);
}

/** Runs of wait, send, tag and split, at an even rate, while everything they mail is delivered. */
async function wake(bench: Bench, { tell }: Run, url: string): Promise<Result> {
  const workspace = await bench.workspace();
  const bodies = await audienceOf(bench, workspace, RUN_STEPS);
  const meter = bench.meter();
  const began = performance.now();
  const arrivals = { rate: RUNS_PER_SECOND, count: RUNS };
  const fired = await openLoop(arrivals, (n) => ({
    url,
    key: workspace.key,
    method: "POST",
    body: bodies[n % bodies.length] as string,
  }));
  await until(
    "every run has ended",
    async () => {
      const ended = await runsEnded(bench, workspace);
      tell(`${ended} of ${RUNS} runs have ended`);
      return ended >= RUNS - fired.failures;
    },
    500,
  );
  const perSecond = RUNS / ((performance.now() - began) / 1000);
  const lates = await lateness(bench, workspace);
  const metered = meter.stop();
  return {
    figures: [
      figure("runs that ended", await runsEnded(bench, workspace), "", RUNS.toLocaleString("en")),
      figure("runs refused", fired.failures, ""),
      figure("runs with everything", perSecond, "/s"),
      figure("woken late p50", quantile(lates, 0.5), "ms"),
      figure("woken late p99", quantile(lates, 0.99), "ms", "under 2,000"),
      ...costFigures(metered, RUNS),
    ],
    distributions: [{ name: "a sleeping run is woken late by", unit: "ms", points: quantilesOf(lates) }],
    courses: metered.courses,
  };
}

/** As their events would have left them, in the middle of a wait. */
async function putToSleep({ sql }: Bench, workspaceId: string, count: number): Promise<void> {
  const id = newId(Date.now());
  await sql`
    insert into run (workspace_id, id, automation_id, version, audience_id, contact_id, event_id, position, seq, wake_at, created_at)
    select ${workspaceId}, gen_random_uuid(), ${id}, 1, ${id}, gen_random_uuid(), 'evt_' || n, '1', 2,
           now() + interval '10 days' + n * interval '1 second', now()
    from generate_series(1, ${count}) n`;
}

async function redisBytes({ redis }: Bench): Promise<number> {
  return Number(/^used_memory_dataset:(\d+)/m.exec(await redis.info("memory"))?.[1] ?? 0);
}

async function runsEnded({ sql }: Bench, { id }: Workspace): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*)::int as n from run where workspace_id = ${id} and state = 'finished'`;
  return row?.n ?? 0;
}

/** Nobody has led the runs of the first load: now all of them are due. How many are a second. */
async function drained({ sql }: Bench): Promise<number> {
  const sleeping = async () => {
    const [row] = await sql<
      { n: number }[]
    >`select count(*)::int as n from run where wake_at > now() + interval '1 day'`;
    return row?.n ?? 0;
  };
  const [already, began] = [await sleeping(), performance.now()];
  await until(
    "the first load's runs sleep",
    async () => (await sql`select 1 from run where wake_at < now() + interval '1 day' limit 1`).length === 0,
  );
  return ((await sleeping()) - already) / ((performance.now() - began) / 1000);
}

/** From the end of each wait to the time at which the next step was taken up, in ms, rising. */
async function lateness({ sql }: Bench, { id }: Workspace): Promise<number[]> {
  const rows = await sql<{ ms: number }[]>`
    select (extract(epoch from next.began_at - wait.detail::timestamptz) * 1000)::float8 as ms
    from run_step wait
    join lateral (
      select began_at from run_step s
      where s.workspace_id = wait.workspace_id and s.run_id = wait.run_id and s.seq > wait.seq order by s.seq limit 1
    ) next on true
    where wait.workspace_id = ${id} and wait.kind = 'wait' order by 1`;
  return rows.map(({ ms }) => ms);
}

export const scenarios = [events, sleepers];
