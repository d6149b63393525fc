/**
 * The lifetime of an e-mail is for how long it is tried. Days of waiting for a cap, or for a smarthost that
 * is away, are not part of it.
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
  await claimed();
  clock.advance(3 * HOUR_MS);
  await stage.sink.up();
  await stage.sink.ledger.replied("once-451@example.net", 1, PATIENCE_MS);
  await retried(ws, id);
});

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
});

test("mail that found the smarthost away for hours after its first 451 is tried again after its next", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1_000, cap_day: 1_000 });
  const id = await send(ws, "defer-451@example.net");
  await attempted(ws, id, 1);
  await stage.sink.down();
  clock.advance(2_000);
  await claimed();
  clock.advance(3 * HOUR_MS);
  await stage.sink.up();
  await triedAfter(ws, id, 1);
  expect((await email(ws, id)).status).toBe("deferred");
});

test("mail that waited for a cap for hours after its first 451 is tried again after its next", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1_000, cap_day: 1_000 });
  const ids = await ws.client.send(Array(CAP + 10).fill(mail({ to: "defer-451@example.net" })));
  for (const id of ids) await attempted(ws, id, 1);
  await engine.sql`
    update workspace set limits = limits || ${engine.sql.json({ cap_hour: CAP })}, version = version + 1
    where id = ${ws.id}`;
  clock.advance(15 * 60_000); // their places lapse
  const waiting = async () => {
    const rows = await engine.sql<{ id: string }[]>`select id from email where status = 'waiting'`;
    return rows.map((row) => row.id);
  };
  await expect.poll(async () => (await waiting()).length, { timeout: PATIENCE_MS }).toBe(CAP + 10);
  const [first] = (await waiting()).sort();
  clock.advance(3 * HOUR_MS);
  await triedAfter(ws, first as string, 1);
  expect((await email(ws, first as string)).status).toBe("deferred");
});

test("what was tried before and after waiting adds up to its lifetime", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1_000, cap_day: 1_000 });
  const id = await send(ws, "defer-451@shut.example");
  await attempted(ws, id, 1);
  clock.advance(40 * 60_000);
  await attempted(ws, id, 2);
  const until = new Date(clock.now() + 3 * HOUR_MS);
  await suspendDestination(
    engine.sql,
    { destination: "shut.example", until, reason: "a test" },
    new Date(clock.now()),
  );
  const isHeld = async () => {
    clock.advance(2_000);
    return (await engine.sql`select 1 from due where held_by is not null`).length === 1;
  };
  await expect.poll(isHeld, { timeout: PATIENCE_MS, interval: 500 }).toBe(true);
  const before = (await email(ws, id)).attempts;
  clock.advance(4 * HOUR_MS);
  await triedAfter(ws, id, before);
  expect((await email(ws, id)).status).toBe("deferred");
  // of 60 minutes 20 are left
  await bouncesWithin(ws, id, 55);
});

async function claimed(): Promise<void> {
  const isClaimed = async () => (await engine.sql`select 1 from bag where token is not null`).length === 1;
  await expect.poll(isClaimed, { timeout: PATIENCE_MS }).toBe(true);
}

/** As the minutes pass it is tried again: until it has an attempt more than so many, or is over. */
async function triedAfter(ws: TestWorkspace, id: string, attempts: number): Promise<void> {
  const isTried = async () => {
    clock.advance(10_000);
    const now = await email(ws, id);
    return now.attempts > attempts || now.status === "bounced";
  };
  await expect.poll(isTried, { timeout: PATIENCE_MS, interval: 500 }).toBe(true);
}

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
  await bouncesWithin(ws, id, 120);
});

/** In steps, since some may not count: those in which a bag waits for its worker. */
async function bouncesWithin(ws: TestWorkspace, id: string, minutesMax: number): Promise<void> {
  let now = await email(ws, id);
  for (let minutes = 0; minutes < minutesMax && now.status === "deferred"; minutes += 5) {
    clock.advance(5 * 60_000);
    await triedAfter(ws, id, now.attempts);
    now = await email(ws, id);
  }
  expect(now.status).toBe("bounced");
}

async function send(ws: TestWorkspace, to: string): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail({ to }));
  expect(status).toBe(200);
  return body.id;
}

async function email(ws: TestWorkspace, id: string): Promise<{ status: string; attempts: number }> {
  return (await ws.client.get<{ status: string; attempts: number }>(`/emails/${id}`)).body;
}
