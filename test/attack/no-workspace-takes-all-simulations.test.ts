/** A simulation takes a core for seconds. One workspace has one at a time, so that others have theirs. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { signedIn } from "../rig/people.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
});
afterAll(() => engine.stop());

test("of simulations that one workspace asks for at once, one runs", async () => {
  const workspace = await engine.workspace();
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "member");
  const { body } = await browser.get<{ data: { name: string }[] }>("caps/scenarios");
  const asked = { scenario: body.data[0]?.name, days: 30, runs: 5 };
  const replies = await Promise.all([1, 2, 3].map(() => browser.post("caps/simulate", asked)));
  expect(replies.map(({ status }) => status).sort()).toEqual([200, 503, 503]);
});
