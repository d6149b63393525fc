/**
 * Events know the filters of the automations that listen: 200 of 32 KB cost 40 ms each time they are read. A
 * version that another process has made holds from the next event on.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { FilterCache } from "../../src/record/automations/filtercache.ts";
import { type Flows, type Shop, startFlows } from "../rig/flows.ts";

let flows: Flows;
beforeAll(async () => {
  flows = await startFlows();
});
afterAll(async () => {
  await flows.stop();
  expect(flows.faults).toEqual([]);
});

const entering = (plan: string) => ({
  filters: [{ field: "event.properties.plan", eq: plan }],
  steps: [{ wait: "2d" }],
});

async function enters(shop: Shop, id: string, plan: string): Promise<boolean> {
  const before = (await shop.runs(id)).length;
  expect((await shop.track("ann@example.net", { properties: { plan } })).status).toBe(202);
  return (await shop.runs(id)).length > before;
}

test("what is known is not read again, and what has changed is", async () => {
  const shop = await flows.shop();
  await shop.contact("ann@example.net");
  const id = await shop.automate(entering("pro"));
  expect(await enters(shop, id, "pro")).toBe(true);
  expect(await enters(shop, id, "free")).toBe(false);
  await flows.sql`update automation set filters = '"not read"' where workspace_id = ${shop.id}`;
  expect(await enters(shop, id, "pro")).toBe(true);
  expect(await enters(shop, id, "free")).toBe(false);
  // not by the api that tracks the events
  expect(await shop.automate(entering("free"))).toBe(id);
  expect(await enters(shop, id, "pro")).toBe(false);
  expect(await enters(shop, id, "free")).toBe(true);
});

test("a version whose number was given before is another one", async () => {
  const shop = await flows.shop();
  await shop.contact("ann@example.net");
  const id = await shop.automate(entering("pro"));
  expect(await enters(shop, id, "pro")).toBe(true);
  await flows.sql`
    update automation set filters = ${flows.sql.json(entering("free").filters)}, updated_at = updated_at + interval '1 s'
    where workspace_id = ${shop.id}`;
  expect(await enters(shop, id, "pro")).toBe(false);
  expect(await enters(shop, id, "free")).toBe(true);
});

test("one that is paused or has another event is not remembered as listening", async () => {
  const shop = await flows.shop();
  await shop.contact("ann@example.net");
  const id = await shop.automate(entering("pro"));
  expect(await enters(shop, id, "pro")).toBe(true);
  const change = (body: object) => shop.client.call("PATCH", `/automations/${id}`, body);
  await change({ status: "disabled" });
  expect(await enters(shop, id, "pro")).toBe(false);
  await change({ status: "enabled" });
  expect(await enters(shop, id, "pro")).toBe(true);
  await change({ event: "another" });
  expect(await enters(shop, id, "pro")).toBe(false);
});

test("those used last are kept, up to 8 MB", () => {
  const cache = new FilterCache();
  const key = (version: number) => ({ workspaceId: "w", id: "a", version, updatedAt: new Date(0) });
  for (let n = 0; n < 300; n++) {
    cache.keep(key(n), [{ field: `${n}`, exists: true }], 32 * 1024);
    expect(cache.get(key(0)), `${n}`).not.toBeNull();
  }
  const kept = Array.from({ length: 300 }, (_, n) => n).filter((n) => cache.get(key(n)));
  expect(kept.length).toBeGreaterThan(200);
  expect(kept.length).toBeLessThan(256);
  expect(kept.slice(0, 2)).toEqual([0, 300 - kept.length + 1]);
});
