/**
 * The lifetime of an e-mail is for how long it is tried. Days of waiting for a cap, or for a smarthost that is away, are
 * not part of it.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { resumeDestination, suspendDestination } from "../../src/record/mail/destinations.ts";
import { MovableClock } from "../rig/clock.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const HOUR_MS = 3_600_000;
const CAP = 50;
const PATIENCE_MS = 30_000;

let stage: Stage;
let engine: Engine;
let clock: MovableClock;
beforeEach(async () => {
  stage = await openStage();
  clock = new MovableClock();
  engine = await startEngine(["api", "deliver", "keeper"], {
    ...stage,
    clock,
    settings: { EMAIL_LIFETIME_HOURS: "1", RETRY_SCHEDULE: "1" },
  });
});
afterEach(async () => {
  await engine.stop();
  await stage.close();
});

test("mail that waited four days for a cap is tried again after its first 451", async () => {
  const ws = await engine.workspace("pro", { cap_hour: CAP, cap_day: 1_000 });
  await ws.client.post("/emails/batch", Array(CAP).fill(mail()));
  const id = await send(ws, "once-451@example.net");
  expect((await email(ws, id)).status).toBe("waiting");
  await stage.sink.ledger.received(CAP);
  clock.advance(96 * HOUR_MS);
  await stage.sink.ledger.replied("once-451@example.net", 1);
  await retried(ws, id);
});

test("mail that found the smarthost away for hours is tried again after its first 451", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1_000, cap_day: 1_000 });
  await stage.sink.down();
  const id = await send(ws, "once-451@example.net");
  const isClaimed = async () => (await engine.sql`select 1 from bag where token is not null`).length === 1;
  await expect.poll(isClaimed, { timeout: PATIENCE_MS }).toBe(true);
  clock.advance(3 * HOUR_MS);
  await stage.sink.up();
  await stage.sink.ledger.replied("once-451@example.net", 1, PATIENCE_MS);
  await retried(ws, id);
}, 60_000);

test("mail whose destination was suspended for hours is tried again after its next 451", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1_000, cap_day: 1_000 });
  const id = await send(ws, "defer-451@shut.example");
  await attempted(ws, id, 1);
  await suspendDestination(
    engine.sql,
    { destination: "shut.example", until: null, reason: "a test" },
    new Date(),
  );
  const isHeld = async () => {
    clock.advance(2_000); // until its worker knows of it, it is tried
    return (await engine.sql`select 1 from due where held_by is not null`).length === 1;
  };
  await expect.poll(isHeld, { timeout: PATIENCE_MS, interval: 500 }).toBe(true);
  const before = (await email(ws, id)).attempts;
  clock.advance(3 * HOUR_MS);
  await resumeDestination(engine.sql, "shut.example");
  await attempted(ws, id, before + 1);
  expect((await email(ws, id)).status).toBe("deferred");
}, 90_000);

async function attempted(ws: TestWorkspace, id: string, times: number): Promise<void> {
  const attempts = async () => (await email(ws, id)).attempts;
  await expect.poll(attempts, { timeout: PATIENCE_MS }).toBeGreaterThanOrEqual(times);
}

/** It is deferred until its time comes, and then it is delivered. */
async function retried(ws: TestWorkspace, id: string): Promise<void> {
  await expect
    .poll(async () => (await email(ws, id)).attempts, { timeout: PATIENCE_MS })
    .toBeGreaterThanOrEqual(1);
  expect((await email(ws, id)).status).toBe("deferred");
  clock.advance(2_000);
  await settled(engine.sql, ws.id, PATIENCE_MS);
  expect((await email(ws, id)).status).toBe("delivered");
}

test("what receivers put off for longer than the lifetime still bounces", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1_000, cap_day: 1_000 });
  const id = await send(ws, "defer-451@example.net");
  await stage.sink.ledger.replied("defer-451@example.net", 1);
  await expect.poll(async () => (await email(ws, id)).status, { timeout: PATIENCE_MS }).toBe("deferred");
  clock.advance(2 * HOUR_MS);
  await settled(engine.sql, ws.id, PATIENCE_MS);
  expect((await email(ws, id)).status).toBe("bounced");
});

async function send(ws: TestWorkspace, to: string): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail({ to }));
  expect(status).toBe(200);
  return body.id;
}

async function email(ws: TestWorkspace, id: string): Promise<{ status: string; attempts: number }> {
  return (await ws.client.get<{ status: string; attempts: number }>(`/emails/${id}`)).body;
}
