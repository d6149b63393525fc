/** Whoever may wait finds out how much others need the machine. */
import { expect, test } from "vitest";
import { Crowding } from "../../src/priority.ts";

/** So long that the system has looked at this process meanwhile. */
const SPIN_US = 20_000;

test("of the time in which there was something to do, the share that went by without a core", () => {
  let times = [1_000, 0, 5];
  const crowding = new Crowding(() => times);
  expect(crowding.share()).toBe(0);
  times = [1_100, 300, 9];
  expect(crowding.share()).toBe(0.75);
  expect(crowding.share()).toBe(0);
  times = [1_400, 400, 9];
  expect(crowding.share()).toBe(0.25);
});

test("where the system does not count it nobody is crowded", () => {
  expect(new Crowding(() => []).share()).toBe(0);
});

test.runIf(process.platform === "linux")("this process has run since it was asked last", () => {
  const crowding = new Crowding();
  crowding.share();
  const began = process.cpuUsage();
  while (process.cpuUsage(began).user < SPIN_US);
  const share = crowding.share();
  expect(share).toBeGreaterThanOrEqual(0);
  expect(share).toBeLessThan(1);
});
