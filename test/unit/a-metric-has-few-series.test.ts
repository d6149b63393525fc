/** A family has at most 200 series: whatever more is counted is counted as `other`, and none is lost. */
import { expect, test } from "vitest";
import { allFamilies, Counter, Gauge, Histogram } from "../../src/meter.ts";

const MOST = 200;
/** With a series of their own: the last place is for `other`. */
const OWN = MOST - 1;
const MORE = 50;

function seriesOf(name: string): Map<readonly string[], unknown> {
  const family = allFamilies().find((one) => one.name === name);
  if (!family) throw new Error(`there is no ${name}`);
  return family.read();
}

/** The value of the series of `other`, of which there is one. */
function other(name: string): unknown {
  const found = [...seriesOf(name)].filter(([labels]) => labels.every((label) => label === "other"));
  expect(found).toHaveLength(1);
  return found[0]?.[1];
}

test("a counter", () => {
  const counter = new Counter("test_counts_total", "of the test", ["name", "kind"]);
  for (let n = 0; n < OWN + MORE; n++) counter.add(2, `name ${n}`, "a kind");
  const kept = counter.of("name 0", "a kind");
  kept.n++;
  counter.add(1, "one more", "another kind");
  const series = seriesOf("test_counts_total");
  expect(series.size).toBe(MOST);
  expect(other("test_counts_total")).toBe(2 * MORE + 1);
  expect([...series.values()].reduce<number>((sum, n) => sum + Number(n), 0)).toBe(2 * (OWN + MORE) + 2);
});

test("a histogram", () => {
  const histogram = new Histogram("test_seconds", "of the test", [1], ["name"]);
  for (let n = 0; n < OWN + MORE; n++) histogram.note(n < OWN ? 0.5 : 3, `name ${n}`);
  expect(seriesOf("test_seconds").size).toBe(MOST);
  expect(other("test_seconds")).toEqual({ counts: [0, MORE], sum: 3 * MORE });
});

test("a gauge", () => {
  const gauge = new Gauge("test_level", "of the test", ["name"]);
  const unfollow = Array.from({ length: OWN + MORE }, (_, n) => gauge.follow(() => 1, `name ${n}`));
  expect(seriesOf("test_level").size).toBe(MOST);
  expect(other("test_level")).toBe(MORE);
  for (const stop of unfollow.slice(OWN)) stop();
  expect(seriesOf("test_level").size).toBe(OWN);
});
