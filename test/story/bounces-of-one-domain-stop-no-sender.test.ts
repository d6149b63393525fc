/**
 * Strangers type addresses that do not exist into a form: the bounces of their domain do not stop a sender,
 * and are shown. Nothing is counted for it while mail is settled; the suppressed addresses tell.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { bounceSources } from "../../src/record/workspaces/bouncesources.ts";
import { dailyCounts } from "../../src/record/workspaces/caps.ts";
import { MovableClock } from "../rig/clock.ts";
import { commandLine } from "../rig/command.ts";
import { heldBy } from "../rig/held.ts";
import { handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const MANY = 40_000;
const TODAY = Math.floor(Date.now() / DAY_MS);
const clock = new MovableClock(TODAY * DAY_MS + DAY_MS / 4);
let stage: Stage;
let api: TestApi;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
});
afterAll(async () => {
  await api.stop();
  await stage.close();
});

test("sixty bounces of one domain freeze nothing, and are shown", async () => {
  const ws = await api.workspace("pro");
  await lives(ws, { good: 140, forged: 60, domains: ["forged.test"] });
  await judge();
  expect(await levelOf(ws)).toBe("normal");
  const line = commandLine(stage);
  const { suspicious } = await line.json<{ suspicious: object[] }>("caps", "status", "--workspace", ws.id);
  expect(suspicious).toEqual([
    { day: dayText(TODAY), source: "forged.test, own.test", measure: "bounce", events: 61, counted: 3 },
  ]);
  const { out } = await line.postrider("caps", "why", "--workspace", ws.id);
  expect(out).toContain("Suspicious: 61 bounces from forged.test");
});

test("bounces of ten new domains freeze nothing on the day after usual mail, and are one burst", async () => {
  const ws = await api.workspace("pro");
  await lives(ws, { good: 140, forged: 0, domains: ["none.test"] }, TODAY - 1);
  await lives(ws, { good: 100, forged: 60, domains: Array.from({ length: 10 }, (_, n) => `new${n}.test`) });
  const days = await dailyCounts(api.sql, [ws.id], clock.now(), 2);
  expect(days.map(({ bounced }) => bounced)).toEqual([1, 61]);
  await judge();
  expect(await levelOf(ws)).toBe("normal");
  const line = commandLine(stage);
  const { suspicious } = await line.json<{ suspicious: object[] }>("caps", "status", "--workspace", ws.id);
  expect(suspicious).toEqual([
    {
      ...{ day: dayText(TODAY), source: expect.stringMatching(/^new\d\.test, .* and 7 others$/) },
      ...{ measure: "bounce", events: 60, counted: 4 },
    },
  ]);
});

test("as many bounces of all domains pause", async () => {
  const ws = await api.workspace("pro");
  await lives(ws, { good: 140, forged: 60, domains: Array.from({ length: 30 }, (_, n) => `d${n}.test`) });
  await judge();
  expect(await levelOf(ws)).toBe("paused");
});

test("a list at one domain pauses, since most of the latest mail goes there", async () => {
  const ws = await api.workspace("pro");
  await lives(ws, { good: 40, forged: 60, domains: ["list.test"] });
  await judge();
  expect(await levelOf(ws)).toBe("paused");
});

test("bounces of tens of thousands of domains are judged in one turn, and those of strangers freeze nothing", async () => {
  const ws = await api.workspace("pro");
  const usual = { good: 300, forged: 0, domains: ["none.test"] };
  // ids go on where they were, unless the clock goes back by more than a day
  await lives(ws, usual, TODAY - 1, DAY_MS / 5);
  await lives(ws, usual);
  await bounces(
    ws,
    Array.from({ length: MANY }, (_, n) => `kim@new${n}.test`),
    TODAY,
  );
  await api.sql`
    update tally set attempted = attempted + ${MANY / 400}, hard_bounced = hard_bounced + ${MANY / 400}
    where workspace_id = ${ws.id} and day = ${TODAY}`;
  const hand = handKeeper(stage, clock);
  const held = await heldBy(async () => {
    while (await hand.keeper.caps()) {}
  }, 50);
  await hand.close();
  expect(held).toBeLessThan(50);
  expect(await levelOf(ws)).toBe("normal");
});

test("thousands of domains that bounce on each day are judged in one turn, and told by the loudest", async () => {
  const ws = await api.workspace("pro");
  const usual = Array.from({ length: 2_000 }, (_, n) => `usual${n}.test`);
  const to = usual.map((name) => `kim@${name}`);
  // ids go on where they were, unless the clock goes back by more than a day
  clock.set((TODAY - 1) * DAY_MS + DAY_MS / 5);
  await send(ws, to.slice(1_000));
  clock.set(TODAY * DAY_MS + DAY_MS / 4);
  await send(ws, to.slice(0, 1_000));
  const names = [...usual, ...Array.from({ length: 1_000 }, (_, n) => `new${n}.test`)];
  for (let day = TODAY - 29; day <= TODAY; day++) {
    await bounces(
      ws,
      names.map((name) => `day${day}@${name}`),
      day,
    );
    await api.sql`
      insert into tally (workspace_id, day, worker, attempted, delivered, hard_bounced)
      values (${ws.id}, ${day}, 'days', 90_000, 87_000, 3_000)`;
  }
  await bounces(
    ws,
    Array.from({ length: 9 }, (_, n) => `${n}@loud.test`),
    TODAY,
  );
  const hand = handKeeper(stage, clock);
  const held = await heldBy(async () => {
    while (await hand.keeper.caps()) {}
  }, 50);
  await hand.close();
  expect(held).toBeLessThan(50);
  const found = await bounceSources(api.sql, ws.id, clock.now(), 30);
  const ofToday = found.bounces.filter(({ day }) => day === dayText(TODAY));
  expect(found.bounces.length).toBeLessThan(30 * 200);
  expect(ofToday).toContainEqual({ day: dayText(TODAY), name: "loud.test", bounced: 9 });
  const isNew = ({ name }: { name: string | null }) =>
    name === null || found.today?.shares.has(name) === false;
  expect(ofToday.filter(isNew).reduce((sum, { bounced }) => sum + bounced, 0)).toBe(2_000 + 9);
});

test.each(["first", "last"])("a list that is most of the mail counts in full, sent %s", async (when) => {
  const ws = await api.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const good = Array.from({ length: 1_000 }, (_, n) => `${n}@good${n % 9}.test`);
  const list = Array.from({ length: 1_500 }, (_, n) => `${n}@list${n}.test`);
  clock.set((TODAY - 1) * DAY_MS + DAY_MS / 5);
  await send(ws, [...good, ...good, ...good.slice(500)]);
  clock.set(TODAY * DAY_MS + DAY_MS / 4);
  await send(ws, when === "first" ? [...list, ...good] : [...good, ...list]);
  await bounces(ws, list, TODAY);
  await api.sql`
    insert into tally (workspace_id, day, worker, attempted, delivered, hard_bounced)
    values (${ws.id}, ${TODAY - 1}, 'test', 2500, 2500, 0), (${ws.id}, ${TODAY}, 'test', 2500, 1000, 1500)`;
  await judge();
  expect(await levelOf(ws)).toBe("paused");
});

test("a name in quotes may hold an @", async () => {
  const ws = await api.workspace("pro");
  await bounces(ws, ['"kim@good.test"@bad.test'], TODAY);
  const { bounces: found } = await bounceSources(api.sql, ws.id, clock.now(), 30);
  expect(found).toMatchObject([{ name: "bad.test", bounced: 1 }]);
});

test("whom somebody let in again counts no longer", async () => {
  const ws = await api.workspace("pro");
  await lives(ws, { good: 10, forged: 8, domains: ["forged.test"] });
  const bounced = async () => (await bounceSources(api.sql, ws.id, clock.now(), 30)).bounces;
  expect(await bounced()).toMatchObject([
    { name: "forged.test", bounced: 8 },
    { name: "own.test", bounced: 1 },
  ]);
  await api.sql`update suppressed_address set undone_at = now() where workspace_id = ${ws.id} and identity like '%@forged.test'`;
  expect(await bounced()).toMatchObject([{ name: "own.test", bounced: 1 }]);
});

type Life = { good: number; forged: number; domains: readonly string[] };

/** Sends it all, and has the forged part bounce, and one e-mail of the good part. */
async function lives(
  ws: TestWorkspace,
  { good, forged, domains }: Life,
  day = TODAY,
  msOfDay = DAY_MS / 4,
): Promise<void> {
  clock.set(day * DAY_MS + msOfDay);
  const to = [
    ...Array.from({ length: forged }, (_, n) => `${randomUUID()}@${domains[n % domains.length]}`),
    ...Array.from(
      { length: good },
      (_, n) => `${randomUUID()}@${n === 0 ? "own.test" : `good${n % 9}.test`}`,
    ),
  ];
  await send(ws, to);
  const bounced = to.slice(0, forged + 1);
  await api.sql`
    insert into suppressed_address (workspace_id, id, address_hash, identity, email, reason, counted_day, created_at)
    select ${ws.id}, e.id, decode(md5(address), 'hex'), address, address, 'bounce', ${day}, now()
    from unnest(${bounced}::text[]) as b(address)
    join email e on e.workspace_id = ${ws.id} and e.head -> 'to' ->> 0 like '%' || address || '%'`;
  await api.sql`
    insert into tally (workspace_id, day, worker, attempted, delivered, hard_bounced)
    values (${ws.id}, ${day}, 'test', ${good + forged}, ${good - 1}, ${bounced.length})`;
}

async function send(ws: TestWorkspace, to: readonly string[]): Promise<void> {
  for (let at = 0; at < to.length; at += 100)
    await ws.client.send(
      to.slice(at, at + 100).map((address) => ({ ...mail(), to: `Somebody <${address}>` })),
    );
}

async function bounces(ws: TestWorkspace, addresses: readonly string[], day: number): Promise<void> {
  const ids = addresses.map(() => newId(clock.now()));
  await api.sql`
    insert into suppressed_address (workspace_id, id, address_hash, identity, email, reason, counted_day, created_at)
    select ${ws.id}, id, decode(md5(address), 'hex'), address, address, 'bounce', ${day}, now()
    from unnest(${ids}::uuid[], ${[...addresses]}::text[]) as a(id, address)`;
}

async function judge(): Promise<void> {
  const hand = handKeeper(stage, clock);
  while (await hand.keeper.caps()) {}
  await hand.close();
}

async function levelOf({ id }: TestWorkspace): Promise<string | undefined> {
  const [row] = await api.sql<{ level: string }[]>`
    select state ->> 'level' as level from capacity where workspace_id = ${id}`;
  return row?.level;
}

function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}
