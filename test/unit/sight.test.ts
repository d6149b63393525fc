/**
 * For how long the keeper counts Postgres as seen: pauses, and steps of the clock of Postgres, begin it anew.
 */
import { beforeEach, expect, test } from "vitest";
import { Sight } from "../../src/keeper/sight.ts";

const NOON = Date.UTC(2026, 10, 18, 12);
const SECOND_MS = 1_000;

let sight: Sight;
let monotonicMs: number;
let postgresMs: number;
beforeEach(() => {
  sight = new Sight();
  monotonicMs = 5_000;
  postgresMs = NOON;
});

/** A second later it is asked, and answers after `tookMs`; says for how long it has been in sight. */
function look(tookMs = 0, everyMs = SECOND_MS): number {
  pass(everyMs);
  const askedAt = monotonicMs;
  pass(tookMs);
  return sight.note(postgresMs, askedAt, monotonicMs);
}

function pass(ms: number): void {
  monotonicMs += ms;
  postgresMs += ms;
}

function seenFor(seconds: number): void {
  for (let n = 0; n <= seconds; n++) look();
}

test("it is seen from the first answer on", () => {
  expect(look()).toBe(0);
  seenFor(29);
  expect(look()).toBe(31 * SECOND_MS);
});

test("a pause begins it anew: no answer, or a late one", () => {
  seenFor(30);
  expect(look(0, 5_001)).toBe(0);
  seenFor(30);
  expect(look(5_001)).toBe(0);
  expect(look()).toBe(SECOND_MS);
});

test.each([30, 3, -3, -3_600])("a step of %i s begins it anew, at the first look after it", (seconds) => {
  seenFor(30);
  postgresMs += seconds * SECOND_MS;
  expect(look()).toBe(0);
  expect(look()).toBe(SECOND_MS);
});

test("a step is seen beside answers that take their time", () => {
  for (let n = 0; n < 30; n++) look(n % 3 === 0 ? 2_500 : 5);
  postgresMs += 20 * SECOND_MS;
  expect(look(2_500)).toBe(0);
});

test("slow answers, and a clock that is set right little by little, begin nothing anew", () => {
  seenFor(30);
  for (let n = 0; n < 60; n++) {
    postgresMs += 500;
    expect(look(n % 2 === 0 ? 4_000 : 0)).toBeGreaterThan(30 * SECOND_MS);
  }
});

test("time that this machine slept through counts as a step: its own clock stood still", () => {
  seenFor(30);
  postgresMs += 600 * SECOND_MS;
  expect(look()).toBe(0);
});
