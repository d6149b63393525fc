/**
 * What a scenario is, and what it hands back: figures with units, and for the report latency distributions,
 * courses over time, and what was configured.
 *
 * To add one: a file in bench/scenarios that exports `scenarios`. It is found by being there.
 */
import type { Course, Distribution, Exhibit, Figure } from "./figure.ts";
import type { Bench } from "./machine.ts";
import type { Target } from "./target.ts";

export type Result = {
  figures: Figure[];
  distributions?: Distribution[];
  courses?: Course[];
  exhibits?: Exhibit[];
  /** What could not run here, each with why. */
  skipped?: string[];
};

export type Sizes = {
  /** E-mails already accepted, for `backlog`, `fair` and `lists`. */
  backlog: number;
  /** E-mails that wait for a cap, for `caps`. */
  waiting: number;
  /** Arrivals per second, for loads that do not wait for answers. */
  rate: number;
};

/** One run of one scenario. */
export type Run = {
  seconds: number;
  sizes: Sizes;
  /** The running figure, for whoever watches. */
  tell(text: string): void;
};

export type Scenario = {
  name: string;
  /** One line: what it does. */
  does: string;
  run(bench: Bench, run: Run): Promise<Result>;
  /**
   * The same against a deployment that the user names: only HTTP, at a bounded rate, and nothing leaves for
   * the internet.
   */
  against?(target: Target, run: Run): Promise<Result>;
};
