/**
 * events: over 50 connections, each with one matching automation: the event, its entry and its run committed; then runs
 * of wait, send, tag and split that come due while everything they mail is delivered, and how late they were taken up.
 */
import { apply } from "../../src/automation/apply.ts";
import { newId } from "../../src/ids.ts";
import { insertAudience } from "../../src/record/audiences.ts";
import type { Contact } from "../../src/record/contact.ts";
import { insertContacts } from "../../src/record/contacts.ts";
import { load, ONE, quantile, quantilesOf } from "../load.ts";
import type { Bench, Workspace } from "../machine.ts";
import { costFigures, cpuSeconds } from "../meter.ts";
import { openLoop } from "../openloop.ts";
import { figure, type Scenario } from "../scenario.ts";
import { until } from "../until.ts";

const CONTACTS = 1_000;
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

/** An audience with contacts, and an automation that every `go` of them enters. */
async function audienceOf(
  { sql }: Bench,
  { id: workspaceId }: Workspace,
  steps: object[],
): Promise<string[]> {
  const now = new Date();
  const audienceId = newId(now.getTime());
  await insertAudience(sql, { workspaceId, id: audienceId, name: "Bench", doubleOptIn: false }, now);
  const contacts = Array.from({ length: CONTACTS }, (_, n): Contact => {
    const email = `user${n}@example.net`;
    return {
      workspaceId,
      id: newId(now.getTime()),
      audienceId,
      identity: email,
      email,
      firstName: `User ${n}`,
      lastName: null,
      properties: { city: "Rome" },
      tags: [],
      status: "subscribed",
      createdAt: now,
      updatedAt: now,
      archivedAt: null,
    };
  });
  await insertContacts(sql, contacts);
  const document = { name: "Bench", audience_id: audienceId, event: "go", entry: "every", steps };
  await apply(sql, workspaceId, document, now.getTime());
  const properties = { order: 17, total: 99.5, items: ["lamp", "table"] };
  return contacts.map(({ email }) =>
    JSON.stringify({ audience_id: audienceId, email, name: "go", properties }),
  );
}

const events: Scenario = {
  name: "events",
  does: "events that each start a run, over 50 connections, beside single sends; then how late sleeping runs wake",
  async run(bench, { seconds, tell }) {
    const workspace = await bench.workspace();
    const bodies = await audienceOf(bench, workspace, [{ wait: "30d" }]);
    const api = await bench.role("api");
    const { key } = workspace;
    const url = `${api.url}/api/v1/events`;
    await load({ url, key, body: bodies, connections: CONNECTIONS, seconds: 1 });
    const cpuSoFar = () => [cpuSeconds(api.pid), cpuSeconds(bench.postgres.pid)] as const;
    const before = cpuSoFar();
    const tracked = await load({ url, key, body: bodies, connections: CONNECTIONS, seconds });
    const [apiCpu, postgresCpu] = cpuSoFar().map(
      (cpu, n) => ((cpu - (before[n] as number)) * 1000) / tracked.requests,
    ) as [number, number];
    const singles = await load({
      url: `${api.url}/api/v1/emails`,
      key,
      body: ONE,
      connections: CONNECTIONS,
      seconds,
    });

    await Promise.all([bench.role("deliver"), bench.role("keeper"), bench.role("automate")]);
    const other = await bench.workspace();
    const going = await audienceOf(bench, other, RUN_STEPS);
    const meter = bench.meter();
    const began = performance.now();
    const arrivals = { rate: RUNS_PER_SECOND, count: RUNS };
    const fired = await openLoop(arrivals, (n) => ({
      url,
      key: other.key,
      method: "POST",
      body: going[n % going.length] as string,
    }));
    await until(
      "every run has ended",
      async () => {
        const ended = await runsEnded(bench, other);
        tell(`${ended} of ${RUNS} runs have ended`);
        return ended >= RUNS - fired.failures;
      },
      500,
    );
    const perSecond = RUNS / ((performance.now() - began) / 1000);
    const lates = await lateness(bench, other);
    const metered = meter.stop();
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
        figure("api CPU per thousand events", apiCpu, "s"),
        figure("postgres CPU per thousand events", postgresCpu, "s"),
        figure("single sends beside them", singles.perSecond, "/s"),
        figure("against single sends", tracked.perSecond / singles.perSecond, "x"),
        figure("runs that ended", await runsEnded(bench, other), "", `${RUNS.toLocaleString("en")}`),
        figure("runs with everything", perSecond, "/s"),
        figure("woken late p50", quantile(lates, 0.5), "ms"),
        figure("woken late p99", quantile(lates, 0.99), "ms", "under 2,000"),
        figure("refused", tracked.failures + fired.failures, ""),
        ...costFigures(metered, RUNS),
      ],
      distributions: [
        { name: "answer to an event", unit: "ms", points: tracked.latency },
        { name: "a sleeping run is woken late by", unit: "ms", points: quantilesOf(lates) },
      ],
      courses: metered.courses,
    };
  },
};

async function runsEnded({ sql }: Bench, { id }: Workspace): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*)::int as n from run where workspace_id = ${id} and state = 'finished'`;
  return row?.n ?? 0;
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

export const scenarios = [events];
