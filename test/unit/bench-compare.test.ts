/** What the bench calls a change, and what it puts down to chance or to the machine. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { changes, compared, summary } from "../../bench/compare.ts";
import { figure } from "../../bench/figure.ts";
import { addFigures, emptyResults, type Results } from "../../bench/results.ts";
import { normal, randomOf } from "../../src/capacity/random.ts";

/**
 * Of one machine with other work on it: two of the same commit, and one with 20 us burnt in the api and 30 us
 * in delivery for each e-mail.
 */
const [same, again, slower] = ["same", "again", "slower"].map(
  (name) => JSON.parse(readFileSync(new URL(`bench-runs/${name}.json`, import.meta.url), "utf8")) as Results,
) as [Results, Results, Results];

test("two recorded runs of the same commit are no clear change", () => {
  expect(summary(same, again)).toMatch(/^No clear change in 24 figures\./);
});

test("a recorded slowdown is seen, whichever of the two runs it is put beside", () => {
  for (const earlier of [same, again]) {
    const worse = changes(earlier, slower).filter((one) => one.verdict === "worse");
    expect(worse.map(({ row }) => `${row.scenario}: ${row.name}`)).toEqual(
      expect.arrayContaining(["accept: api CPU per thousand e-mails", "deliver: CPU per thousand e-mails"]),
    );
    expect(changes(earlier, slower).filter((one) => one.verdict === "better")).toEqual([]);
  }
});

test("five runs that are a fifth slower are a change, better or worse by the unit", () => {
  const [before, after] = [
    [100, 103, 97, 101, 99],
    [80, 82, 78, 81, 79],
  ];
  expect(verdict(before, after)).toBe("worse");
  expect(verdict(after, before)).toBe("better");
  expect(verdict(before, after, "ms")).toBe("better");
  expect(verdict(before, after, "x")).toBe("less");
});

test("one run out of line hides nothing and makes nothing", () => {
  expect(verdict([100, 103, 97, 101, 99], [100, 102, 98, 101, 70])).toBe("no clear change");
});

test("runs that differ by less than a twentieth are no clear change, however sure it is", () => {
  expect(verdict([100, 100.1, 100.2, 100.1, 100], [104, 104.1, 104.2, 104, 104.1])).toBe("no clear change");
});

test("whoever compares a hundred figures of the same is misled once in twenty times at most", () => {
  const random = randomOf(7);
  const rounds = (scatter: number) => {
    const results = emptyResults({});
    for (let round = 0; round < 5; round++) {
      const pace = Math.exp(scatter * normal(random)); // all figures of a round share what disturbed it
      const figures = Array.from({ length: 100 }, (_, n) =>
        figure(`figure ${n}`, pace * Math.exp(scatter * normal(random)), ["/s", "ms", "MB"][n % 3] as string),
      );
      addFigures(results, "a scenario", figures);
      addFigures(results, "ratios", [figure("floors of delivery in a row", pace, "/s")]);
    }
    return results;
  };
  const misled = Array.from({ length: 20 }, () => summary(rounds(0.1), rounds(0.1))).filter(
    (text) => !text.startsWith("No clear change"),
  );
  expect(misled.length).toBeLessThanOrEqual(1);
});

test("three runs on each side tell nothing of chance, so medians must differ by half, with ranges apart", () => {
  expect(verdict([100, 101, 102], [140, 141, 142])).toBe("no clear change");
  expect(verdict([100, 101, 102], [160, 161, 162])).toBe("better");
  expect(verdict([100, 110, 170], [170, 171, 172])).toBe("no clear change");
  expect(verdict([100], [135])).toBe("no clear change");
  expect(verdict([100], [70])).toBe("no clear change");
  expect(verdict([100], [155])).toBe("better");
  expect(verdict([100], [60])).toBe("worse");
  expect(verdict([100], [101, 102, 103, 135, 140])).toBe("no clear change");
});

test("a ratio to a peer of a single run is judged as a rate is", () => {
  expect(verdict([8], [5.6], "x")).toBe("no clear change");
  expect(verdict([8], [5], "x")).toBe("less");
});

test("too few runs are said to be too few", () => {
  const [earlier, later] = [runsOf([100, 104, 99], "/s"), runsOf([103, 98, 101], "/s")];
  expect(compared(earlier, later)).toMatch(
    /: No clear change in 1 figures\. Too few runs to see a change of less than half: take more \(--runs 5\)/,
  );
});

test("what the floor of its scenario moved is the machine's", () => {
  const [earlier, later] = [runsOf([100, 101, 102], "/s"), runsOf([200, 201, 202], "/s")];
  addFigures(earlier, "a scenario", [figure("rows of the floor", 1_000, "/s")]);
  addFigures(later, "a scenario", [figure("rows of the floor", 2_000, "/s")]);
  expect(changes(earlier, later).map((change) => change.verdict)).toEqual(["no clear change"]);
  expect(compared(earlier, later)).toMatch(/moved floors by itself \(a scenario: rows of the floor \+100%\)/);
});

test("what another scenario's floor moved excuses nothing", () => {
  const [earlier, later] = [runsOf([100, 101, 102], "/s"), runsOf([200, 201, 202], "/s")];
  for (const [results, floor] of [
    [earlier, 1_000],
    [later, 2_000],
  ] as const) {
    addFigures(results, "another", [figure("rows of the floor", floor, "/s")]);
    addFigures(results, "ratios", [figure("floors of delivery in a row", 1_000, "/s")]);
  }
  expect(changes(earlier, later).map((change) => change.verdict)).toEqual(["better"]);
});

test("memory does not follow the speed of the machine", () => {
  const [earlier, later] = [runsOf([100, 101, 102], "MB"), runsOf([200, 201, 202], "MB")];
  addFigures(earlier, "ratios", [figure("floors of delivery in a row", 1_000, "/s")]);
  addFigures(later, "ratios", [figure("floors of delivery in a row", 2_000, "/s")]);
  expect(changes(earlier, later).map((change) => change.verdict)).toEqual(["worse"]);
});

test("other circumstances are named", () => {
  const [earlier, later] = [runsOf([100], "/s"), runsOf([100], "/s")];
  earlier.machine.cores = 64;
  expect(compared(earlier, later)).toMatch(/^Not the same machine/);
});

test("the median of an even number of runs lies between the two in the middle", () => {
  expect(runsOf([1, 4, 2, 3], "").rows[0]).toMatchObject({ median: 2.5, least: 1, most: 4 });
});

/** On a machine that keeps its pace. */
function verdict(before: number[], after: number[], unit = "/s"): string | undefined {
  const [earlier, later] = [runsOf(before, unit), runsOf(after, unit)];
  for (const results of [earlier, later])
    for (const _ of before)
      addFigures(results, "ratios", [figure("floors of delivery in a row", 1_000, "/s")]);
  return changes(earlier, later)[0]?.verdict;
}

function runsOf(values: number[], unit: string): Results {
  const results = emptyResults({});
  for (const value of values) addFigures(results, "a scenario", [figure("a figure", value, unit)]);
  return results;
}
