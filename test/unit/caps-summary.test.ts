/** src/capacity/report/: what a study answers in sentences, and what it must not claim. */
import { expect, test } from "vitest";
import { DEFAULT_POLICY, type Policy } from "../../src/capacity/policy.ts";
import { parsePolicy, readPolicyFile } from "../../src/capacity/policyfile.ts";
import { tellRun } from "../../src/capacity/report/story.ts";
import { summarise } from "../../src/capacity/report/summary.ts";
import { sayMeasured, withCommas } from "../../src/capacity/report/words.ts";
import { readSweep, type Study, type Sweep, study } from "../../src/capacity/study.ts";
import { checkScenario, type Scenario } from "../../src/capacity/workload.ts";
import { scenario } from "../rig/scenarios.ts";

const ROOT = new URL("../../", import.meta.url);
type Asked = { runs?: number; days?: number; policies?: Record<string, Policy>; sweep?: Sweep };

function studied(value: Scenario, { runs = 8, days = 12, policies, sweep }: Asked = {}): Promise<Study> {
  const named = Object.entries(policies ?? { default: DEFAULT_POLICY });
  const setup = {
    policies: named.map(([name, policy]) => ({ name, value: policy })),
    ...{ scenario: { name: "x", value }, days, seed: 1, runs, threads: 1 },
  };
  return study(setup, sweep ?? null, null, () => {});
}

const shop = scenario("steady-shop");
const slower = { default: DEFAULT_POLICY, slower: { ...DEFAULT_POLICY, growth: 1.2 } };

test("of two policies it says what the seeds show, and by how much", async () => {
  const [first] = summarise(await studied(scenario("clean-start"), { policies: slower, days: 26 }));
  expect(first).toMatch(
    /^slower against default: days to the target: 20 instead of 11 \(\d+( to \d+)? more\)/,
  );
});

test("what does not matter for the mail makes no difference, and a few seeds show none", async () => {
  expect(summarise(await studied(shop, { policies: slower }))[0]).toBe(
    "There is no difference that 8 seeds can show between default and slower.",
  );
  const few = { policies: slower, days: 20, runs: 5 };
  expect(summarise(await studied(scenario("clean-start"), few))[0]).toMatch(
    /^5 seeds are too few to show a difference/,
  );
});

test("of a sweep every figure has its interval, and noise is not told as an effect", async () => {
  const swept = (text: string, value: Scenario) => studied(value, { sweep: readSweep(text), days: 26 });
  const [told] = summarise(await swept("growth=1.2..1.8/2", scenario("clean-start")));
  expect(told).toMatch(/^growth from 1\.2 to 1\.8, with 95% confidence: days to the target from /);
  expect(told).toMatch(
    /mail sent from [\d,]+( \([\d,]+ to [\d,]+\))? to [\d,]+ \([\d,]+ to [\d,]+\) \([\d,]+ to [\d,]+ more\)/,
  );
  const [none] = summarise(await swept("growth_unknown=1.1..1.3/2", shop));
  expect(none).toBe("There is no difference that 8 seeds can show between growth_unknown 1.1 and 1.3.");
});

test("the sentence and the table have the same interval", async () => {
  const found = await studied(shop, { runs: 20 });
  const high = found.outcomes[0]?.measures.false_freezes_per_1000.high ?? 0;
  expect(summarise(found).join(" ")).toContain(
    `(0 to ${sayMeasured("false_freezes_per_1000", high)} with 95% confidence, from 20)`,
  );
});

test("the policy is named: the built-in one, the one in force, a version, a file", async () => {
  const under = async (name: string) =>
    summarise(await studied(shop, { runs: 2, days: 1, policies: { [name]: DEFAULT_POLICY } }))[0];
  expect(await under("default")).toMatch(/^Under the built-in policy 0 of 1,000/);
  expect(await under("in force")).toMatch(/^Under the policy in force 0 of/);
  expect(await under("version 3")).toMatch(/^Under version 3 of the policy, which is in force, 0 of/);
  expect(await under("mine")).toMatch(/^Under the policy mine 0 of/);
});

