/**
 * Who complains names a Message-ID, an address or the mark in a mail: the operator finds the workspace by
 * each.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Found = { workspace_id: string; id: string | null }[];

let stage: Stage;
let engine: Engine;
let cli: CommandLine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "keeper"], stage);
  cli = commandLine(stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

const find = (what: string, ...more: string[]) => cli.json<Found>("email", "find", what, ...more);

async function send(ws: TestWorkspace, more: Record<string, unknown> = {}): Promise<string> {
  return (await ws.client.post<{ id: string }>("/emails", mail(more))).body.id;
}

test("by its Message-ID, its id and its recipients, in all workspaces or one", async () => {
  const [one, two] = [await engine.workspace(), await engine.workspace()];
  const first = await send(one, { to: "Ann <ann@example.net>", bcc: "hidden@example.net" });
  const second = await send(two, { to: "ANN@EXAMPLE.net" });
  await send(two, { to: "joann@example.net" });
  const ofFirst = { workspace_id: one.id, id: first };
  expect(await find(`<${first}@example.com>`)).toMatchObject([ofFirst]);
  expect(await find(first)).toMatchObject([ofFirst]);
  expect(await find(first, "--workspace", two.id)).toEqual([]);
  const toAnn = (await find("Ann@example.net")).map(({ id }) => id);
  expect(toAnn).toEqual([second, first]);
  expect(await find("ann@example.net", "--workspace", one.id)).toMatchObject([ofFirst]);
  expect(await find("hidden@example.net")).toMatchObject([ofFirst]);
  expect(await find("nobody@example.net")).toEqual([]);
  const wrong = await cli.postrider("email", "find", "nonsense");
  expect(wrong).toMatchObject({
    status: 1,
    err: "nonsense is not a Message-ID, an id, an address or an X-Postrider-Mark.\n",
  });
});

test("by the mark that every mail carries: the same for a workspace, another for each, and nobody else's to set", async () => {
  const [one, two] = [await engine.workspace(), await engine.workspace()];
  const marks: (string | undefined)[] = [];
  for (const ws of [one, one, two]) {
    const id = await send(ws);
    const [taken] = await stage.sink.ledger.received(1, ({ messageId }) => messageId.startsWith(id));
    marks.push(taken?.headers.get("x-postrider-mark"));
  }
  expect(marks[0]).toMatch(/^[0-9a-z]{26}$/);
  expect(marks[1]).toBe(marks[0]);
  expect(marks[2]).not.toBe(marks[0]);
  expect(await find(marks[0] as string)).toMatchObject([{ workspace_id: one.id }]);
  expect(await find(marks[0] as string, "--workspace", one.id)).toMatchObject([{ workspace_id: one.id }]);
  expect(await find(marks[0] as string, "--workspace", two.id)).toEqual([]);
  const forged = await one.client.post("/emails", mail({ headers: { "x-postrider-MARK": marks[2] } }));
  expect(forged.status).toBe(422);
});
