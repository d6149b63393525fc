/** What a scenario is, and what it hands back: figures with units, and ratios to floors of the same run. */
import type { Bench } from "./machine.ts";

export type Figure = {
  name: string;
  value: number;
  unit: string /** What issue or reader expects, in words. */;
  note?: string;
};
export type Result = { figures: Figure[] };

export type Scenario = {
  name: string;
  /** One line: what it does. */
  does: string;
  run(bench: Bench, seconds: number): Promise<Result>;
};

export function figure(name: string, value: number, unit: string, note?: string): Figure {
  return { name, value, unit, ...(note === undefined ? {} : { note }) };
}
