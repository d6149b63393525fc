/**
 * `postrider automation`, from a document that is refused to the history of a run, with the automate role at
 * work.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { runsEnded } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";

let engine: Engine;
let stage: Stage;
let folder: string;
let shell: CommandLine;

beforeAll(async () => {
  stage = await openStage();
  folder = mkdtempSync(join(tmpdir(), "postrider-automations-"));
  engine = await startEngine(["api", "automate"], stage);
  shell = commandLine(stage);
});
afterAll(async () => {
  await engine.stop();
  rmSync(folder, { recursive: true, force: true });
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

const automation = (workspaceId: string, ...args: string[]) =>
  shell.postrider("automation", ...args, "--workspace", workspaceId);
const json = <T>(workspaceId: string, ...args: string[]) =>
  shell.json<T>("automation", ...args, "--workspace", workspaceId);

function file(document: unknown): string {
  const path = join(folder, "flow.json");
  writeFileSync(path, JSON.stringify(document));
  return path;
}

test("a document is applied, its runs run, and each step is told", async () => {
  const { id: workspace, client } = await engine.workspace("pro");
  const { body: audience } = await client.post<{ id: string }>("/audiences", { name: "All" });
  const document = {
    name: "Welcome",
    audience_id: audience.id,
    event: "signup",
    entry: "once",
    steps: [{ wait: "1s" }, { send: { template: "welcome" } }, { tag: { add: ["seen"] } }],
  };
  const soon = file({ ...document, steps: [{ wait: "soon" }] });
  const wrong = await automation(workspace, "apply", soon);
  expect([wrong.status, wrong.err]).toEqual([
    1,
    `${soon}: \`steps[0].wait\` must be a span like "30m", "2h" or "7d".\n`,
  ]);
  writeFileSync(soon, '{ "name": "Welcome",\n  "event" }');
  const broken = await automation(workspace, "apply", soon);
  expect([broken.status, broken.err]).toEqual([
    1,
    expect.stringMatching(/^\S+: It is not JSON: .* \(line 2, column 11\)\.\n$/),
  ]);
  const elsewhere = await automation(workspace, "apply", file({ ...document, audience_id: workspace }));
  expect([elsewhere.status, elsewhere.err]).toMatchObject([
    1,
    expect.stringContaining("is not an audience of the workspace"),
  ]);
  const unparsed = { send: { from: "a@example.com", subject: "s", text: "{{ name" } };
  const letter = await automation(workspace, "apply", file({ ...document, steps: [unparsed] }));
  expect([letter.status, letter.err]).toMatchObject([
    1,
    expect.stringContaining('The e-mail "s" does not parse'),
  ]);

  const applied = await json<{ id: string }>(workspace, "apply", file(document));
  expect(applied).toMatchObject({ version: 1, result: "created", missing_templates: ["welcome"] });
  expect(await json(workspace, "apply", file(document))).toMatchObject({ version: 1, result: "unchanged" });
  await client.call("PUT", "/templates/welcome", { subject: "Hi", from: "a@example.com", html: "<p>Hi</p>" });
  const next = { ...document, entry: "every" };
  expect(await json(workspace, "apply", file(next))).toEqual({
    id: applied.id,
    version: 2,
    result: "changed",
    missing_templates: [],
  });
  await client.post(`/audiences/${audience.id}/contacts`, { email: "ann@example.net" });
  const event = { audience_id: audience.id, email: "ann@example.net", name: "signup" };
  expect((await client.post("/events", event)).status).toBe(202);
  expect(await runsEnded(engine.sql, workspace, 10_000)).toEqual({ finished: 1 });

  const [run] = await json<{ id: string }[]>(workspace, "runs", "Welcome");
  expect(run).toMatchObject({ state: "finished", automation_id: applied.id });
  const told = await json<{ steps: { kind: string; result: string; endedAt: string }[] }>(
    workspace,
    "run",
    run?.id ?? "",
  );
  expect(told.steps.map(({ kind, result }) => `${kind} ${result}`)).toEqual([
    "wait done",
    "send done",
    "tag done",
  ]);
  expect(await json(workspace, "show", applied.id)).toMatchObject({
    name: "Welcome",
    runs: { active: 0, finished: 1, stopped: 0 },
    steps: [
      { position: "0", kind: "wait", count: 1 },
      { position: "1", kind: "send", result: "done", count: 1 },
      { position: "2", kind: "tag", count: 1 },
    ],
  });
  expect(await json(workspace, "pause", "Welcome")).toMatchObject({ state: "paused" });
  await client.post("/events", event);
  expect(await json(workspace, "runs", "Welcome")).toHaveLength(1);
  expect(await json(workspace, "resume", "Welcome")).toMatchObject({ state: "active" });
  expect(await json(workspace, "list")).toMatchObject([{ name: "Welcome", state: "active", version: 2 }]);
  await json(workspace, "apply", file({ ...next, steps: [{ wait: "7d" }] }));
  await client.post("/events", event);
  expect(await json(workspace, "stop", "Welcome")).toMatchObject({ stopped: 1 });
  expect((await automation(workspace, "list")).out).toContain("paused");
});
