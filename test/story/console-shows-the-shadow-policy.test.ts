/**
 * A policy that is tried beside the one in force shows in the policy tab, with what it would have done to
 * this workspace.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { putShadow, saveShadow } from "../../src/record/workspaces/shadow.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { signedIn } from "../rig/people.ts";
import { openStage, type Stage } from "../rig/stage.ts";

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "console"], { ...stage, settings: { CONSOLE_PORT: "0" } });
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("of this workspace alone, and null where there is none", async () => {
  const [ours, theirs] = [await engine.workspace(), await engine.workspace()];
  const browser = await signedIn(engine.consoleUrl, engine.sql, ours.id, "member");
  const shadow = async () => (await browser.get<{ shadow: object | null }>("caps/policy")).body.shadow;
  expect(await shadow()).toBeNull();

  const since = new Date(Date.now() - 60_000);
  const stricter = { ...DEFAULT_POLICY, growth: 1.1 };
  const row = { text: JSON.stringify(stricter), digest: "d", author: "Ada", since };
  await putShadow(engine.sql, row);
  const change = { dayBefore: 100, dayAfter: 50, levelBefore: "normal", level: "shrunk", counts: null };
  const judged = (workspaceId: string, reason: string) => ({
    workspaceId,
    state: {},
    change: { ...change, reason },
  });
  const both = [judged(ours.id, "ours"), judged(theirs.id, "theirs")];
  await saveShadow(engine.sql, "d", both, new Date());
  expect(await shadow()).toEqual({
    policy: expect.objectContaining({ growth: 1.1 }),
    since: since.toISOString(),
    steps: {
      shadow: { freezes: 0, pauses: 0, shrinks: 1 },
      in_force: { freezes: 0, pauses: 0, shrinks: 0 },
    },
    changes: [
      {
        ...{ at: expect.any(String), day_before: 100, day_after: 50 },
        ...{ level_before: "normal", level: "shrunk", reason: "ours" },
      },
    ],
  });
});
