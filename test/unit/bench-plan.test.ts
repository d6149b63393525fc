/** The capacity plan: what it says follows from what was measured, and names what breaks first. */
import { expect, test } from "vitest";
import {
  ASSUMED,
  type Costs,
  compareWithPlan,
  costsOf,
  limitsOf,
  planFor,
  planText,
  rateOf,
} from "../../bench/capacity.ts";
import { addResult, emptyResults } from "../../bench/results.ts";

const COSTS: Costs = {
  api: 20e-6,
  deliver: 60e-6,
  keeper: 1e-6,
  postgres: 50e-6,
  redis: 6e-6,
  walBytes: 2_000,
  tableBytes: 1_500,
};

test("a unit is as large as its tightest limit, and there are as many as the volume takes", () => {
  const disk = limitsOf(COSTS, ASSUMED).find(({ what }) => what === "the disk of a Postgres");
  expect(disk?.perDay).toBeCloseTo((4e12 * 0.7) / (1_500 * 30), 3);
  const plan = planFor(1_000_000_000, COSTS, ASSUMED);
  expect(plan.peakPerSecond).toBeCloseTo(34_722, 0);
  expect(plan.units).toEqual({ api: 2, worker: 4, shard: 1, cell: Math.ceil(1e9 / (disk?.perDay ?? 0)) });
  expect(plan.breaks).toBe("the disk of a Postgres");
});

test("a small volume breaks nothing, and fits on one machine", () => {
  expect(planFor(1_000_000, COSTS, ASSUMED)).toMatchObject({
    breaks: null,
    machines: 1,
    cores: expect.any(Number),
  });
});

test("what breaks first changes with what is assumed", () => {
  const kept = { ...ASSUMED, retentionDays: 1 };
  expect(planFor(1_000_000_000, COSTS, kept).breaks).toBe("the core of a worker");
  expect(planFor(1_000_000_000, { ...COSTS, walBytes: 500_000 }, kept).breaks).toBe("the WAL of a Postgres");
});

test("a rate is that of the cores, or of the unit that is busy before them", () => {
  const each = 137e-6;
  expect(rateOf({ api: 1, worker: 1, cell: 2 }, COSTS, 1)).toBeCloseTo(1 / each, 3);
  expect(rateOf({ api: 1, worker: 1, cell: 2 }, COSTS, 8)).toBeCloseTo(1 / COSTS.deliver, 3);
  expect(rateOf({ api: 1, worker: 3, cell: 2 }, COSTS, 4)).toBeCloseTo(4 / each, 3);
});

test("a run is compared with what the plan says of it", () => {
  const one = { perSecond: 5_000, costs: COSTS };
  const dearer = { ...COSTS, postgres: 2 * COSTS.postgres, walBytes: 3_000 };
  const compared = compareWithPlan(one, { api: 1, worker: 1, cell: 2 }, { perSecond: 4_000, costs: dearer });
  const of = (name: string) => {
    const { predicted = 0, measured = 0 } = compared.find((row) => row.name === name) ?? {};
    return [Number(predicted.toFixed(6)), Number(measured.toFixed(6))];
  };
  // as many cores as were busy bring as many e-mails
  expect(of("e-mails")).toEqual([5_000, 4_000]);
  expect(of("cores")).toEqual([0.548, 0.748]);
  expect(of("cores of postgres")).toEqual([0.2, 0.4]);
  expect(of("cores of deliver")).toEqual([0.24, 0.24]);
  expect(of("WAL")).toEqual([8e6, 12e6]);
  expect(of("tables")).toEqual([6e6, 6e6]);
});

test("costs are read from a report of the bench, and a report without them is refused in words", () => {
  const results = emptyResults({});
  expect(() => costsOf(results)).toThrow('no figure "of which api" of the scenario costs');
  const figures = [
    ...["api", "deliver", "keeper", "postgres", "redis"].map((name) => ({
      ...{ name: `of which ${name}`, value: 0.02, unit: "s" },
    })),
    { name: "WAL of an e-mail", value: 2_000, unit: "bytes" },
    { name: "tables of an e-mail", value: 1_500, unit: "bytes" },
  ];
  addResult(results, "costs", { figures });
  const costs = costsOf(results);
  expect(costs).toMatchObject({ api: 20e-6, postgres: 20e-6, walBytes: 2_000 });
  expect(planText(costs, ASSUMED, [10_000_000])).toContain("| cells (Postgres) | 1 |");
});
