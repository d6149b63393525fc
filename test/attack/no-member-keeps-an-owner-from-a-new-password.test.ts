/** Whoever may send may suppress addresses: those of owners, too, who then ask for a new password. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser, person, signedIn } from "../rig/people.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

let stage: Stage;
let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "console", "deliver"], {
    ...stage,
    settings: { CONSOLE_PORT: "0", TRUST_PROXY: "true" },
  });
  workspace = await engine.workspace();
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("the link of a reset reaches an address that its workspace suppresses", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const member = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "member");
  expect((await member.post("v1/suppressions", { email })).status).toBe(201);
  const reset = await new Browser(engine.consoleUrl).post(
    "reset",
    { email },
    { "x-forwarded-for": "198.51.100.77" },
  );
  expect(reset.status).toBe(200);
  await stage.sink.ledger.received(1, ({ to }) => to.includes(email));
  // all other mail of the workspace heeds it, whatever it says of itself
  const tags = [{ name: "account", value: "true" }];
  const { body } = await workspace.client.post<{ id: string }>("/emails", mail({ to: email, tags }));
  const sent = await workspace.client.get<{ status: string }>(`/emails/${body.id}`);
  expect(sent.body.status).toBe("suppressed");
});
