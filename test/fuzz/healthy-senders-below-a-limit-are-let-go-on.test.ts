/** src/capacity/power.ts: the error budget of the policy that we ship, over many simulated lives. */
import { expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { powerAt } from "../../src/capacity/power.ts";

test("at most 1% of healthy senders just below the limit are held back in 60 days", {
  timeout: 120_000,
}, () => {
  const held = [200, 1_500].map((perDay) => powerAt(DEFAULT_POLICY, "bounce", perDay, 0.98, 150));
  for (const { heldPer1000 } of held) expect(heldPer1000).toBeLessThan(15);
  expect(powerAt(DEFAULT_POLICY, "complaint", 1_500, 0.95, 100).heldPer1000).toBeLessThan(25);
});
