/** What of the mail's fate reaches us under the settings of this engine. */
import type { Config } from "../config.ts";
import type { Heard } from "./policy.ts";

export function heardWith({
  courier,
  bounceDomain,
  feedbackAddresses,
}: Pick<Config, "courier" | "bounceDomain" | "feedbackAddresses">): Heard {
  return {
    // a smarthost may accept everything, and bounce it later
    refusals: courier === "direct",
    reports: bounceDomain !== null,
    complaints: bounceDomain !== null || feedbackAddresses.length > 0,
  };
}
