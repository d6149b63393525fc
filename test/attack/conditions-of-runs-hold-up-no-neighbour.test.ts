/**
 * A run that comes to a split holds its conditions against its contact, whose properties may be long. Each
 * split searches up to a bound, and the runs of one workspace up to another before others have their turn.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Value } from "../../src/rules/filters.ts";
import { type Flows, type Shop, startFlows } from "../rig/flows.ts";
import { heldBy } from "../rig/held.ts";

const WORKED_MS_MAX = 50;
const RUNS = 30;
/** Of properties and conditions as long as they may be; the first two take up to 30 ms each time. */
const SHAPES: Record<string, { value: Value; wanted: string }> = {
  "a text of one letter": { value: "a".repeat(16_000), wanted: `b${"a".repeat(990)}` },
  "a text that repeats itself": { value: "ab".repeat(8_000), wanted: `a${"ab".repeat(490)}c` },
  "keys without end": { value: nested(2_000), wanted: "b" },
};

function nested(levels: number): Value {
  let value: Value = "a";
  for (let n = 0; n < levels; n++) value = { a: value };
  return value;
}

let flows: Flows;
beforeAll(async () => {
  flows = await startFlows();
});
afterAll(() => flows.stop());

function searching(wanted: string, conditions: number, field = "contact.properties.v") {
  const or = Array.from({ length: conditions }, () => ({ field, contains: wanted }));
  // biome-ignore lint/suspicious/noThenProperty: the word of the document
  return { split: [{ if: { or }, then: [{ wait: "1h" }] }] };
}

/** A shop whose contact has this property, and whose runs all stand before this step. */
async function searcher(value: Value, step: object): Promise<{ shop: Shop; automation: string }> {
  const shop = await flows.shop();
  await shop.contact("ann@example.net");
  await flows.sql`
    update contact set properties = ${flows.sql.json({ v: value } as never)} where workspace_id = ${shop.id}`;
  const automation = await shop.automate({ steps: [step] });
  for (let n = 0; n < RUNS; n++) await shop.track("ann@example.net");
  return { shop, automation };
}

test.each(Object.entries(SHAPES))("conditions search %s", async (name, { value, wanted }) => {
  const field = name.startsWith("keys") ? `contact.properties.v${".a".repeat(480)}` : undefined;
  const { shop, automation } = await searcher(value, searching(wanted, 190, field));
  const again = async () => {
    await flows.sql`
      update run set state = 'active', wake_at = ${new Date(flows.clock.now())}, position = '0', reason = null
      where workspace_id = ${shop.id}`;
    await flows.go();
  };
  expect(await heldBy(again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
  const ended = (await shop.runs(automation)).map(({ state, reason }) => reason ?? state);
  const end = field ? "finished" : "its conditions compare too much";
  expect(ended).toEqual(Array(RUNS).fill(end));
});

test("a neighbour's run goes on between those that search much", async () => {
  const { shop, automation } = await searcher("a".repeat(16_000), searching("b", 70));
  const neighbour = await flows.shop();
  await neighbour.contact("bob@example.net");
  const send = { from: "shop@example.com", subject: "Hello", text: "Hello" };
  await neighbour.automate({ steps: [{ tag: { add: ["a"] } }, { send }] });
  await neighbour.track("bob@example.net");
  let waiting = 0;
  const worker = flows.newWorker((submitOwn) => async (...given) => {
    const [row] = await flows.sql<{ count: number }[]>`
      select count(*)::int from run where workspace_id = ${shop.id} and state = 'active'`;
    waiting = row?.count ?? 0;
    return submitOwn(...given);
  });
  while ((await worker.tick()) === "at once") {}
  expect(waiting).toBeGreaterThan(0);
  expect(await neighbour.mails()).toHaveLength(1);
  expect((await shop.runs(automation)).map(({ state }) => state)).toEqual(Array(RUNS).fill("finished"));
  expect(flows.faults).toEqual([]);
});
