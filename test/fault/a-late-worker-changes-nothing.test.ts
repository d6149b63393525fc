/** A worker that fails, or stands still, between what a step does and the note of it. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type Flows, startFlows, told } from "../rig/flows.ts";

const LEASE_MS = 20_000;
let flows: Flows;

beforeAll(async () => {
  flows = await startFlows();
});
afterAll(() => flows.stop());

const STEPS = {
  steps: [{ send: { from: "a@example.com", subject: "Hi", text: "Hi" } }, { tag: { add: ["x"] } }],
};

test("a mail that was written and not noted is not written again", async () => {
  const shop = await flows.shop();
  const id = await shop.automate(STEPS);
  await shop.contact("ann@example.net");
  await shop.track("ann@example.net");
  const failing = flows.newWorker((submitOwn) => async (mail) => {
    await submitOwn(mail);
    throw new Error("its answer was lost");
  });
  for (let n = 0; n < 3; n++) {
    await failing.tick();
    expect((await shop.runs(id))[0]).toMatchObject({ position: "0", steps: [] });
    flows.clock.advance(LEASE_MS);
  }
  expect(flows.faults.splice(0)).toHaveLength(3);
  await flows.go();
  const [run] = await shop.runs(id);
  expect(told(run)).toEqual(["send done", "tag done"]);
  expect((await shop.mails()).map((mail) => mail.id)).toEqual([run?.steps[0]?.detail]);
});

test("a worker that stands still while another takes over changes nothing when it wakes", async () => {
  const shop = await flows.shop();
  const id = await shop.automate(STEPS);
  await shop.contact("bo@example.net");
  await shop.track("bo@example.net");
  let thaw = () => {};
  let frozen = () => {};
  const isFrozen = new Promise<void>((resolve) => {
    frozen = resolve;
  });
  const isThawed = new Promise<void>((resolve) => {
    thaw = resolve;
  });
  const still = flows.newWorker((submitOwn) => async (mail) => {
    frozen();
    await isThawed;
    return submitOwn(mail);
  });
  const standing = still.tick();
  await isFrozen;
  await flows.go();
  expect(await shop.mails()).toEqual([]); // it is in another's hands
  flows.clock.advance(LEASE_MS);
  await flows.go();
  const [run] = await shop.runs(id);
  expect(told(run)).toEqual(["send done", "tag done"]);
  thaw();
  await standing;
  expect((await shop.runs(id))[0]).toEqual(run);
  expect(await shop.mails()).toHaveLength(1);
});

test("a run whose step can never be kept stops, and takes no other with it", async () => {
  const shop = await flows.shop();
  const refused = await shop.automate({ name: "Refused", steps: [{ tag: { add: ["x"] } }] });
  const beside = await shop.automate({ name: "Beside", steps: [{ wait: "1d" }] });
  await shop.contact("di@example.net");
  await flows.sql`alter table run_step add constraint refusal check (kind <> 'tag') not valid`;
  await shop.track("di@example.net");
  await flows.go();
  await flows.sql`alter table run_step drop constraint refusal`;
  expect((await shop.runs(refused))[0]).toMatchObject({
    state: "stopped",
    reason: expect.stringMatching(/^its step cannot be kept: .*"refusal"/),
  });
  expect((await shop.runs(beside))[0]).toMatchObject({ state: "active" });
  expect(flows.faults.splice(0)).toHaveLength(2);
});

test("a run that ends its workers again and again takes down none that is due with it", async () => {
  const shop = await flows.shop();
  const id = await shop.automate(STEPS);
  const [poison, ...good] = ["ed@example.net", "flo@example.net", "gus@example.net", "hal@example.net"];
  for (const email of [poison as string, ...good]) {
    await shop.contact(email);
    await shop.track(email);
  }
  await flows.sql`update run set claims = 8 where automation_id = ${id}`;
  let deaths = 0;
  for (let n = 0; n < 12; n++) {
    const dying = flows.newWorker((submitOwn) => async (mail) => {
      if (!mail.emails.some(({ head }) => head.includes(poison as string))) return submitOwn(mail);
      deaths++;
      return new Promise(() => {});
    });
    const before = deaths;
    let next: unknown;
    do {
      next = null;
      void dying.tick().then((said) => {
        next = said;
      });
      await expect.poll(() => next !== null || deaths > before, { timeout: 10_000 }).toBe(true);
    } while (next === "at once");
    flows.clock.advance(LEASE_MS);
  }
  const states = (await shop.runs(id)).map(({ state }) => state).sort();
  expect(states).toEqual(["finished", "finished", "finished", "stopped"]);
  expect(await shop.mails()).toHaveLength(good.length);
});

/** A worker that dies, or is slow, with whatever writes to this address. */
function workerThatMeets(address: string, whatThen: () => Promise<void>): ReturnType<Flows["newWorker"]> {
  return flows.newWorker((submitOwn) => async (mail) => {
    if (mail.emails.some(({ head }) => head.includes(address))) await whatThen();
    return submitOwn(mail);
  });
}

