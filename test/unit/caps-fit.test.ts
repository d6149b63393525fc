/**
 * src/capacity/fit.ts: what is known of senders and receivers is found again in their counts, and nothing
 * else is.
 */
import { expect, test } from "vitest";
import { fitCounts } from "../../src/capacity/fit.ts";
import { binomial, randomOf } from "../../src/capacity/random.ts";
import type { CountedDay } from "../../src/record/workspaces/caps.ts";

function day(workspaceId: string, some: Partial<CountedDay>): CountedDay {
  const counts = { attempted: 0, delivered: 0, deferred: 0, bounced: 0, blocked: 0, complained: 0 };
  return { workspaceId, fblDelivered: 0, ...counts, ...some };
}

test("too few counts change nothing, and it says so", () => {
  const fitted = fitCounts([day("a", { attempted: 500, bounced: 5 })]);
  expect(fitted).toMatchObject({ prior: { bounce: null, complaint: null }, receivers: {} });
  expect(fitted.notes[0]).toBe("bounce prior: too little is known, as shipped");
});

test("the prior is that of the workspaces", () => {
  const random = randomOf(3);
  const counted = Array.from({ length: 400 }, (_, n) => {
    // Beta(2, 198) by its gammas: the rate of this workspace
    const gamma = (shape: number) =>
      Array.from({ length: shape }, () => -Math.log(1 - random())).reduce((a, b) => a + b);
    const good = gamma(2);
    const rate = good / (good + gamma(198));
    return day(`w${n}`, { attempted: 2_000, bounced: binomial(random, 2_000, rate) });
  });
  const { bounce } = fitCounts(counted).prior;
  expect(bounce?.rate).toBeCloseTo(0.01, 2);
  expect(bounce?.weight).toBeGreaterThan(120);
  expect(bounce?.weight).toBeLessThan(330);
});

test("the volume at which receivers begin to defer, and how long a blocklist holds", () => {
  const counted = Array.from({ length: 30 }, (_, n) => `w${n}`).flatMap((id, n) => {
    const factor = 1 + n / 15;
    const steady = Array.from({ length: 6 }, () => day(id, { attempted: 2_000, deferred: 20 }));
    const jump = 2_000 * factor;
    const listed = Array.from({ length: 4 }, () => day(id, { attempted: 2_000, blocked: 1_200 }));
    return [...steady, day(id, { attempted: jump, deferred: factor > 2 ? jump * 0.4 : 30 }), ...listed];
  });
  const { receivers } = fitCounts(counted);
  expect(receivers.comfortable_ramp).toBeGreaterThan(1.8);
  expect(receivers.comfortable_ramp).toBeLessThan(2.3);
  expect(receivers).toMatchObject({ blocklist_days: 4, blocklist_share: 0.6 });
});
