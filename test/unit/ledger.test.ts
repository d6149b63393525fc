/** Windows that a wrong clock left in the future come back, and nothing is given out twice for it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Allowance,
  advance,
  countAccepted,
  emptyLedger,
  HOUR_BUCKETS,
  judge,
  type Ledger,
  roomNow,
} from "../../src/rules/ledger.ts";
import { BULK_STREAM, TRANSACTIONAL_STREAM } from "../../src/rules/stream.ts";

const HOUR_MS = 3_600_000;
const BUCKET_MS = 300_000;
const DAY_MS = 86_400_000;
const NOON = Date.UTC(2026, 10, 18, 12, 2);
const ALLOWANCE: Allowance = {
  dayLimit: 500,
  monthLimit: 5_000,
  capDay: 300,
  capHour: 100,
  reservedShare: 0.3,
};

function send(ledger: Ledger, at: number, count: number, bulk = false): number {
  advance(ledger, at);
  const weights = Array<number>(count).fill(1);
  const verdict = judge(ledger, ALLOWANCE, { counted: count, countsDay: !bulk, bulk, stream: "", weights });
  if (verdict.kind === "over") return 0;
  ledger.waiting = ledger.waitingBulk = 0;
  return verdict.go;
}

const rooms = (ledger: Ledger) => [
  roomNow(ledger, ALLOWANCE, TRANSACTIONAL_STREAM),
  roomNow(ledger, ALLOWANCE, BULK_STREAM),
];

describe("windows eight hours ahead", () => {
  test("hold back for an hour what was used, and no longer", () => {
    const ledger = emptyLedger();
    expect(send(ledger, NOON + 8 * HOUR_MS, 80)).toBe(80);
    expect(send(ledger, NOON, 50)).toBe(20);
    expect(ledger.bucket).toBe(Math.floor(NOON / BUCKET_MS));
    expect(send(ledger, NOON + HOUR_MS - BUCKET_MS, 10)).toBe(0);
    expect(send(ledger, NOON + HOUR_BUCKETS * BUCKET_MS, 100)).toBe(100);
  });

  test("of the next day bring its use into this one, with what this one had used before", () => {
    const ledger = emptyLedger();
    expect(send(ledger, NOON, 100)).toBe(100);
    countAccepted(ledger, 100);
    expect(send(ledger, NOON + DAY_MS, 70)).toBe(70);
    countAccepted(ledger, 70);
    advance(ledger, NOON);
    expect(ledger).toMatchObject({
      day: Math.floor(NOON / DAY_MS),
      capDayUsed: 170,
      dayUsed: 70,
      monthUsed: 170,
    });
    advance(ledger, NOON + DAY_MS);
    expect(ledger).toMatchObject({ closedDay: Math.floor(NOON / DAY_MS), closedUsed: 170, capDayUsed: 0 });
    expect(ledger).toMatchObject({ closedAccepted: 170, accepted: 0 });
  });

  test("of the next month give the present one no room that it had not", () => {
    const ledger = emptyLedger();
    send(ledger, NOON + 20 * DAY_MS, 100);
    advance(ledger, NOON);
    expect(ledger).toMatchObject({ month: 2026 * 12 + 10, monthUsed: 100 });
    advance(ledger, Date.UTC(2026, 11, 1));
    expect(ledger).toMatchObject({ month: 2026 * 12 + 11, monthUsed: 0 });
  });
});

test("a clock that steps back by ten minutes moves no window, also over midnight and the end of a month", () => {
  const midnight = Date.UTC(2026, 11, 1);
  const ledger = emptyLedger();
  send(ledger, midnight, 10);
  const before = structuredClone(ledger);
  advance(ledger, midnight - 2 * BUCKET_MS);
  expect(ledger).toEqual(before);
});

test("coming back never makes room, and leaves no window ahead", () => {
  const moment = fc.integer({ min: -3 * DAY_MS, max: 40 * DAY_MS });
  const sends = fc.array(fc.record({ at: moment, count: fc.nat(120), bulk: fc.boolean() }), { maxLength: 8 });
  fc.assert(
    fc.property(sends, moment, (history, end) => {
      const ledger = emptyLedger();
      for (const { at, count, bulk } of history) send(ledger, NOON + at, count, bulk);
      const before = structuredClone(ledger);
      const now = NOON + end;
      advance(ledger, now);
      const isBack = ledger.bucket < before.bucket;
      if (isBack) {
        const [room, bulkRoom] = rooms(before) as [number, number];
        const [after, bulkAfter] = rooms(ledger) as [number, number];
        expect(after).toBeLessThanOrEqual(room);
        expect(bulkAfter).toBeLessThanOrEqual(bulkRoom);
        expect(ledger).toMatchObject({ dayUsed: before.dayUsed, monthUsed: before.monthUsed });
      }
      expect(ledger.bucket).toBeLessThanOrEqual(Math.floor(now / BUCKET_MS) + 2);
      expect(ledger.day).toBeLessThanOrEqual(Math.floor((now + 2 * BUCKET_MS) / DAY_MS));
    }),
    { numRuns: 2_000 },
  );
});
