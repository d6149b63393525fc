/**
 * What is counted of mail to providers, and a sender that is held to a limit at one of them: his other mail
 * goes on.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ShapingRules } from "../../src/shaping/file.ts";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const RULES: ShapingRules = {
  providers: { big: { mx: ["mx.big.test"] }, small: { mx: ["mx.small.test"] } },
  rules: [],
};
const PER_DAY = 50;
/** What of it may go at once. */
const BURST = 2;

let stage: Stage;
let world: World;
let folder: string;
let engine: Engine;
let worker: Engine;
beforeAll(async () => {
  stage = await openStage();
  world = await openWorld();
  world.name({
    "big.example": { mx: [[10, "mx.big.test"]] },
    "small.example": { mx: [[10, "mx.small.test"]] },
    "mx.big.test": { addresses: ["127.1.0.1"] },
    "mx.small.test": { addresses: ["127.1.0.2"] },
  });
  await Promise.all([world.sinkAt("127.1.0.1"), world.sinkAt("127.1.0.2")]);
  folder = mkdtempSync(join(tmpdir(), "shaping-"));
  const file = join(folder, "shaping.json");
  writeFileSync(file, JSON.stringify(RULES));
  engine = await startEngine(["api", "keeper"], stage);
  const settings = { ...world.settings, SHAPING_FILE: file };
  worker = await startEngine(["deliver"], { ...stage, smtpUrl: "", settings });
});
afterAll(async () => {
  expect(worker.complaints).toEqual([]);
  await worker.stop();
  await engine.stop();
  await world.end();
  await stage.close();
  rmSync(folder, { recursive: true });
});

test("mail is counted by stream, provider and source address, and each attempt tells where it left from", async () => {
  const ws = await engine.workspace();
  const ids = await send(ws, 3, "big.example", "bulk");
  ids.push(...(await send(ws, 2, "small.example", "transactional")));
  await expect.poll(() => statuses(ws, ids), PATIENCE).toEqual(Array(5).fill("delivered"));
  const { body } = await ws.client.get<{ delivery_attempts: { source_ip: string }[] }>(`/emails/${ids[0]}`);
  const source = body.delivery_attempts[0]?.source_ip;
  expect(source).toMatch(/^127\./);
  const rows = await engine.sql`
    select stream, provider, source, sum(attempted)::int as attempted, sum(delivered)::int as delivered
    from part_tally where workspace_id = ${ws.id} group by 1, 2, 3 order by 1`;
  expect(rows).toEqual([
    { stream: "bulk", provider: "big", source, attempted: 3, delivered: 3 },
    { stream: "transactional", provider: "small", source, attempted: 2, delivered: 2 },
  ]);
});

test("a stream that is slowed at one provider waits there, and goes elsewhere; another stream and another workspace go there too", async () => {
  const ws = await engine.workspace();
  const neighbour = await engine.workspace();
  await engine.sql`
    insert into sender_limit (workspace_id, stream, provider, per_day, reason, changed_at)
    values (${ws.id}, 'bulk', 'big', ${PER_DAY}, 'trouble', now())`;
  await limitIsKnown(ws);
  const held = await send(ws, 10, "big.example", "bulk");
  const free = [
    ...(await send(ws, 10, "small.example", "bulk")),
    ...(await send(ws, 10, "big.example", "transactional")),
  ];
  const theirs = await send(neighbour, 10, "big.example", "bulk");
  await expect.poll(() => statuses(neighbour, theirs), PATIENCE).toEqual(Array(10).fill("delivered"));
  await expect.poll(() => statuses(ws, free), PATIENCE).toEqual(Array(20).fill("delivered"));
  await expect.poll(() => statuses(ws, held), PATIENCE).not.toContain("accepted");
  const found = await statuses(ws, held);
  expect(found.filter((status) => status === "delivered").length).toBeLessThanOrEqual(BURST);

  const waiting = held[found.indexOf("deferred")];
  const { body } = await ws.client.get<{ reason: string; attempts: number }>(`/emails/${waiting}`);
  expect(body.attempts).toBe(0);
  expect(body.reason).toContain("mail of bulk to big is slowed down to 50 recipients a day");
});

const PATIENCE = { timeout: 20_000 };

/** Workers look for limits every second. */
async function limitIsKnown(ws: TestWorkspace): Promise<void> {
  const statusOfNext = async () => {
    const ids = await send(ws, 1, "big.example", "bulk");
    await expect.poll(() => statuses(ws, ids), PATIENCE).not.toContain("accepted");
    return (await statuses(ws, ids))[0];
  };
  await expect.poll(statusOfNext, PATIENCE).toBe("deferred");
}

async function send(ws: TestWorkspace, many: number, domain: string, stream: string): Promise<string[]> {
  const emails = Array.from({ length: many }, (_, n) => ({ ...mail({ to: `user${n}@${domain}` }), stream }));
  const { body } = await ws.client.post<{ data: { id: string }[] }>("/emails/batch", emails);
  return body.data.map(({ id }) => id);
}

async function statuses({ id }: TestWorkspace, ids: readonly string[]): Promise<string[]> {
  const rows = await engine.sql<{ status: string }[]>`
    select e.status from unnest(${[...ids]}::uuid[]) with ordinality as i(id, place)
    join email e on e.workspace_id = ${id} and e.id = i.id order by i.place`;
  return rows.map(({ status }) => status);
}
