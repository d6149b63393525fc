/** src/capacity/forecast.ts: days to come under the policy as it is. */
import { describe, expect, test } from "vitest";
import { forecast } from "../../src/capacity/forecast.ts";
import { dayOf, dayPlus } from "../../src/capacity/policy/evidence.ts";
import { type DayCounts, DEFAULT_POLICY, startState } from "../../src/capacity/policy.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2027, 2, 10, 15);
const today = dayOf(NOW);

function counts(day: string, used: number, bounced = 0): DayCounts {
  const delivered = used - bounced;
  return {
    day,
    attempted: used,
    delivered,
    bounced,
    blocked: 0,
    complained: 0,
    fblDelivered: Math.floor(delivered / 3),
    delayed: 0,
    used,
  };
}

const week = (used: number, bounced = 0) =>
  Array.from({ length: 7 }, (_, n) => counts(dayPlus(today, n - 7), used, bounced));

const settled = { ...startState(DEFAULT_POLICY, "pro"), evaluatedOn: today };

describe("a forecast", () => {
  test("shows how far today's demand takes the caps, and how fast they can grow at most", () => {
    const days = forecast(DEFAULT_POLICY, "pro", settled, week(250), null, NOW, 12);
    expect(days.map(({ day }) => day).slice(0, 2)).toEqual([dayPlus(today, 1), dayPlus(today, 2)]);
    // 250 is less than 0.6 of 588
    expect(days.at(-1)?.likely).toMatchObject({ capDay: 420, used: 250, level: "normal" });
    expect(days.at(-1)?.most.capDay).toBeGreaterThan(10_000);
    expect(days[0]?.most.reason).toContain("Grew from 300 to 420");
  });

  test("follows the harm of the last days", () => {
    const days = forecast(DEFAULT_POLICY, "pro", settled, week(300, 60), null, NOW, 5);
    expect(days[0]?.likely.level).toBe("paused");
    expect(days.every(({ most }) => most.capDay <= 300)).toBe(true);
  });

  test("does not take what strangers did for the sender's own rate", () => {
    const source = {
      name: "new.test",
      attempted: 150,
      bounced: 150,
      complained: 0,
      fblDelivered: 0,
      usual: 0,
    };
    const attacked = { ...counts(dayPlus(today, -1), 390, 150), sources: [source] };
    const days = [...week(240).slice(0, -1), { ...attacked, newSources: { usual: 0, latest: 0.2 } }];
    const ahead = forecast(DEFAULT_POLICY, "pro", settled, days, null, NOW, 10);
    expect(ahead.map(({ likely, most }) => [likely.level, most.level])).toEqual(
      Array(10).fill(["normal", "normal"]),
    );
  });

  test("knows the ceiling of the plan and the end of an override", () => {
    const fixed = {
      minimum: null,
      maximum: null,
      fixed: 5_000,
      fixedHour: null,
      until: NOW + 3 * DAY_MS,
      by: "sre",
      reason: "sale",
    };
    const caps = forecast(DEFAULT_POLICY, "essentials", settled, [], fixed, NOW, 5).map(
      ({ likely }) => likely.capDay,
    );
    expect(caps).toEqual([5_000, 5_000, 5_000, 300, 300]);
    const long = forecast(DEFAULT_POLICY, "essentials", settled, week(300), null, NOW, 30);
    expect(long.at(-1)?.most.capDay).toBe(5_000);
  });

  test("has nothing to say of a workspace that sent nothing", () => {
    const days = forecast(DEFAULT_POLICY, "pro", settled, [], null, NOW, 3);
    expect(days.map(({ likely }) => likely.capDay)).toEqual([300, 300, 300]);
  });
});
