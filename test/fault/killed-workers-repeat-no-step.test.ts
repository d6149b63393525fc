/**
 * Workers of automations killed at random while 2,000 runs take their steps: each step has its effect, and
 * once.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { apply } from "../../src/automation/apply.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { runsEnded } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const CONTACTS = 100;
const RUNS = 2_000;
const KILLS = 8;
const WORKERS = 2;
const STEPS_BETWEEN_KILLS = 700;
const PATIENCE_MS = 120_000;

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

const letter = (subject: string) => ({ send: { from: "shop@example.com", subject, text: subject } });

test(`${RUNS} runs end, and each of their send steps made exactly one e-mail`, async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
  const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "All" });
  const document = {
    name: "Killed",
    audience_id: audience.id,
    event: "go",
    entry: "every",
    steps: [
      letter("first"),
      { tag: { add: ["seen"] } },
      { wait: "1s" },
      { split: { percent: { a: 50, b: 50 }, a: [letter("a")], b: [{ wait: "1s" }, letter("b")] } },
      letter("last"),
    ],
  };
  await apply(engine.sql, ws.id, document, Date.now());
  const addresses = Array.from({ length: CONTACTS }, (_, n) => `c${n}@example.net`);
  await Promise.all(
    addresses.map((email) => ws.client.post(`/audiences/${audience.id}/contacts`, { email })),
  );
  const workers: EngineProcess[] = await Promise.all(
    Array.from({ length: WORKERS }, () => startProcess(["automate"], stage)),
  );
  const tracking = (async () => {
    for (let n = 0; n < RUNS; n += CONTACTS) {
      const answers = await Promise.all(
        addresses.map((email) => ws.client.post("/events", { audience_id: audience.id, email, name: "go" })),
      );
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    }
  })();
  for (let n = 1; n <= KILLS; n++) {
    await steps(n * STEPS_BETWEEN_KILLS);
    const victim = n % WORKERS;
    await workers[victim]?.kill();
    workers[victim] = await startProcess(["automate"], stage);
  }
  await tracking;
  expect(await runsEnded(engine.sql, ws.id, PATIENCE_MS)).toEqual({ finished: RUNS });
  await Promise.all(workers.map((worker) => worker.stop()));

  const [counts] = await engine.sql`
    select (select count(*)::int from email where workspace_id = ${ws.id}) as mails,
           count(*)::int as sends, count(distinct detail)::int as ids,
           count(*) filter (where exists (
             select from email e where e.workspace_id = s.workspace_id and e.id = s.detail::uuid))::int as written
    from run_step s where workspace_id = ${ws.id} and kind = 'send' and result = 'done'`;
  expect(counts).toEqual({ mails: 3 * RUNS, sends: 3 * RUNS, ids: 3 * RUNS, written: 3 * RUNS });
  const subjects = await engine.sql<{ subject: string; n: number }[]>`
    select head->>'subject' as subject, count(*)::int as n from email where workspace_id = ${ws.id} group by 1 order by 1`;
  const of = Object.fromEntries(subjects.map(({ subject, n }) => [subject, n]));
  expect(of).toMatchObject({ first: RUNS, last: RUNS });
  expect((of.a ?? 0) + (of.b ?? 0)).toBe(RUNS);

  const [statistics] = await engine.sql<{ deadlocks: number }[]>`
    select deadlocks::int from pg_stat_database where datname = current_database()`;
  expect(statistics?.deadlocks).toBe(0);

  async function steps(most: number): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const [row] = await engine.sql<{ n: number }[]>`
        select count(*)::int as n from run_step where workspace_id = ${ws.id}`;
      if ((row?.n ?? 0) >= most) return;
      if (performance.now() > deadline) throw new Error(`only ${row?.n} of ${most} steps were taken`);
      await new Promise(setImmediate);
    }
  }
}, 240_000);
