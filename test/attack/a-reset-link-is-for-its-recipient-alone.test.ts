/**
 * The mail with the link to a new password is sent by a workspace of its owner. Who may read that workspace's
 * mail, a member or a key, could take over the owner's account with the link, so nobody is shown the text.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser, person, signedIn } from "../rig/people.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

let stage: Stage;
let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  stage = await openStage({ keepRaw: true });
  engine = await startEngine(["api", "console", "deliver"], { ...stage, settings: { CONSOLE_PORT: "0" } });
  workspace = await engine.workspace();
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("the link reaches the owner, and neither a member nor a key reads it", async () => {
  const owner = await person(engine.sql, workspace.id);
  const member = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "member");
  const stranger = new Browser(engine.consoleUrl);
  expect((await stranger.post("reset", { email: owner.email })).status).toBe(200);
  const [copy] = await stage.sink.ledger.received(1);
  expect(copy?.raw?.toString().replaceAll("=\r\n", "")).toContain("/console/reset#");

  const { body: list } = await workspace.client.get<{ data: { id: string }[] }>("/emails");
  const [{ id }] = list.data as [{ id: string }];
  const byKey = await workspace.client.get(`/emails/${id}`);
  expect(byKey).toMatchObject({ status: 200, body: { to: [owner.email], html: null, text: null } });
  const bySession = await member.get(`v1/emails/${id}`);
  const raw = await member.get(`emails/${id}/raw`);
  for (const seen of [byKey, bySession, raw]) expect(JSON.stringify(seen.body)).not.toContain("reset#");
});
