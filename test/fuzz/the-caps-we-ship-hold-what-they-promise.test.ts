/** The policy that we ship: the numbers it promises, each held by a scenario over many seeds. */
import { describe, expect, test } from "vitest";
import { measure } from "../../src/capacity/measures.ts";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { simulate } from "../../src/capacity/simulate.ts";
import { runs, SIMULATION_MS_MAX, scenario } from "../rig/scenarios.ts";

describe("the policy we ship", { timeout: SIMULATION_MS_MAX }, () => {
  test("takes a clean workspace from its start to 10,000 a day within 14 days", () => {
    const { days_to_target, false_freezes_per_1000 } = measure(runs("clean-start"), true);
    expect(days_to_target.worst).toBeLessThanOrEqual(14);
    expect(false_freezes_per_1000.worst).toBe(0);
  });

  test("stops a bought list that bounces in the session before 2,000 of it, and keeps no order waiting", () => {
    const found = measure(runs("bought-list"), false);
    expect(found.bad_before_pause.worst).toBeLessThan(2_000);
    expect(found.reaction_minutes.worst).toBe(5);
    expect(found.transactional_p99_delay_hours.worst).toBe(0);
  });

  test("stops one that bounces late by the first evaluation of the evidence", () => {
    for (const run of runs("late-bounces")) {
      expect(run.reactionMinutes).toBe(5);
      expect(run.badBeforePause).toBeLessThan(10_000);
      expect(run.badSent).toBeLessThan(30_000);
    }
  });

  test("leaves a steady shop alone", () => {
    const found = measure(runs("steady-shop"), false);
    expect(found.false_freezes_per_1000.worst).toBe(0);
    expect(found.delayed_share.typical).toBe(0);
  });

  test("is not impressed by one complaint", () => {
    const found = measure(runs("one-complaint"), true);
    expect(found.false_freezes_per_1000.worst).toBe(0);
    expect(found.days_to_target.worst).toBeLessThan(21);
  });

  test("sends no 700 of the same list again: a relapse costs a probe", () => {
    for (const run of runs("bought-list")) {
      const relapses = run.changes.filter(({ level }) => level === "paused").length - 1;
      expect(relapses).toBeGreaterThan(0);
      expect(run.badSent - run.badBeforePause).toBeLessThan(250 * relapses);
    }
  });

  test("shows what growing too fast costs", () => {
    const read = scenario("clean-start");
    const inboxed = (growth: number) => {
      const run = simulate({ ...DEFAULT_POLICY, growth }, read, read.days, 1);
      return run.goodInboxed / run.goodSent;
    };
    expect(inboxed(1.4)).toBeGreaterThan(0.99);
    expect(inboxed(10)).toBeLessThan(0.9);
  });

  test("does not blame a list for a blocklisted address, and does not grow meanwhile", () => {
    const grown = runs("blocklisted-ip", 8).flatMap(({ changes }) =>
      changes.filter(({ bin, reason }) => bin / 288 > 21 && bin / 288 < 26 && reason.startsWith("Grew")),
    );
    expect(grown).toEqual([]);
  });

  test("acts as soon as anyone evaluates again", () => {
    for (const run of runs("evaluator-down", 8)) {
      const afterOutage = run.changes.find(({ bin }) => bin >= 22 * 288);
      expect(afterOutage).toMatchObject({ bin: 22 * 288, level: "paused" });
    }
  });
});
