import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { claimBag } from "../../src/record/mail/bagleases.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(async () => {
  await stage.close();
});

/** A worker that takes every bag and dies with it: the leases run out at once. */
async function die(engine: Engine, workspaceId: string): Promise<void> {
  const bags = await engine.sql<{ id: string; generation: number }[]>`
    select id, generation from bag where workspace_id = ${workspaceId}`;
  for (const bag of bags) await claimBag(engine.sql, { workspaceId, ...bag, token: randomUUID() }, 0);
  await engine.sql`update bag set lease_until = now() - interval '1 second' where workspace_id = ${workspaceId}`;
  await engine.sql`update bag set token = null, epoch = null, generation = generation + 1 where workspace_id = ${workspaceId}`;
}

test("a bag that ends three workers is split into ones, and a mail that ends three who compose it fails visibly", async () => {
  const api = await startEngine(["api"], stage);
  const ws = await api.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const ids = await ws.client.send(Array(3).fill(mail()));
  for (let n = 0; n < 3; n++) await die(api, ws.id);

  // the fourth worker splits the bag; one of the three mails ends three more
  const [bag] = await api.sql<{ claims: number }[]>`select claims from bag where workspace_id = ${ws.id}`;
  expect(bag?.claims).toBe(3);
  const poison = ids[0] as string;
  await api.sql`delete from bag where workspace_id = ${ws.id}`;
  await api.sql`insert into bag (workspace_id, id, shard, email_ids, bytes, created_at, claims, composing)
    select ${ws.id}, gen_random_uuid(), 0, array[id], 1, now() - interval '1 minute', l.ended, l.ended
    from email cross join lateral (select case when id = ${poison} then 3 else 0 end as ended) l where workspace_id = ${ws.id}`;
  await api.sql`update email e set bag_id = b.id from bag b
    where b.workspace_id = e.workspace_id and e.id = any(b.email_ids) and e.workspace_id = ${ws.id}`;
  const worker = await startEngine(["deliver", "keeper"], stage);
  expect(await settled(api.sql, ws.id, 30_000)).toEqual({ delivered: 2, failed: 1 });
  const { body: failed } = await ws.client.get<{ last_event: string; events: { detail?: string }[] }>(
    `/emails/${poison}`,
  );
  expect(failed.last_event).toBe("failed");
  expect(failed.events.at(-1)?.detail).toContain("workers ended");
  await worker.stop();
  await api.stop();
});

test("the bag is split by whoever takes it for the fourth time", async () => {
  const api = await startEngine(["api"], stage);
  const ws = await api.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  await ws.client.send(Array(3).fill(mail()));
  for (let n = 0; n < 3; n++) await die(api, ws.id);
  await api.sql`update bag set created_at = now() - interval '1 minute' where workspace_id = ${ws.id}`;
  const worker = await startEngine(["deliver", "keeper"], stage);
  expect(await settled(api.sql, ws.id, 30_000)).toEqual({ delivered: 3 });
  await worker.stop();
  expect(await api.sql`select 1 from bag where workspace_id = ${ws.id}`).toHaveLength(0);
  await api.stop();
});
