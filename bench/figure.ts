/**
 * What is measured: figures with units, latency distributions, courses over time, and what was configured.
 */

export type Figure = {
  name: string;
  value: number;
  unit: string;
  /** What a reader should expect, in words. */
  note?: string;
};

/** Pairs of quantile (0 to 1) and value, rising. */
export type Distribution = { name: string; unit: string; points: [quantile: number, value: number][] };
/** Pairs of second and value. `about` says which chart it belongs to. */
export type Course = {
  name: string;
  about: "rate" | "memory";
  unit: string;
  points: [second: number, value: number][];
};
/** A configuration that was used, for whoever doubts that it is fair. */
export type Exhibit = { name: string; text: string };

export function figure(name: string, value: number, unit: string, note?: string): Figure {
  return { name, value, unit, ...(note === undefined ? {} : { note }) };
}

/** Grows with the length of a run, and says nothing beside another's. */
export const TOTAL_UNIT = "s in all";