async function suspectsBeside(shop: Awaited<ReturnType<Flows["shop"]>>, other: string): Promise<string> {
  const id = await shop.automate(STEPS);
  for (const email of ["ida@example.net", "jo@example.net", "kit@example.net"]) {
    await shop.contact(email);
    await shop.track(email);
  }
  await flows.sql`update run set claims = 3 where automation_id = ${id}`;
  await shop.automate({ ...STEPS, name: "Beside", event: "other" });
  await shop.contact(other);
  await shop.track(other, { event: "other" });
  return id;
}

const claimsOf = async (id: string): Promise<number[]> =>
  (
    await flows.sql<{ claims: number }[]>`select claims from run where automation_id = ${id} order by claims`
  ).map(({ claims }) => claims);

test("a worker that ends with new runs says nothing about those that wait to be led alone", async () => {
  const shop = await flows.shop();
  const id = await suspectsBeside(shop, "lea@example.net");
  let isDead = false;
  const dying = workerThatMeets("lea@example.net", () => {
    isDead = true;
    return new Promise(() => {});
  });
  void dying.tick();
  await expect.poll(() => isDead, { timeout: 10_000 }).toBe(true);
  expect(await claimsOf(id)).toEqual([3, 3, 4]); // one was in its hands, to be led next
  flows.clock.advance(LEASE_MS);
  await flows.go();
  expect((await shop.runs(id)).map(({ state }) => state)).toEqual(["finished", "finished", "finished"]);
});

test("a run that is suspected and not led, since the others took all the time, stays suspected", async () => {
  const shop = await flows.shop();
  const id = await suspectsBeside(shop, "mia@example.net");
  const now = performance.now.bind(performance);
  const slow = workerThatMeets("mia@example.net", async () => {
    vi.spyOn(performance, "now").mockImplementation(() => now() + 10_000);
  });
  expect(await slow.tick()).toBe("at once");
  vi.restoreAllMocks();
  expect(await claimsOf(id)).toEqual([3, 3, 3]);
  await flows.go();
  expect((await shop.runs(id)).map(({ state }) => state)).toEqual(["finished", "finished", "finished"]);
});

test("a run that is never heard of again stops, and says so", async () => {
  const shop = await flows.shop();
  const id = await shop.automate(STEPS);
  const beside = await shop.automate({ ...STEPS, name: "Beside", event: "other" });
  await shop.contact("cy@example.net");
  await shop.track("cy@example.net");
  const dying = flows.newWorker(() => () => new Promise(() => {}));
  for (let n = 0; n < 3; n++) {
    void dying.tick();
    await claimed(id, n + 1);
    flows.clock.advance(LEASE_MS);
  }
  // from now on it is led alone, and does not take others with it
  await shop.track("cy@example.net", { event: "other" });
  await flows.sql`update run set claims = 10 where automation_id = ${id}`;
  await flows.go();
  expect((await shop.runs(id))[0]).toMatchObject({ state: "stopped", reason: "given up after 10 tries" });
  expect((await shop.runs(beside))[0]).toMatchObject({ state: "finished" });

  async function claimed(automationId: string, times: number): Promise<void> {
    for (;;) {
      const [row] = await flows.sql`select claims from run where automation_id = ${automationId}`;
      if (row?.claims === times) return;
    }
  }
});
