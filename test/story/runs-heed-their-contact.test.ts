/** What becomes of runs, and of what they mailed, when their contact or their automation changes. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { setAutomationState } from "../../src/record/automations/automations.ts";
import { dropOldRuns, stopRuns } from "../../src/record/automations/runs.ts";
import { claimBag, loadOpen } from "../../src/record/mail/bagleases.ts";
import { type Flows, type Shop, startFlows, told } from "../rig/flows.ts";

const HOUR_MS = 3_600_000;
let flows: Flows;

beforeAll(async () => {
  flows = await startFlows();
});
afterAll(async () => {
  await flows.stop();
  expect(flows.faults).toEqual([]);
});

const STEPS = {
  steps: [
    { wait: "1h" },
    { send: { from: "shop@example.com", subject: "Hi", text: "Hi" } },
    { tag: { add: ["done"] } },
  ],
};

async function waiting(
  email: string,
  contact: object = {},
): Promise<{ shop: Shop; id: string; path: string }> {
  const shop = await flows.shop();
  const id = await shop.automate(STEPS);
  await shop.contact(email, contact);
  await shop.track(email);
  await flows.go();
  return { shop, id, path: `/audiences/${shop.audienceId}/contacts/${email}` };
}

async function afterAnHour(shop: Shop, id: string) {
  flows.clock.advance(HOUR_MS);
  await flows.go();
  const [run] = await shop.runs(id);
  return { told: told(run), state: run?.state, reason: run?.reason, mails: (await shop.mails()).length };
}

test("an unsubscribed contact gets no mail; its run goes on", async () => {
  const { shop, id, path } = await waiting("ann@example.net");
  await shop.client.call("PATCH", path, { unsubscribed: true });
  expect(await afterAnHour(shop, id)).toEqual({
    told: ["wait done", "send skipped unsubscribed", "tag done"],
    state: "finished",
    reason: null,
    mails: 0,
  });
});

test("a pending contact gets none either", async () => {
  const { shop, id } = await waiting("bo@example.net", { double_opt_in: true });
  expect((await afterAnHour(shop, id)).told).toEqual(["wait done", "send skipped pending", "tag done"]);
});

test("an archived contact is neither mailed nor tagged", async () => {
  const { shop, id, path } = await waiting("cy@example.net");
  await shop.client.call("DELETE", path);
  expect((await afterAnHour(shop, id)).told).toEqual([
    "wait done",
    "send skipped archived",
    "tag skipped archived",
  ]);
});

test("an erased contact's runs end at once, and its events are gone", async () => {
  const { shop, id, path } = await waiting("di@example.net");
  await shop.client.call("DELETE", `${path}?mode=erase`);
  expect((await shop.runs(id))[0]).toMatchObject({
    state: "stopped",
    reason: "contact erased",
    wakeAt: null,
  });
  const [left] = await flows.sql`
    select (select count(*)::int from event where workspace_id = ${shop.id}) as events,
           (select count(*)::int from entry where workspace_id = ${shop.id}) as entries`;
  expect(left).toEqual({ events: 0, entries: 0 });
  expect((await afterAnHour(shop, id)).mails).toBe(0);
});

test("a deleted audience stops its runs", async () => {
  const { shop, id } = await waiting("ed@example.net");
  await shop.client.call("DELETE", `/audiences/${shop.audienceId}`);
  expect(await afterAnHour(shop, id)).toMatchObject({ state: "stopped", reason: "contact erased", mails: 0 });
});

test.each([
  ["unsubscribed", "PATCH", "", { unsubscribed: true }],
  ["archived", "DELETE", "", undefined],
] as const)("a mail whose contact is %s when it leaves is held back", async (barred, method, query, body) => {
  const { shop, id, path } = await waiting(`flo-${barred}@example.net`);
  expect((await afterAnHour(shop, id)).mails).toBe(1);
  const bag = flows.api.bags.at(-1);
  const [row] = await flows.sql<{ id: string; generation: number; emailIds: string[] }[]>`
    select id, generation, email_ids as "emailIds" from bag where workspace_id = ${shop.id}`;
  expect(bag?.workspaceId).not.toBe(shop.id); // the worker's own commit made it
  const held = { workspaceId: shop.id, id: row?.id ?? "", generation: row?.generation ?? 0, token: shop.id };
  await claimBag(flows.sql, held, flows.clock.given());
  const [open] = await loadOpen(flows.sql, held, row?.emailIds ?? []);
  expect(open?.barred).toBeNull();
  await shop.client.call(method, `${path}${query}`, body);
  expect((await loadOpen(flows.sql, held, row?.emailIds ?? []))[0]?.barred).toBe(barred);
});

test("so is a mail whose audience is deleted, also before its contacts are erased", async () => {
  const { shop, id } = await waiting("flo-deleted@example.net");
  expect((await afterAnHour(shop, id)).mails).toBe(1);
  const [row] = await flows.sql<{ id: string; generation: number; emailIds: string[] }[]>`
    select id, generation, email_ids as "emailIds" from bag where workspace_id = ${shop.id}`;
  const held = { workspaceId: shop.id, id: row?.id ?? "", generation: row?.generation ?? 0, token: shop.id };
  await claimBag(flows.sql, held, flows.clock.given());
  await shop.client.call("DELETE", `/audiences/${shop.audienceId}`);
  const [contact] = await flows.sql`select from contact where workspace_id = ${shop.id}`;
  expect(contact).toBeDefined();
  expect((await loadOpen(flows.sql, held, row?.emailIds ?? []))[0]?.barred).toBe("erased");
});

test("a run is stopped as one of its own automation only", async () => {
  const { shop, id } = await waiting("gus@example.net");
  const other = await shop.automate({ ...STEPS, name: "Other", event: "other" });
  const now = new Date(flows.clock.now());
  const [run] = await shop.runs(id);
  const runId = run?.id ?? "";
  expect(await stopRuns(flows.sql, shop.id, { automationId: other, runId }, "by hand", now)).toBe(0);
  expect(await stopRuns(flows.sql, shop.id, { automationId: id, runId }, "by hand", now)).toBe(1);
});

test("a paused automation starts nothing, and what is under way goes on", async () => {
  const { shop, id } = await waiting("gil@example.net");
  const now = () => new Date(flows.clock.now());
  await setAutomationState(flows.sql, shop.id, id, "paused", now());
  expect((await shop.track("gil@example.net")).status).toBe(202);
  expect(await shop.runs(id)).toHaveLength(1);
  expect(await afterAnHour(shop, id)).toMatchObject({ state: "finished", mails: 1 });
  await setAutomationState(flows.sql, shop.id, id, "active", now());
  await shop.track("gil@example.net");
  expect(await shop.runs(id)).toHaveLength(2);
});

test("stopped runs stay where they are", async () => {
  const { shop, id } = await waiting("hal@example.net");
  expect(
    await stopRuns(flows.sql, shop.id, { automationId: id }, "by hand", new Date(flows.clock.now())),
  ).toBe(1);
  expect(await afterAnHour(shop, id)).toEqual({
    told: ["wait done"],
    state: "stopped",
    reason: "by hand",
    mails: 0,
  });
});

test("ended runs and old events go after their days; a sleeping run keeps its event", async () => {
  const { shop, id } = await waiting("ida@example.net");
  await shop.track("ida@example.net", { event: "nobody-listens" });
  await shop.automate({ ...STEPS, name: "Long", event: "long", steps: [{ wait: "300d" }] });
  await shop.track("ida@example.net", { event: "long" });
  await afterAnHour(shop, id);
  const kept = async (now: number) => {
    while ((await dropOldRuns(flows.sql, new Date(now - 30 * 24 * HOUR_MS), 1)) > 0) {}
    const [row] = await flows.sql`
      select (select count(*)::int from run where workspace_id = ${shop.id}) as runs,
             (select count(*)::int from run_step where workspace_id = ${shop.id}) as steps,
             (select count(*)::int from event where workspace_id = ${shop.id}) as events`;
    return row;
  };
  const ended = flows.clock.now();
  expect(await kept(ended + 30 * 24 * HOUR_MS)).toEqual({ runs: 2, steps: 4, events: 1 });
  expect(await kept(ended + 30 * 24 * HOUR_MS + 1)).toEqual({ runs: 1, steps: 1, events: 1 });
});
