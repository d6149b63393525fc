/**
 * People are erased while mail to them is with a worker: what the receivers answer comes after the erasure,
 * and must not bring anything of them back.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { tablesWith } from "../rig/traces.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const PATIENCE_MS = 30_000;
const PEOPLE = 40;
const MAILS_EACH = 15;
/** The mail is on its way until somebody is erased. */
const SLOW = "slow-5000";

let stage: Stage;
let engine: Engine;
let ws: TestWorkspace;
let contacts: string;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "keeper"], {
    ...stage,
    settings: { RETRY_SCHEDULE: "1,1" },
  });
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const { body } = await ws.client.post<{ id: string }>("/audiences", { name: "People" });
  contacts = `/audiences/${body.id}/contacts`;
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

type Email = {
  status: string;
  to: string[];
  html: string | null;
  events: { type: string; recipient?: string; detail?: string }[];
};

test("who is erased while the mail is on its way is not asked again, and the others get it", async () => {
  const [anna, bob] = ["once-451+anna@forget.example", `${SLOW}+bob@keep.example`];
  await ws.client.post(contacts, { email: anna });
  const id = await send([anna, bob]);
  await stage.sink.ledger.replied(anna, 1);
  await erase(anna);
  expect((await email(id)).status).toBe("accepted");

  await settled(engine.sql, ws.id, PATIENCE_MS);
  const after = await email(id);
  expect(after).toMatchObject({ status: "delivered", to: ["erased@erased.invalid", bob] });
  // a reply about somebody else may repeat the address
  const delivered = after.events.find(({ type }) => type === "delivered");
  expect(delivered?.recipient).toBe(bob);
  expect(delivered).not.toHaveProperty("detail");
  expect(stage.sink.ledger.repliesTo(anna)).toHaveLength(1);
  expect(stage.sink.ledger.repliesTo("erased@erased.invalid")).toEqual([]);
  expect(await engine.sql`select 1 from due where workspace_id = ${ws.id}`).toEqual([]);
  expect(await tablesWith(engine.sql, "anna@forget")).toEqual([]);
});

test("one that others still wait for is tried again for them alone", async () => {
  const [carl, dora, eve] = ["carl@forget.example", "once-451+dora@keep.example", `${SLOW}+eve@keep.example`];
  await ws.client.post(contacts, { email: carl });
  const id = await send([carl, dora, eve]);
  await stage.sink.ledger.replied(dora, 1);
  await erase(carl);
  await settled(engine.sql, ws.id, PATIENCE_MS);
  expect(await email(id)).toMatchObject({ status: "delivered", to: ["erased@erased.invalid", dora, eve] });
  expect(stage.sink.ledger.repliesTo(carl)).toHaveLength(1);
  expect(stage.sink.ledger.repliesTo(dora)).toHaveLength(2);
  expect(await tablesWith(engine.sql, "carl@forget")).toEqual([]);
});

test("a mail of which nobody is left ends canceled, or delivered when it was, and is not put off", async () => {
  const [finn, gina] = ["once-451+finn@forget.example", `${SLOW}+gina@forget.example`];
  for (const address of [finn, gina]) await ws.client.post(contacts, { email: address });
  const both = await send([finn, gina]);
  const alone = await send([gina]);
  await stage.sink.ledger.replied(finn, 1);
  await Promise.all([erase(finn), erase(gina)]);
  expect((await email(both)).status).toBe("canceled");

  // the second may be canceled before it has begun
  await stage.sink.ledger.received(1, ({ to }) => to.includes(gina));
  await bagsGone();
  expect(["canceled", "delivered"]).toContain((await email(alone)).status);
  expect((await email(both)).html).toBeNull();
  expect(await engine.sql`select 1 from due where workspace_id = ${ws.id}`).toEqual([]);
  expect(await tablesWith(engine.sql, "(finn|gina)@forget")).toEqual([]);
});

test(`${PEOPLE} people are erased while ${PEOPLE * MAILS_EACH} mails to them are being delivered`, async () => {
  const manners = ["", "slow-50+", "once-451+", "refuse-550+", "defer-451+"];
  const people = Array.from(
    { length: PEOPLE },
    (_, n) => `${manners[n % manners.length]}p${n}@crowd.example`,
  );
  for (const address of people) await ws.client.post(contacts, { email: address });
  const sending = Promise.all(
    people.flatMap((address, n) =>
      Array.from({ length: MAILS_EACH }, (_, k) => {
        const others = k % 3 === 0 ? [`other${n}-${k}@keep.example`] : [];
        return send([...others, address]);
      }),
    ),
  );
  await stage.sink.ledger.received(PEOPLE, ({ to }) => to.some((address) => address.includes("crowd")));
  await sending;
  await Promise.all(people.map(erase));
  const counts = await settled(engine.sql, ws.id, PATIENCE_MS);
  await bagsGone();
  expect(Object.keys(counts).every((status) => ["delivered", "canceled", "bounced"].includes(status))).toBe(
    true,
  );
  await erasuresDone();
  expect(await tablesWith(engine.sql, "crowd[.]example")).toEqual([]);
  expect(await engine.sql`select 1 from due where workspace_id = ${ws.id}`).toEqual([]);
  expect(engine.complaints).toEqual([]);
});

async function send(to: string[]): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail({ to }));
  expect(status).toBe(200);
  return body.id;
}

async function erase(address: string): Promise<void> {
  const { status } = await ws.client.call("DELETE", `${contacts}/${encodeURIComponent(address)}?mode=erase`);
  expect(status).toBe(200);
}

async function email(id: string): Promise<Email> {
  return (await ws.client.get<Email>(`/emails/${id}`)).body;
}

/** Everything that was answered is noted. */
function bagsGone(): Promise<void> {
  return gone(() => engine.sql`select 1 from bag where workspace_id = ${ws.id}`);
}

function erasuresDone(): Promise<void> {
  return gone(() => engine.sql`select 1 from erasure where workspace_id = ${ws.id}`);
}

async function gone(look: () => PromiseLike<readonly unknown[]>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while ((await look()).length > 0) {
    if (performance.now() > deadline) throw new Error("it is still there");
    await new Promise((resolve) => setImmediate(resolve));
  }
}
