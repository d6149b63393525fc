/**
 * src/capacity/fit.ts: what is known of senders and receivers is found again in their counts, and nothing
 * else is.
 */
import { expect, test } from "vitest";
import { fitCounts } from "../../src/capacity/fit.ts";
import { binomial, randomOf } from "../../src/capacity/random.ts";
import { checkReceivers } from "../../src/capacity/receivers.ts";
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

const SENDERS = ["a", "b", "c", "d", "e", "f"];
const days = (count: number, of: (n: number) => Partial<CountedDay>) =>
  SENDERS.flatMap((id) => Array.from({ length: count }, (_, n) => day(id, of(n))));

test("who never grew fast has heard of no limit: the ramp is not taken for one", () => {
  const gentle = fitCounts(days(30, (n) => ({ attempted: n % 3 === 0 ? 2_600 : 2_000 })));
  expect(gentle.receivers).toEqual({});
  expect(gentle.notes[2]).toMatch(
    /^comfortable_ramp: nothing was throttled up to 1\.\d times .*, as shipped$/,
  );
  const bold = fitCounts(days(60, (n) => ({ attempted: n % 8 === 0 ? 20_000 : 2_000 })));
  expect(bold.receivers.comfortable_ramp).toBeGreaterThan(3);
});

test("whatever the counts, what is fitted is a file that the simulator takes, and a rate is at most 1", () => {
  const strange = [
    days(40, (n) => ({ attempted: n % 8 === 0 ? 2_000_000 : 1_000 })),
    days(90, () => ({ attempted: 1_000, blocked: 900 })),
    days(30, () => ({ attempted: 1_000, bounced: 5_000, deferred: 9_000, complained: 40, fblDelivered: 8 })),
    days(30, () => ({ bounced: 3, complained: 1 })),
  ];
  for (const counted of strange) {
    const { prior, receivers } = fitCounts(counted);
    expect(() => checkReceivers(receivers)).not.toThrow();
    for (const found of Object.values(prior)) expect(found?.rate ?? 0).toBeLessThanOrEqual(1);
  }
});
