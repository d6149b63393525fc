/** The clock of a process follows Postgres, whatever the wall clock says, and tells when that is wrong. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { apart, corrected, RecordClock } from "../../src/process/recordclock.ts";

const NOON = Date.UTC(2026, 10, 18, 12);

/**
 * A Postgres, a wall clock and a monotonic clock that the test sets; an answer takes `slowMs`, read at its
 * end.
 */
class World {
  monotonicMs = 5_000;
  postgresAheadMs = NOON - 5_000;
  wallAheadMs = NOON - 5_000;
  slowMs = 0;
  isSilent = false;
  readonly sources = {
    ask: async () => {
      if (this.isSilent) throw new Error("no answer");
      this.monotonicMs += this.slowMs;
      return this.monotonicMs + this.postgresAheadMs;
    },
    wall: () => this.monotonicMs + this.wallAheadMs,
    monotonic: () => this.monotonicMs,
  };
}

let world: World;
beforeEach(() => {
  world = new World();
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("it says Postgres' time, and carries it on by the monotonic clock", async () => {
  world.wallAheadMs += 8 * 3_600_000;
  const clock = await RecordClock.open(world.sources);
  expect(clock.now()).toBe(NOON);
  world.monotonicMs += 1_500.7;
  expect(clock.now()).toBe(NOON + 1_500);
  world.wallAheadMs -= 9 * 3_600_000;
  expect(clock.now()).toBe(NOON + 1_500);
  expect(clock.given()).toBe(0);
});

test("a slow answer bounds the time loosely: what was known better stays", async () => {
  const clock = await RecordClock.open(world.sources);
  world.slowMs = 700;
  await clock.measure();
  expect(clock.now()).toBe(NOON + 700);

  const bounds = { time: 1_000, asked: 100, answered: 300 };
  expect(corrected(null, bounds)).toBe(800);
  expect([650, 750, 950].map((offset) => corrected(offset, bounds))).toEqual([700, 750, 900]);
});

test("it follows a step of Postgres' clock, and runs on while Postgres is silent", async () => {
  const clock = await RecordClock.open(world.sources);
  const unfollow = clock.follow(() => {});
  world.postgresAheadMs -= 60_000;
  world.monotonicMs += 2_000;
  await vi.advanceTimersByTimeAsync(2_000);
  expect(clock.now()).toBe(NOON - 58_000);
  world.isSilent = true;
  world.monotonicMs += 30_000;
  await vi.advanceTimersByTimeAsync(30_000);
  expect(clock.now()).toBe(NOON - 28_000);
  unfollow();
});

test("it asks nothing while others hear of the time", async () => {
  const clock = await RecordClock.open(world.sources);
  const ask = vi.spyOn(world.sources, "ask");
  const unfollow = clock.follow(() => {});
  for (let n = 0; n < 10; n++) {
    world.monotonicMs += 1_000;
    const time = world.monotonicMs + world.postgresAheadMs - n;
    clock.heard({ time, asked: world.monotonicMs, answered: world.monotonicMs });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(clock.now()).toBe(time);
  }
  expect(ask).not.toHaveBeenCalled();
  unfollow();
});

test("it tells once that the wall clock is wrong, and once that it is right again", async () => {
  const said: (string | null)[] = [];
  const clock = await RecordClock.open(world.sources);
  const unfollow = clock.follow((fault) => said.push(fault));
  world.wallAheadMs += 4_000;
  await vi.advanceTimersByTimeAsync(10_000);
  expect([said, clock.fault]).toEqual([[], null]);
  world.wallAheadMs += 4_000;
  expect(clock.fault).toBe("8 s ahead of Postgres");
  await vi.advanceTimersByTimeAsync(10_000);
  world.isSilent = true;
  world.wallAheadMs -= 68_000;
  expect(clock.fault).toBe("60 s behind Postgres");
  world.wallAheadMs += 60_000;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(said).toEqual(["8 s ahead of Postgres", null]);
  unfollow();
});

test.each([
  [3.4, "3 ms ahead of X"],
  [-999, "999 ms behind X"],
  [28_800_000, "28800 s ahead of X"],
])("%d ms is said as %s", (ms, text) => {
  expect(apart(ms, "X")).toBe(text);
});
