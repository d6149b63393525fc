import { afterAll, beforeAll, expect, test } from "vitest";
import { shardOf } from "../../src/rules/shards.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { handKeeper } from "../rig/keeping.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Shown = { shards: number; each: { shard: number; state: string; queued: number; held_back: number }[] };

const SETTLED_MS_MAX = 30_000;
const PATIENCE_MS = 30_000;
/** New workspaces may send a hundred e-mails an hour; the rest would wait, and no bag would be made. */
const NO_CAPS = { cap_hour: 1_000_000, cap_day: 1_000_000 };
const clock = { now: Date.now, given: () => 0 };

let stage: Stage;
let engine: Engine;
let shell: CommandLine;
let workspaces: TestWorkspace[];
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  shell = commandLine(stage);
  workspaces = [];
  // at each number of shards somebody uses the last one
  while (![2, 3, 5, 6, 9].every((shards) => workspaces.some(({ id }) => shardOf(id, shards) === shards - 1)))
    workspaces.push(await engine.workspace("pro", NO_CAPS));
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

async function send(ws: TestWorkspace): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail());
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}
const readBags = () => engine.sql<{ workspaceId: string; id: string; shard: number; epoch: string | null }[]>`
  select workspace_id as "workspaceId", id, shard, epoch from bag`;
/** How many jobs a shard has ever had. */
const jobsOf = async (shard: number) => Number((await engine.redis.get(`bull:{bags-${shard}}:id`)) ?? 0);

test("one shard at first; the number is shown and changed, and must make sense", async () => {
  expect(await shell.json<Shown>("queue", "shards")).toEqual({
    shards: 1,
    each: [{ shard: 0, state: "open", queued: 0, held_back: 0, leased: 0, oldest: null }],
  });
  expect((await shell.json<Shown>("queue", "shards", "3")).shards).toBe(3);
  expect((await shell.json<Shown>("queue", "shards")).each.map(({ shard }) => shard)).toEqual([0, 1, 2]);
  for (const wrong of ["0", "65", "1.5", "two"]) {
    const { status, err } = await shell.postrider("queue", "shards", wrong);
    expect(status).toBe(1);
    expect(err).toContain("It must be a whole number from 1 to 64.");
  }
  const { out } = await shell.postrider("queue", "shards");
  expect(out).toMatch(/^shard\s+is\s+bags queued/);
});

test("two workers serve all shards, and what is sent while their number changes arrives once", async () => {
  const workers = await Promise.all([
    startEngine(["deliver", "keeper"], stage),
    startEngine(["deliver"], stage),
  ]);
  const ids: string[] = [];
  let isSending = true;
  try {
    const sending = Promise.all(
      workspaces.map(async (ws) => {
        while (isSending) ids.push(await send(ws));
      }),
    );
    await expect.poll(() => jobsOf(2), { timeout: PATIENCE_MS }).toBeGreaterThan(0);
    for (const [shards, shard] of [
      [5, 4],
      [2, 1],
      [6, 5],
      [1, 0],
    ] as const) {
      await shell.json("queue", "shards", String(shards));
      const before = await jobsOf(shard);
      await expect.poll(() => jobsOf(shard), { timeout: PATIENCE_MS }).toBeGreaterThan(before);
    }
    isSending = false;
    await sending;
    for (const ws of workspaces)
      expect(Object.keys(await settled(engine.sql, ws.id, SETTLED_MS_MAX))).toEqual(["delivered"]);
    const messageIds = await engine.sql<{ id: string }[]>`select id from email`;
    expect(messageIds).toHaveLength(ids.length);
    expect(stage.sink.ledger.mails).toHaveLength(ids.length);
    await expect
      .poll(async () => (await shell.json<Shown>("queue", "shards")).each.length, { timeout: PATIENCE_MS })
      .toBe(1);
    for (const worker of workers) expect(worker.complaints).toEqual([]);
    expect(engine.complaints).toEqual([]);
  } finally {
    isSending = false;
    await Promise.all(workers.map((worker) => worker.stop()));
  }
});

test("bags without a job leave a shard that is taken away, and are queued where their workspace is now", async () => {
  await shell.json("queue", "shards", "9");
  await expect
    .poll(
      async () => {
        await Promise.all(workspaces.map(send));
        const [row] = await engine.sql`select max(shard) as shard from bag`;
        return row?.shard;
      },
      { timeout: PATIENCE_MS },
    )
    .toBeGreaterThan(2);
  // what is queued is noted behind the answer
  await expect.poll(() => readBags().then((all) => all.filter(({ epoch }) => epoch === null))).toEqual([]);
  // as after a loss of Redis; long ago, so that nobody takes them for just made
  await stage.redis.kill();
  await stage.redis.restart();
  await engine.sql`update bag set epoch = null, created_at = now() - interval '1 hour'`;
  const closed = (await readBags()).filter(({ shard }) => shard >= 3);
  await shell.json("queue", "shards", "3");
  const { each } = await shell.json<Shown>("queue", "shards");
  expect(each.filter(({ state }) => state === "draining").length).toBeGreaterThan(0);
  const keeper = handKeeper(stage, clock, undefined, { shards: { open: 3, served: 9 } });
  try {
    await keeper.keeper.queue();
  } finally {
    await keeper.close();
  }
  const bags = await readBags();
  for (const { id, workspaceId } of closed)
    expect(bags.find((bag) => bag.id === id)?.shard).toBe(shardOf(workspaceId, 3));
  expect(bags.every(({ shard, epoch }) => shard < 3 && epoch !== null)).toBe(true);
});
