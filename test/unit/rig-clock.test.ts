/** The movable clock: time passes only when told to, and timers fire in order at their own time. */
import { expect, test } from "vitest";
import { MovableClock } from "../rig/clock.ts";

test("it stands until it is moved, in both directions", () => {
  const clock = new MovableClock("2026-11-20T10:00:00Z");
  expect(clock.now()).toBe(Date.UTC(2026, 10, 20, 10));
  clock.advance(90_000);
  expect(clock.given()).toBe(Date.UTC(2026, 10, 20, 10, 1, 30));
  clock.set("2026-11-20T09:00:00Z");
  expect(clock.now()).toBe(Date.UTC(2026, 10, 20, 9));
});

test("timers fire in order, at their own time, also those set on the way", () => {
  const clock = new MovableClock(0);
  const fired: [name: string, at: number][] = [];
  const note = (name: string) => () => fired.push([name, clock.now()]);
  clock.after(20, note("late"));
  clock.after(10, () => {
    note("early")();
    clock.after(5, note("between"));
  });
  const callOff = clock.after(15, note("called off"));
  callOff();
  clock.after(31, note("not yet"));
  clock.advance(30);
  expect(fired).toEqual([
    ["early", 10],
    ["between", 15],
    ["late", 20],
  ]);
  expect(clock.now()).toBe(30);
});
