/** A room while Redis answers, and while it does not. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { spacingOf } from "../../src/shaping/pacing.ts";
import { type Room, type RoomLimits, type Roommate, Rooms } from "../../src/shaping/rooms.ts";
import { eventually } from "../rig/eventually.ts";

/** Connections, messages, ms until the next, workers, rank, more at once. */
type RoomAnswer = [number, number, number, number, number, number];

let now: number;
let answer: RoomAnswer | Error;
let asked: number;
let faults: string[];
let rooms: Rooms;
const mate = { open: 0, wanted: 10, waiting: 10, wake: () => {} } satisfies Roommate;

beforeEach(() => {
  [now, asked, faults, answer] = [0, 0, [], [0, 0, 0, 4, 1, 0]];
  const evalsha = async () => {
    asked++;
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const redis = { evalsha } as unknown as RedisClient;
  rooms = new Rooms({ redis, worker: "w1", now: () => now, onFault: (error) => faults.push(String(error)) });
});
afterEach(() => rooms.close());

const settled = () => eventually(() => expect(asked).toBeGreaterThan(0));
const enter = (limits: RoomLimits): Room => rooms.enter("test", mate, () => limits);

test("a worker that was given nothing yet opens nothing", async () => {
  await settled();
  const room = enter({ connections: 5, spacings: [] });
  expect(room.connectionsMax(mate)).toBe(0);
  answer = [3, 0, 0, 4, 1, 0];
  now += 300;
  await eventually(() => expect(room.connectionsMax(mate)).toBe(3));
});

test("without Redis it keeps what it was given as long as others count it, then takes its share", async () => {
  await settled();
  const room = enter({ connections: 6, spacings: [] });
  answer = [5, 0, 0, 4, 1, 0];
  room.connectionsMax(mate);
  await eventually(() => expect(room.connectionsMax(mate)).toBe(5));
  answer = new Error("gone");
  now += 10_000;
  room.renew();
  await eventually(() => expect(faults).toHaveLength(1));
  expect(room.connectionsMax(mate)).toBe(5);
  now += 10_000;
  // 6 over 4 workers: the first two get two each, the others one
  expect(room.connectionsMax(mate)).toBe(2);
  expect(faults[0]).toContain("limits to receivers are kept by each worker for itself");
});

test("without Redis a rate is divided by the workers last seen, at once", async () => {
  await settled();
  const room = enter({ connections: 0, spacings: [spacingOf({ most: 60, ms: 60_000 })] });
  answer = new Error("gone");
  expect(room.waitMs(now)).toBeGreaterThan(0);
  await eventually(() => expect(faults).toHaveLength(1));
  let sent = 0;
  for (; now < 600_000; now += 100) {
    if (room.waitMs(now) === 0) {
      room.spend();
      sent++;
    }
    await Promise.resolve();
  }
  // ten minutes of a quarter of 60 a minute
  expect(sent).toBeGreaterThan(135);
  expect(sent).toBeLessThanOrEqual(151);
});

test("messages are asked for in advance, not one by one", async () => {
  await settled();
  const room = enter({ connections: 0, spacings: [spacingOf({ most: 1_000, ms: 1_000 })] });
  answer = [0, 10, 1, 1, 0, 0];
  const before = asked;
  let sent = 0;
  for (let n = 0; n < 1_000 && sent < 50; n++) {
    now += 10;
    if (room.waitMs(now) === 0) {
      room.spend();
      sent++;
    } else await Promise.resolve();
  }
  expect(sent).toBe(50);
  expect(asked - before).toBeLessThanOrEqual(6);
});

test("a turn that is far is asked for again, since the limit may have been raised", async () => {
  await settled();
  const room = enter({ connections: 0, spacings: [spacingOf({ most: 60, ms: 60_000 })] });
  answer = [0, 0, 3_600_000, 1, 0, 0];
  room.waitMs(now);
  await eventually(() => expect(room.turnMs(0)).toBeGreaterThan(3_000_000));
  answer = [0, 0, 0, 1, 0, 5];
  now += 3_000;
  room.turnMs(0);
  await eventually(() => expect(room.waitMs(now)).toBeLessThan(1_000));
});

test("while Redis may have lost what others hold, no connection is opened", async () => {
  const born = { fleet: 0, test: 0 };
  const evalsha = async (_sha: string, _keys: number, key: string, ...args: unknown[]) => {
    const wanted = Number(args[5]);
    return [Math.min(5, wanted), 0, 0, 2, 0, 0, now - born[key.includes("fleet") ? "fleet" : "test"]];
  };
  const redis = { evalsha } as unknown as RedisClient;
  const own = new Rooms({
    redis,
    worker: "w1",
    now: () => now,
    onFault: (error) => faults.push(String(error)),
  });
  const room = own.enter("test", mate, () => ({ connections: 5, spacings: [] }));
  const allowed = async () => {
    now += 300;
    room.connectionsMax(mate);
    for (let n = 0; n < 20; n++) await Promise.resolve();
    return room.connectionsMax(mate);
  };
  await allowed();
  now = 20_000;
  [born.fleet, born.test] = [now, now];
  expect(await allowed()).toBe(0);
  now += 2_000;
  expect(await allowed()).toBe(0);
  now += 2_000;
  expect(await allowed()).toBe(5);
  // a room that is new to Redis, in a fleet that is not
  now = 60_000;
  born.test = now;
  expect(await allowed()).toBe(5);
  own.close();
  expect(faults).toEqual([]);
});
