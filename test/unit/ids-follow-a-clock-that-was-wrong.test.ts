/**
 * Ids only rise while the clock steps back a little. A clock that was a month ahead must not date those of
 * today into a day for which nothing can be stored.
 */
import { expect, test } from "vitest";
import { newId, timeOfId } from "../../src/ids.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 10, 20);

test("after a step back of an hour they go on where they were", () => {
  const before = newId(NOW);
  const after = newId(NOW - 3_600_000);
  expect(after > before).toBe(true);
  expect(timeOfId(after)).toBe(NOW);
});

test("after a step back of a month they have the time that is right again", () => {
  newId(NOW + 30 * DAY_MS);
  const [first, second] = [newId(NOW), newId(NOW)];
  expect(timeOfId(first)).toBe(NOW);
  expect(second > first).toBe(true);
});