test("of one workspace no rate is told, and a target that is not reached is said as such", async () => {
  const one = summarise(await studied(scenario("clean-start"), { runs: 1, days: 3 }));
  expect(one[0]).toBe("Under the built-in policy the workspace does not reach 10,000 a day in 3 days.");
  expect(one[1]).toBe(
    "Under the built-in policy the workspace is not held back in 3 days; more `--runs` say how often.",
  );
});

test("shares differ by points", async () => {
  const [first] = summarise(await studied(scenario("clean-start"), { policies: slower, days: 26 }));
  expect(first).toMatch(/waits over an hour: [\d.]+% instead of [\d.]+% \([\d.]+ to [\d.]+ points more\)/);
});

test("without good mail none of it reaches an inbox", async () => {
  const [stream] = shop.streams;
  const silent = checkScenario({ ...shop, streams: [{ ...stream, per_day: 0 }] });
  const said = summarise(await studied(silent, { runs: 1, days: 2 })).join(" ");
  expect(said).toContain("No good mail is sent in these days.");
  expect(said).not.toContain("100");
});

test("a bought list that is held back still waits", async () => {
  const said = summarise(await studied(scenario("bought-list"), { runs: 1, days: 30 })).join(" ");
  const [, sent = "", waits = ""] =
    /; ([\d,]+) in all, .*; ([\d,]+) of it still wait at the end\./.exec(said) ?? [];
  const number = (text: string) => Number(text.replaceAll(",", ""));
  expect(number(sent) + number(waits)).toBe(30_000);
});

test("who moves here is told what stays elsewhere, how the caps rise, and what to do", async () => {
  const said = summarise(await studied(scenario("large-tenant"), { runs: 1, days: 30 })).join("\n");
  expect(said).toMatch(
    /\nOf 500,000 recipients a day the cap takes 300 on day 0, .* 500,000 on day 23\. The rest must stay with the sender of before: 1\d,\d{3},\d{3} recipients/,
  );
  expect(said).toContain("500,000 is the ceiling of the plan pro. `caps set --minimum 600000`");
  expect(said).toContain("\nWhat to do: ");
});

test("explained steps have commas in counts, and none in days and times", async () => {
  const found = await studied(scenario("clean-start"), { runs: 1, days: 20 });
  const told = tellRun(found.outcomes[0]?.shown as never).join("\n");
  expect(told).toMatch(/Grew from 1,\d{3} to \d,\d{3} a day: 2026-01-\d\d used 1,\d{3} of/);
  expect(withCommas("2026-01-05 used 12345 of 10000 at 2026-01-05T00:00:00.000Z, 0.12345")).toBe(
    "2026-01-05 used 12,345 of 10,000 at 2026-01-05T00:00:00.000Z, 0.12345",
  );
});

test("a policy file may be what `caps policy show --json` prints; a fault is said as it is", () => {
  const shown = { version: 2, digest: "abc", policy: { ...DEFAULT_POLICY, growth: 1.3 } };
  expect(parsePolicy(JSON.stringify(shown)).growth).toBe(1.3);
  expect(() => parsePolicy("{growth")).toThrow(/^It is not JSON: .*line 1, column 2/);
  // V8 gives no position of an unexpected character
  const text = JSON.stringify(DEFAULT_POLICY, null, 2);
  for (const [wrong, place] of [
    [text.replace('"growth": 1.4', '"growth": one'), /line 7, column 13\)\.$/],
    ['{\n "growth": .5, "growth_after_shrink": 1.2 }', /line 2, column 12/],
    ['{ "a":\n one }', /line 2, column 2/],
  ] as const)
    expect(() => parsePolicy(wrong)).toThrow(place);
  expect(parsePolicy(`\ufeff${text}`).growth).toBe(1.4);
  expect(() => readPolicyFile(ROOT.pathname)).toThrow(/: It is a folder\.$/);
});
