/** How numbers of a study are written, in the terminal and in the report alike. */
import type { MeasureName } from "../measures.ts";

export function sayMeasured(name: MeasureName, value: number | null): string {
  if (value === null) return "-";
  if (value === Number.POSITIVE_INFINITY) return "never";
  if (name.endsWith("_share")) return `${(value * 100).toFixed(value < 0.01 ? 2 : 1)}%`;
  return Math.abs(value) < 100 && !Number.isInteger(value) ? value.toFixed(1) : sayCount(value);
}

/**
 * As policies are named in a study: `default` is the built-in one, a changed one is named after its changes.
 */
export function sayPolicy(name: string): string {
  if (name === "default") return "the built-in policy";
  if (name === "in force") return "the policy in force";
  if (name.includes("=")) return `with ${name}`;
  return /^version \d+$/.test(name) ? `${name} of the policy, which is in force` : `the policy ${name}`;
}

/** Counts of a sentence written with commas; days, times and rates stay. */
export function withCommas(sentence: string): string {
  return sentence.replace(/(?<![\d.,:-])\d{4,}(?![\d:-]|\.\d)/g, (count) => sayCount(Number(count)));
}

/** "1 freeze", "3,240 freezes". */
export function counted(count: number, what: string, several = `${what}s`): string {
  return `${sayCount(count)} ${count === 1 ? what : several}`;
}

export function sayCount(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
