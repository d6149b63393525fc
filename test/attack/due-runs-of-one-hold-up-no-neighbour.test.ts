/**
 * The runs of a large audience wait for the same time of day, and thousands are due at once. Runs of others
 * that come due after them have their share: they do not wait until all of these are led.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Flows, type Shop, startFlows } from "../rig/flows.ts";

const RUNS = 5_000;
const NEIGHBOURS = 60;
/** Of 500 and some each: one set until it is known that many are due, and two until all had a share. */
const SETS_MAX = 3;

let flows: Flows;
beforeAll(async () => {
  flows = await startFlows();
});
afterAll(() => flows.stop());

/** A shop with so many runs that were due at this time, each before this step. */
async function shopWithRuns(count: number, step: object, dueAt: number): Promise<Shop> {
  const shop = await flows.shop();
  await shop.contact("ann@example.net");
  const id = await shop.automate({ steps: [{ wait: "1h" }, step] });
  await flows.sql`
    insert into run (workspace_id, id, automation_id, version, audience_id, contact_id, event_id, position,
      wake_at, created_at)
    select workspace_id, gen_random_uuid(), ${id}, 1, audience_id, id, 'evt_' || n, '1',
      ${new Date(dueAt)}, ${new Date(dueAt)}
    from contact, generate_series(1, ${count}) n where workspace_id = ${shop.id}`;
  return shop;
}

async function due(shops: readonly Shop[]): Promise<number> {
  const [row] = await flows.sql<{ count: number }[]>`
    select count(*)::int from run
    where workspace_id = any(${shops.map(({ id }) => id)}::uuid[]) and state = 'active'`;
  return row?.count ?? 0;
}

test("runs of others go on while thousands of one workspace are due before them", async () => {
  const now = flows.clock.now();
  const large = await shopWithRuns(RUNS, { tag: { add: ["seen"] } }, now - 60_000);
  const neighbours: Shop[] = [];
  for (let n = 0; n < NEIGHBOURS; n++)
    neighbours.push(await shopWithRuns(2, { tag: { add: ["seen"] } }, now - 1_000));
  const worker = flows.newWorker();
  for (let n = 0; n < SETS_MAX; n++) expect(await worker.tick()).toBe("at once");
  expect(await due(neighbours)).toBe(0);
  expect(await due([large])).toBeGreaterThan(RUNS / 2);
  while ((await worker.tick()) === "at once") {}
  expect(await due([large])).toBe(0);
  expect(flows.faults).toEqual([]);
});
