/** `p99_delay_hours<6`: what a simulation must show, so that a pipeline can hold a policy to it. */
import { MEASURE_NAMES, type MeasureName, type Measures } from "./measures.ts";

export type Assertion = {
  text: string;
  measure: MeasureName;
  typical: boolean;
  holds: (found: number) => boolean;
};

const FORM = /^\s*([a-z0-9_]+)(\.typical|\.worst)?\s*(<=|>=|<|>|=)\s*(-?\d+(?:\.\d+)?)\s*$/;

/** The assertion, or an Error that says what is wrong with its words. */
export function readAssertion(text: string): Assertion {
  const [, name = "", which, sign, bound] = FORM.exec(text) ?? [];
  if (name === "") throw new Error(`It must read like \`p99_delay_hours<6\`, not \`${text}\`.`);
  const measure = MEASURE_NAMES.find((one) => one === name);
  if (!measure) throw new Error(`There is no measure ${name}. The measures are ${MEASURE_NAMES.join(", ")}.`);
  const limit = Number(bound);
  const holds = (found: number) => {
    if (sign === "<") return found < limit;
    if (sign === "<=") return found <= limit;
    if (sign === ">") return found > limit;
    return sign === ">=" ? found >= limit : found === limit;
  };
  return { text: text.trim(), measure, typical: which === ".typical", holds };
}

/** What was seen, and whether it is what was to be shown. */
export type AssertionResult = { holds: boolean; says: string };

export function check({ text, measure, typical, holds }: Assertion, measures: Measures): AssertionResult {
  const { low, high, ...seen } = measures[measure];
  const found = typical ? seen.typical : seen.worst;
  if (found === null)
    return { holds: false, says: `${text} cannot be checked: this scenario has no ${measure}.` };
  const isHeld = holds(found);
  const says = `${typical ? "typically" : "at worst"} ${said(found)} (typically ${said(seen.typical)}, ${said(low)} to ${said(high)} with 95% confidence)`;
  return { holds: isHeld, says: `${text} ${isHeld ? "holds" : "does not hold"}: ${says}.` };
}

function said(value: number | null): string {
  if (value === null) return "nothing";
  return Number.isFinite(value) ? String(Number(value.toFixed(3))) : "never";
}
