/** How numbers of a study are written, in the terminal and in the report alike. */
import type { MeasureName } from "../measures.ts";

export function sayMeasured(name: MeasureName, value: number | null): string {
  if (value === null) return "-";
  if (value === Number.POSITIVE_INFINITY) return "never";
  if (name.endsWith("_share")) return `${(value * 100).toFixed(value < 0.01 ? 2 : 1)}%`;
  return Math.abs(value) < 100 && !Number.isInteger(value) ? value.toFixed(1) : sayCount(value);
}

export function sayCount(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
