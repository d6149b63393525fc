import type { Results } from "../results.ts";
import type { Scenario } from "../scenario.ts";
export function page(results: Results, _s: readonly Scenario[], _e: Results | null): string {
  return JSON.stringify(results);
}
