import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Leases } from "../../src/delivery/leases.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import type { HeldBag } from "../../src/record/mail/bagleases.ts";

const BAG: HeldBag = { workspaceId: "w", id: "b", generation: 0, token: "t" };

let leases: Leases;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "performance", "setInterval", "clearInterval"] });
  leases = new Leases(
    null as unknown as Sql,
    () => Date.now(),
    () => {},
  );
  leases.hold(BAG, leases.moment());
});
afterEach(() => {
  leases.close();
  vi.useRealTimers();
});

test("a lease is fresh for ten seconds", () => {
  vi.advanceTimersByTime(2_999);
  expect(leases.isFresh(BAG)).toBe(true);
  leases.close();
  vi.advanceTimersByTime(7_001);
  expect(leases.isFresh(BAG)).toBe(false);
});

test("nor is it after a sleep of the machine, in which its steady clock stood still", () => {
  vi.setSystemTime(Date.now() + 10_000);
  expect(leases.isFresh(BAG)).toBe(false);
});

test("a clock that is set back changes nothing", () => {
  vi.setSystemTime(Date.now() - 3_600_000);
  expect(leases.isFresh(BAG)).toBe(true);
});
