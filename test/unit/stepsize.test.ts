/** The size of a repeated step follows what the store can do. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { isTooMuch, StepSize } from "../../src/rules/stepsize.ts";

const TIMEOUT_MS = 2_000;
const SLOW_MS = TIMEOUT_MS / 2;

class PostgresError extends Error {
  readonly code: string;
  constructor(code: string) {
    super(`refused with ${code}`);
    this.code = code;
  }
}

/** A store that needs `msEach` for each row, and cancels what takes longer than its timeout. */
function go(size: StepSize, msEach: number): boolean {
  const ms = size.most * msEach;
  if (ms > TIMEOUT_MS) size.failed(new PostgresError("57014"), size.most, TIMEOUT_MS);
  else size.succeeded(size.most, ms);
  return ms <= TIMEOUT_MS;
}

test("a step that was too much for its timeout takes a quarter, and none is smaller than the minimum", () => {
  const size = new StepSize({ max: 5_000, min: 10, slowMs: SLOW_MS });
  const sizes = ["57014", "55P03", "25P03", "57014", "57014", "57014"].map((code) => {
    size.failed(new PostgresError(code), size.most, 0);
    return size.most;
  });
  expect(sizes).toEqual([1_250, 312, 78, 19, 10, 10]);
});

test("an error that less work cannot mend changes nothing", () => {
  const size = new StepSize({ max: 100, slowMs: SLOW_MS });
  for (const error of [new PostgresError("23505"), new PostgresError("57P01"), new Error("lost"), "57014"]) {
    expect(isTooMuch(error)).toBe(false);
    size.failed(error, size.most, SLOW_MS);
  }
  expect(size.most).toBe(100);
  size.failed(new Error("no answer"), size.most, SLOW_MS + 1); // whoever gave up, it took too long
  expect(size.most).toBe(25);
});

test("a slow step halves the size; quick full ones double it up to the maximum", () => {
  const size = new StepSize({ max: 400, slowMs: SLOW_MS });
  size.succeeded(400, SLOW_MS + 1);
  size.succeeded(1, SLOW_MS + 1);
  expect(size.most).toBe(100);
  size.succeeded(100, SLOW_MS / 2 + 1); // twice as much would be slow
  size.succeeded(99, 1); // says nothing about 200
  size.succeeded(0, SLOW_MS + 1); // says nothing about 100
  expect(size.most).toBe(100);
  for (let n = 0; n < 5; n++) size.succeeded(size.most, 1);
  expect(size.most).toBe(400);
});

test("whatever a row costs, the size settles where steps succeed, and returns to the maximum when rows are cheap", () => {
  fc.assert(
    fc.property(fc.double({ min: 0.0001, max: TIMEOUT_MS, noNaN: true }), (msEach) => {
      const size = new StepSize({ max: 5_000, slowMs: SLOW_MS });
      for (let n = 0; n < 8; n++) go(size, msEach);
      for (let n = 0; n < 50; n++) expect(go(size, msEach)).toBe(true);
      // and it is not smaller than it need be
      expect(size.most === 5_000 || size.most * 4 * msEach >= SLOW_MS).toBe(true);
      for (let n = 0; n < 13; n++) go(size, 0);
      expect(size.most).toBe(5_000);
    }),
  );
});

test("a step is run at the present size, measured, and its error passed on", async () => {
  const size = new StepSize({ max: 8, slowMs: SLOW_MS });
  const cancelled = new PostgresError("57014");
  await expect(size.take(() => Promise.reject(cancelled))).rejects.toBe(cancelled);
  expect(size.most).toBe(2);
  expect(
    await size.take(
      async (most) => ({ moved: most - 1 }),
      ({ moved }) => moved,
    ),
  ).toEqual({ moved: 1 });
  expect(size.most).toBe(2);
  expect(await size.full(async (most) => most - 1)).toBe(false);
  expect(await size.full(async (most) => most)).toBe(true);
  expect(size.most).toBe(4);
});

test("a step that is enough is not made smaller for being slow, and grows back to it as soon as it is not", () => {
  const size = new StepSize({ max: 1_000, slowMs: SLOW_MS, enough: 100 });
  const sizes = Array.from({ length: 6 }, () => {
    size.succeeded(size.most, SLOW_MS + 1);
    return size.most;
  });
  expect(sizes).toEqual([500, 250, 125, 100, 100, 100]);
  size.failed(new PostgresError("57014"), size.most, TIMEOUT_MS);
  size.succeeded(size.most, SLOW_MS + 1);
  expect(size.most).toBe(25);
  for (let n = 0; n < 3; n++) size.succeeded(size.most, SLOW_MS);
  expect(size.most).toBe(100);
});
