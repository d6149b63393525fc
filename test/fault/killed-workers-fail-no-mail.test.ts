/**
 * Any process may be killed at any moment: mail that its workers only held is not what ended them, however
 * often it happens.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { startProcess } from "../rig/process.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const KILLS = 4;
const MAILS = 3;

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "keeper"], stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("mail that waits for a connection is delivered, though its workers were killed again and again", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const options = { ...stage, smtpUrl: `${stage.smtpUrl}?pool=1` };
  stage.sink.turn({ dotDelayMs: 120_000 });
  for (let n = 0; n < MAILS; n++) await ws.client.post("/emails", mail({ to: `p${n}@example.net` }));
  const heldFor = async (kill: number) =>
    (
      await engine.sql`
        select from bag where workspace_id = ${ws.id} and token is not null and claims = ${kill}
          and (${kill} <= 3 or composing = 0)`
    ).length;
  for (let kill = 1; kill <= KILLS; kill++) {
    const worker = await startProcess(["deliver"], options);
    await expect.poll(() => heldFor(kill), { timeout: 60_000 }).toBe(MAILS);
    await worker.kill();
    // its leases need not run out by themselves here
    await engine.sql`update bag set lease_until = now() where workspace_id = ${ws.id}`;
  }
  stage.sink.clearUp();
  const last = await startProcess(["deliver"], options);
  expect(await settled(engine.sql, ws.id, 60_000)).toEqual({ delivered: MAILS });
  await last.stop();
}, 240_000);

test("what was held by still more of them waits before it is tried again, and is not lost", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  stage.sink.turn({ dotDelayMs: 0 });
  const [id = ""] = await ws.client.send([mail()]);
  await engine.sql`update bag set claims = 7 where workspace_id = ${ws.id}`;
  const worker = await startProcess(["deliver"], stage);
  const seen = async () =>
    (await ws.client.get<{ last_event: string; reason?: string }>(`/emails/${id}`)).body;
  await expect.poll(async () => (await seen()).reason ?? "", { timeout: 30_000 }).toContain("workers ended");
  expect(await engine.sql`select from bag where workspace_id = ${ws.id}`).toEqual([]);
  await engine.sql`update due set at = now() where workspace_id = ${ws.id}`;
  expect(await settled(engine.sql, ws.id, 60_000)).toEqual({ delivered: 1 });
  await worker.stop();
});

test("one that ends its worker while its attachments are read is under suspicion until a worker has read them", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const attachments = [{ filename: "a.bin", content: Buffer.alloc(1_000).toString("base64") }];
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
  await ws.client.post("/emails", mail({ attachments, scheduled_at: inAnHour }));
  await engine.sql.unsafe(`
    create function accuse() returns trigger language plpgsql as $$ begin new.claims := 3; return new; end $$;
    create trigger accuse before insert on bag for each row execute function accuse()`);
  const composing = async () => {
    const [bag] = await engine.sql<{ composing: number }[]>`
      select composing from bag where workspace_id = ${ws.id}`;
    return bag?.composing;
  };
  const worker = await startProcess(["deliver"], stage);
  const other = connectRecord(stage.databaseUrl, "setup", 30_000);
  await other.begin(async (tx) => {
    await tx`lock table attachment in access exclusive mode`;
    await engine.sql`update due set at = now() where workspace_id = ${ws.id}`;
    await expect.poll(composing, { timeout: 30_000 }).toBe(1);
    await worker.kill();
  });
  expect(await composing()).toBe(1);
  await engine.sql`update bag set lease_until = now() where workspace_id = ${ws.id}`;
  await engine.sql`drop trigger accuse on bag`;
  const next = await startProcess(["deliver"], stage);
  expect(await settled(engine.sql, ws.id, 60_000)).toEqual({ delivered: 1 });
  await Promise.all([next.stop(), other.end()]);
});

test("what living workers could not write down of an e-mail under suspicion is not held against it", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  await ws.client.send([mail()]);
  // as after three that were killed; each of the next three composes it and cannot say so
  await engine.sql`update bag set claims = 3 where workspace_id = ${ws.id}`;
  await engine.sql.unsafe(`
    create sequence unheard;
    create function cut() returns trigger language plpgsql as
    $$ begin
      if nextval('unheard') <= 3 then raise exception 'canceling statement' using errcode = '57014'; end if;
      return new;
    end $$;
    create trigger cut before update on bag for each row
    when (new.composing < old.composing) execute function cut()`);
  const worker = await startProcess(["deliver"], stage);
  // a lease that is renewed no more need not run out by itself here
  const ending = setInterval(() => {
    void engine.sql`
      update bag set lease_until = now() where workspace_id = ${ws.id} and lease_until < now() + interval '12 seconds'`.catch(
      () => {},
    );
  }, 1_000);
  try {
    expect(await settled(engine.sql, ws.id, 90_000)).toEqual({ delivered: 1 });
  } finally {
    clearInterval(ending);
    await worker.stop();
  }
});
