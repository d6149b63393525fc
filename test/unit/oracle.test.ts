/**
 * Second opinions that nobody here wrote: Sisimai's verdicts on flufl.bounce's samples and on the curated
 * replies.
 */
import { expect, test } from "vitest";
import { agreement, knownDisagreements, missingOracle } from "../oracle/agreement.ts";

const AGREEMENT_MIN = 0.95;
const SAMPLES_MIN = 100;

test("the oracle agrees on what is hard, and each disagreement has its reason", ({ skip }) => {
  const missing = missingOracle();
  if (missing) return skip(missing);
  const [samples, living, gone] = agreement();
  expect(samples?.compared.length).toBeGreaterThanOrEqual(SAMPLES_MIN);
  const agreed = samples?.compared.filter(({ agrees }) => agrees).length ?? 0;
  expect(agreed / (samples?.compared.length ?? 1)).toBeGreaterThanOrEqual(AGREEMENT_MIN);
  const differing = [samples, living, gone]
    .flatMap((set) => set?.compared ?? [])
    .filter(({ agrees }) => !agrees);
  const known = knownDisagreements();
  expect(differing.filter(({ name }) => !known.get(name))).toEqual([]);
  expect([...known.keys()].sort()).toEqual(differing.map(({ name }) => name).sort());
});
