import { expect, test } from "vitest";
import { leftToUndoByKey } from "../../src/rules/suppression.ts";

test.each([
  { counted: 0, undone: 0, left: 5 },
  { counted: 4, undone: 4, left: 1 },
  { counted: 40, undone: 5, left: 0 },
  { counted: 1_000, undone: 30, left: 70 },
])("of $counted bounces of a day, $undone taken back, $left are left to a key", ({ left, ...day }) => {
  expect(leftToUndoByKey(day)).toBe(left);
});

test("what an operator took back beyond it leaves nothing to a key", () => {
  expect(leftToUndoByKey({ counted: 10, undone: 9 })).toBeLessThanOrEqual(0);
});
