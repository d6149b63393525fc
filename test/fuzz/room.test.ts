/**
 * lua/take_room.lua against a plain model: connections of workers, and the pacing of src/shaping/pacing.ts.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRedis } from "../../src/redis/connect.ts";
import { loadScript, type RedisClient } from "../../src/redis/scripts.ts";
import { type DueTimes, spacingOf, takeTurns } from "../../src/shaping/pacing.ts";
import { services } from "../rig/services.ts";

const ROUNDS = 60;
const STEPS = 60;
const LIVES_MS = 15_000;
const START = 1_800_000_000_000;
const takeRoom = loadScript(
  "take_room",
  ["room"],
  ["now", "worker", "lives_ms", "connections_max", "open", "wanted", "spacings", "messages"],
);

let redis: RedisClient;
beforeAll(async () => {
  redis = connectRedis(services().redisUrl, "worker", 5_000);
});
afterAll(() => redis.disconnect());

let state = 11;
/** A whole number from 0 to below `n`; the same ones in every run. */
function draw(n: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * n);
}

test("workers never hold more than the limit together, and get it all when they want it", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const room = `{fuzz-room-${round}-${process.pid}}`;
    const most = 1 + draw(8);
    const workers = Array.from({ length: 1 + draw(4) }, (_, n) => ({ name: `w${n}`, open: 0, until: 0 }));
    let now = START;
    for (let step = 0; step < STEPS; step++) {
      now += draw(6_000);
      const worker = workers[draw(workers.length)] as (typeof workers)[number];
      const wanted = draw(12);
      const [granted = 0, , , count, rank] = (await takeRoom.run(
        redis,
        { room },
        {
          now,
          worker: worker.name,
          lives_ms: LIVES_MS,
          connections_max: most,
          open: worker.open,
          wanted,
          spacings: "",
          messages: 0,
        },
      )) as number[];
      // it opens what it may, and what it has too many of it may keep for a while
      worker.open = granted >= worker.open ? granted : Math.max(granted, worker.open - draw(3));
      worker.until = now + LIVES_MS;
      for (const one of workers) if (one.until <= now) one.open = 0;
      const open = workers.reduce((sum, one) => sum + one.open, 0);
      expect(open).toBeLessThanOrEqual(most);
      expect(granted).toBeLessThanOrEqual(wanted);
      const living = workers.filter(({ until }) => until > now);
      expect(count).toBe(living.length);
      expect(rank).toBe(living.filter(({ name }) => name < worker.name).length);
      if (living.length === 1) expect(granted).toBe(Math.min(wanted, most));
    }
    await redis.del(room);
  }
});

test("after the clock was set back, what a dead worker held is free when its time is over", async () => {
  const room = `{fuzz-back-${process.pid}}`;
  const ask = async (worker: string, now: number) => {
    const given = { now, worker, lives_ms: LIVES_MS, connections_max: 4, open: 0, wanted: 4 };
    const [connections = 0, , , , , , age = 0] = (await takeRoom.run(
      redis,
      { room },
      { ...given, spacings: "", messages: 0 },
    )) as number[];
    return { connections, age };
  };
  expect(await ask("dead", START + 3_600_000)).toEqual({ connections: 4, age: 0 });
  expect(await ask("alive", START)).toEqual({ connections: 0, age: 0 });
  expect(await ask("alive", START + LIVES_MS - 1)).toMatchObject({ connections: 0 });
  expect(await ask("alive", START + LIVES_MS)).toEqual({ connections: 4, age: LIVES_MS });
  await redis.del(room);
});

test("messages are granted as the pacing of one worker would grant them, whoever asks", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const room = `{fuzz-pace-${round}-${process.pid}}`;
    const spacings = [
      spacingOf({ most: 1 + draw(100), ms: 1_000 }),
      spacingOf({ most: 1 + draw(1_000), ms: 60_000 }),
    ].slice(draw(2));
    const due: DueTimes = new Map();
    let now = START;
    for (let step = 0; step < STEPS; step++) {
      now += draw(3_000);
      const messages = draw(40);
      const exact = spacings.map(({ ms, everyMs, burst }) => ({
        ms,
        everyMs: Number(everyMs.toFixed(4)),
        burst,
      }));
      const [, granted, waitMs = 0] = (await takeRoom.run(
        redis,
        { room },
        {
          now,
          worker: `w${draw(3)}`,
          lives_ms: LIVES_MS,
          connections_max: 0,
          open: 0,
          wanted: 0,
          spacings: exact.map(({ ms, everyMs, burst }) => `${ms}:${everyMs.toFixed(4)}:${burst}`).join(" "),
          messages,
        },
      )) as number[];
      const model = takeTurns(due, exact, messages, now);
      // Redis keeps thousandths of a millisecond
      expect(Math.abs((granted as number) - model.granted)).toBeLessThanOrEqual(model.granted > 0 ? 1 : 0);
      if (granted === model.granted)
        expect(Math.abs(waitMs - Math.max(0, model.waitMs))).toBeLessThanOrEqual(2);
      else break;
    }
    await redis.del(room);
  }
});
