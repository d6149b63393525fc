/** What the bench calls a change, and what it puts down to the noise. */
import { expect, test } from "vitest";
import { changes, compared } from "../../bench/compare.ts";
import { addFigures, emptyResults, type Results } from "../../bench/results.ts";
import { figure } from "../../bench/scenario.ts";

test("ranges that touch are no clear change", () => {
  expect(verdict([100, 110, 120], [118, 130, 140])).toBe("no clear change");
});

test("ranges apart by more than a twentieth are a change, better or worse by the unit", () => {
  expect(verdict([100, 101, 102], [120, 121, 122])).toBe("better");
  expect(verdict([100, 101, 102], [80, 81, 82])).toBe("worse");
  expect(verdict([100, 101, 102], [120, 121, 122], "ms")).toBe("worse");
  expect(verdict([100, 101, 102], [120, 121, 122], "x")).toBe("more");
});

test("ranges apart by less than a twentieth are no clear change", () => {
  expect(verdict([100, 100.1, 100.2], [101, 101.1, 101.2])).toBe("no clear change");
});

test("a single run says nothing of the noise, so a fifth is taken for it", () => {
  expect(verdict([100], [118])).toBe("no clear change");
  expect(verdict([100], [125])).toBe("better");
});

test("two runs of the same are summed up in one line", () => {
  const [earlier, later] = [runsOf([100, 104, 99], "/s"), runsOf([103, 98, 101], "/s")];
  expect(compared(earlier, later)).toMatch(/: No clear change in 1 figures\.$/);
});

test("what floors and peers moved is the machine's", () => {
  const [earlier, later] = [runsOf([100, 101, 102], "/s"), runsOf([130, 131, 132], "/s")];
  addFigures(earlier, "floor", [figure("bare inserts", 1_000, "/s")]);
  addFigures(later, "floor", [figure("bare inserts", 1_500, "/s")]);
  expect(changes(earlier, later).map((change) => change.verdict)).toEqual(["no clear change"]);
  expect(compared(earlier, later)).toMatch(/moved by up to 50%/);
});

test("other circumstances are named", () => {
  const [earlier, later] = [runsOf([100], "/s"), runsOf([100], "/s")];
  earlier.machine.cores = 64;
  expect(compared(earlier, later)).toMatch(/^Not the same machine/);
});

test("the median of an even number of runs lies between the two in the middle", () => {
  expect(runsOf([1, 4, 2, 3], "").rows[0]).toMatchObject({ median: 2.5, least: 1, most: 4 });
});

function verdict(before: number[], after: number[], unit = "/s"): string | undefined {
  return changes(runsOf(before, unit), runsOf(after, unit))[0]?.verdict;
}

function runsOf(values: number[], unit: string): Results {
  const results = emptyResults({});
  for (const value of values) addFigures(results, "a scenario", [figure("a figure", value, unit)]);
  return results;
}
