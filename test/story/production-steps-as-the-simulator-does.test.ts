/**
 * One simulated life, look by look, beside the keeper that is given the same counts: the same state after
 * every look.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CapState, type DayCounts, DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { BIN_MINUTES, FIRST_MS, simulate } from "../../src/capacity/simulate.ts";
import { checkScenario } from "../../src/capacity/workload.ts";
import { MovableClock } from "../rig/clock.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const LOOK_EVERY_BINS = 3;
const clock = new MovableClock(FIRST_MS);
let stage: Stage;
let api: TestApi;
let hand: HandKeeper;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  hand = handKeeper(stage, clock);
});
afterAll(async () => {
  await api.stop();
  await hand.close();
  await stage.close();
});

/** Grows for a day; the list of the second is paused; after three clean days the probe finds it unmended. */
const LIFE = checkScenario({
  description: "",
  plan: "pro",
  days: 9,
  streams: [
    { name: "orders", class: "transactional", per_day: 700, bounce: 0.01, complaint: 0.0002 },
    {
      name: "list",
      class: "automation",
      list: 900,
      from_day: 1,
      at_hour: 9,
      bad: true,
      bounce: 0.3,
      bounce_after: { median_hours: 0.5, spread: 0.5 },
      complaint: 0.01,
    },
  ],
});

type Look = { now: number; state: CapState; counts: DayCounts[] };

test("production steps as the simulator does", { timeout: 120_000 }, async () => {
  const looks: Look[] = [];
  const run = simulate(DEFAULT_POLICY, LIFE, LIFE.days, 5, (bin, state, counts) => {
    const now = FIRST_MS + bin * BIN_MINUTES * 60_000;
    looks.push({ now, state: structuredClone(state), counts: structuredClone([...counts]) });
  });
  expect(run.changes.map(({ level }) => level)).toEqual(
    expect.arrayContaining(["normal", "paused", "probing"]),
  );

  const isWorthIt = ({ now, state }: Look, n: number) =>
    n % LOOK_EVERY_BINS === 0 ||
    state.changedAt === now ||
    looks[n - 1]?.state.hours.at(-1)?.hour !== state.hours.at(-1)?.hour;
  const ws = await api.workspace("pro");
  const levels = new Set<string>();
  for (const { now, state, counts } of looks.filter(isWorthIt)) {
    clock.advance(now - clock.now());
    for (const day of counts.slice(-4)) await count(ws.id, day);
    while (await hand.keeper.caps()) {}
    const stored = await stateOf(ws.id);
    expect(stored, new Date(now).toISOString()).toEqual(state);
    levels.add(stored.level);
  }
  expect([...levels]).toEqual(expect.arrayContaining(["normal", "paused", "probing"]));
});

async function count(workspaceId: string, counts: DayCounts): Promise<void> {
  const day = Date.parse(counts.day) / DAY_MS;
  await api.sql`
    insert into tally (workspace_id, day, worker, attempted, delivered, hard_bounced, late_bounced, blocked, complained, fbl_delivered)
    values (${workspaceId}, ${day}, 'test', ${counts.attempted}, ${counts.delivered}, ${counts.bounced}, ${counts.lateBounced ?? 0},
            ${counts.blocked}, ${counts.complained}, ${counts.fblDelivered})
    on conflict (workspace_id, day, worker) do update set attempted = excluded.attempted, delivered = excluded.delivered,
      hard_bounced = excluded.hard_bounced, late_bounced = excluded.late_bounced, blocked = excluded.blocked,
      complained = excluded.complained, fbl_delivered = excluded.fbl_delivered`;
  const { bulk } = counts;
  if (bulk && bulk.attempted > 0)
    await api.sql`
      insert into part_tally (workspace_id, day, worker, stream, provider, source, attempted, delivered, hard_bounced, late_bounced,
                              blocked, complained, fbl_delivered)
      values (${workspaceId}, ${day}, 'test', 'bulk', '', '', ${bulk.attempted}, ${bulk.delivered}, ${bulk.bounced},
              ${bulk.lateBounced ?? 0}, ${bulk.blocked}, ${bulk.complained}, ${bulk.fblDelivered})
      on conflict (workspace_id, day, worker, stream, provider, source) do update set attempted = excluded.attempted,
        delivered = excluded.delivered, hard_bounced = excluded.hard_bounced, late_bounced = excluded.late_bounced,
        blocked = excluded.blocked, complained = excluded.complained, fbl_delivered = excluded.fbl_delivered`;
  await api.sql`
    insert into cap_use (workspace_id, day, used, delayed) values (${workspaceId}, ${day}, ${counts.used}, ${counts.delayed})
    on conflict (workspace_id, day) do update set used = excluded.used, delayed = excluded.delayed`;
}

async function stateOf(workspaceId: string): Promise<CapState> {
  const [row] = await api.sql<{ state: CapState }[]>`
    select state from capacity where workspace_id = ${workspaceId}`;
  if (!row) throw new Error("the keeper has not judged the workspace");
  return row.state;
}
