import fc from "fast-check";
import { expect, test } from "vitest";
import { advance, emptyLedger, GRANT_LIVES_MS, take } from "../../src/rules/ledger.ts";
import { TRANSACTIONAL_STREAM } from "../../src/rules/stream.ts";

const HOUR_MS = 3_600_000;
const START = Date.UTC(2026, 10, 18, 12);
const CAP = 7;
const ALLOWANCE = { dayLimit: null, monthLimit: 1e9, capDay: 1e9, capHour: CAP, reservedShare: 0 };

test("no hour at the receivers sees more than the cap, however long each place waits to be used", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          waitMs: fc.integer({ min: 0, max: HOUR_MS / 4 }),
          usedAfterMs: fc.integer({ min: 0, max: GRANT_LIVES_MS - 1 }),
        }),
        { minLength: 20, maxLength: 200 },
      ),
      (asked) => {
        const ledger = emptyLedger();
        const left: number[] = [];
        let now = START;
        for (const { waitMs, usedAfterMs } of asked) {
          now += waitMs;
          advance(ledger, now);
          while (take(ledger, ALLOWANCE, TRANSACTIONAL_STREAM, [1]) === 1) left.push(now + usedAfterMs);
        }
        left.sort((a, b) => a - b);
        for (const [n, at] of left.entries()) {
          const next = left[n + CAP];
          if (next !== undefined) expect(next - at).toBeGreaterThan(HOUR_MS - 1);
        }
      },
    ),
    { numRuns: 500 },
  );
});
