/**
 * What a console process keeps to itself: imports that run, and previews. Another process says so, and does
 * not claim that the import is lost.
 */
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser, signedIn } from "../rig/people.ts";

type Refused = { name: string; message: string };

let one: Engine;
let other: Engine;
beforeAll(async () => {
  const settings = { CONSOLE_PORT: "0" };
  one = await startEngine(["api", "console"], { settings });
  other = await startEngine(["console"], { settings });
});
afterAll(async () => {
  await one.stop();
  await other.stop();
});

test("a session works at both, an import and a preview only where they were made", async () => {
  const workspace = await one.workspace();
  const here = await signedIn(one.consoleUrl, one.sql, workspace.id);
  const there = Object.assign(new Browser(other.consoleUrl), {
    ...{ cookie: here.cookie, csrf: here.csrf, workspace: here.workspace },
  });
  expect((await there.get("overview")).status).toBe(200);

  const { body: audience } = await workspace.client.post<{ id: string }>("/audiences", { name: "All" });
  const given = { audience_id: audience.id, csv: "email\nann@example.net\n" };
  const { body: begun } = await here.post<{ id: string }>("contacts/import", given);
  expect((await here.get(`contacts/import/${begun.id}`)).status).toBe(200);
  const lost = await there.get<Refused>(`contacts/import/${begun.id}`);
  expect(lost.body).toMatchObject({ name: "not_found" });
  expect(lost.body.message).toContain("another console process runs it");

  const { body: rendered } = await here.post<{ frame_url: string }>("templates/render", {
    html: "<p>Hi</p>",
  });
  const frame = rendered.frame_url.slice("/console/call/".length);
  expect((await here.get(frame)).status).toBe(200);
  const gone = await there.get<Refused>(frame);
  expect(gone.body).toMatchObject({ name: "not_found" });
  expect(gone.body.message).toContain("another console process made it");
});

test("who runs it is told", async () => {
  const told = await readFile("docs/operating.md", "utf8");
  expect(told).toContain("Run one process with the role `console`");
  for (const file of ["ops/kubernetes/base/console.yaml", "docker-compose.yml"])
    expect(await readFile(file, "utf8")).toContain("one console");
});
