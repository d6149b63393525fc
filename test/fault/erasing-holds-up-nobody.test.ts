/**
 * A person who was mailed 20,000 times is erased from 200,000 e-mails of one day, while the workspace goes on
 * sending.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { longestLockWaitMs } from "../rig/lockwaits.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { tablesWith } from "../rig/traces.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const EMAILS = 200_000;
const CHUNK = 20_000;
/** Every how many e-mails one is to the person. */
const EVERY = 10;
const ADDRESS = "often@mailed.example";
const PATIENCE_MS = 60_000;
/** For a lock. What else a busy machine does to a send tells nothing about erasures. */
const WAIT_MS_MAX = 1_500;

let stage: Stage;
let engine: Engine;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "keeper"], stage);
  ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
  for (let at = 0; at < EMAILS; at += CHUNK) await fill(at);
  await engine.sql`analyze`;
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("the erasure is answered and ends, and no send waits for it", async () => {
  const { body } = await ws.client.post<{ id: string }>("/audiences", { name: "People" });
  const contacts = `/audiences/${body.id}/contacts`;
  await ws.client.post(contacts, { email: ADDRESS });

  const since = performance.now();
  const isUnderWay = async () => (await engine.sql`select 1 from erasure`).length > 0;
  let isAnswered = false;
  let wasUnderWay = false;
  const erasing = async (): Promise<void> => {
    const { status } = await ws.client.call("DELETE", `${contacts}/${ADDRESS}?mode=erase`);
    wasUnderWay = await isUnderWay();
    isAnswered = true;
    expect(status).toBe(200);
  };
  const sending = async (): Promise<void> => {
    while (!isAnswered || (await isUnderWay())) {
      if (performance.now() - since > PATIENCE_MS) throw new Error("the erasure does not end");
      expect((await ws.client.post("/emails", mail())).status).toBe(200);
    }
  };
  const watcher = connectRecord(stage.databaseUrl, "setup", PATIENCE_MS);
  const longestMs = await longestLockWaitMs(watcher, Promise.all([erasing(), sending()]));
  await watcher.end({ timeout: 1 });

  expect(await tablesWith(engine.sql, ADDRESS)).toEqual([]);
  const [left] = await engine.sql`
    select count(*)::int as struck, count(b.html)::int as bodies from email e
    join body b on b.workspace_id = e.workspace_id and b.id = e.id
    where e.workspace_id = ${ws.id} and e.head::text like '%erased@erased.invalid%'`;
  expect(left).toEqual({ struck: EMAILS / EVERY, bodies: 0 });
  expect(engine.complaints).toEqual([]);
  expect(wasUnderWay, "the answer did not wait for the mail to be struck out").toBe(true);
  expect(longestMs).toBeLessThan(WAIT_MS_MAX);
});

/** E-mails of today, as if they had been sent and settled. */
async function fill(at: number): Promise<void> {
  const now = Date.now();
  const ids = Array.from({ length: CHUNK }, () => newId(now));
  const heads = ids.map((_, n) => {
    const to = n % EVERY === 0 ? ADDRESS : `person${at + n}@example.net`;
    return JSON.stringify({
      from: "a@example.com",
      to: [to],
      cc: [],
      bcc: [],
      reply_to: [],
      subject: `Order ${n}`,
    });
  });
  await engine.sql`
    insert into email (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at, marks)
    select ${ws.id}, id, false, 'delivered', head::json, 1, 500, now(), now(), 'd'
    from unnest(${ids}::uuid[], ${heads}::text[]) as e(id, head)`;
  await engine.sql`
    insert into body (workspace_id, id, html) select ${ws.id}, id, ${`<p>${"text ".repeat(80)}</p>`}
    from unnest(${ids}::uuid[]) as e(id)`;
}
