/** `postrider suppression`: added, listed, exported, imported elsewhere, and undone. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { services } from "../rig/services.ts";
import { mail, SECRET, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

type Shown = { id: string; email: string; reason: string; evidence: string | null };

let api: TestApi;
let ws: TestWorkspace;
let cli: CommandLine;
let folder: string;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
  const { databaseUrl, redisUrl } = services();
  cli = commandLine({ databaseUrl, redisUrl, settings: { POSTRIDER_SECRET: SECRET } });
  folder = mkdtempSync(join(tmpdir(), "postrider-suppression-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await api.stop();
});

test("what is added is obeyed, listed, exported and imported, and what is removed is not", async () => {
  const of = ["--workspace", ws.id];
  const added = await cli.json<Shown>(
    "suppression",
    "add",
    "one@example.net",
    ...of,
    "--evidence",
    "asked, by phone",
  );
  expect(added).toMatchObject({ email: "one@example.net", reason: "manual" });
  const { body } = await ws.client.post<{ id: string }>("/emails", mail({ to: "one@example.net" }));
  expect((await ws.client.get(`/emails/${body.id}`)).body).toMatchObject({ status: "suppressed" });

  const file = join(folder, "list.csv");
  writeFileSync(
    file,
    "two@example.net\nthree@example.net,bounce,550 5.1.1 gone\n\nnobody\nfour@example.net,dislike\n",
  );
  expect(await cli.json("suppression", "import", file, ...of)).toEqual({ suppressed: 2, skipped: 2 });
  const listed = await cli.json<Shown[]>("suppression", "list", ...of);
  expect(listed.map(({ email, reason, evidence }) => [email, reason, evidence])).toEqual([
    ["three@example.net", "bounce", "550 5.1.1 gone"],
    ["two@example.net", "manual", null],
    ["one@example.net", "manual", "asked, by phone"],
  ]);
  expect(await cli.json<Shown[]>("suppression", "list", ...of, "--reason", "bounce")).toHaveLength(1);

  const { out } = await cli.postrider("suppression", "export", ...of);
  writeFileSync(file, out);
  const other = await api.workspace();
  const there = ["--workspace", other.id];
  expect(await cli.json("suppression", "import", file, ...there)).toEqual({ suppressed: 3, skipped: 0 });
  const kept = (all: Shown[]) =>
    all.map(({ email, reason, evidence }) => `${email} ${reason} ${evidence}`).sort();
  expect(kept(await cli.json<Shown[]>("suppression", "export", ...there))).toEqual(kept(listed));

  await cli.json("suppression", "remove", "ONE@example.net", ...of);
  const again = await cli.postrider("suppression", "remove", "one@example.net", ...of);
  expect(again).toMatchObject({
    status: 1,
    err: expect.stringContaining("is not suppressed in this workspace"),
  });
  expect(await cli.json<Shown[]>("suppression", "list", ...of)).toHaveLength(2);
});

test("a scope that no sender can have is refused, and the one that lists show is that of all mail", async () => {
  const own = await api.workspace();
  const of = ["--workspace", own.id];
  for (const scope of ["nodomain", "*", "a@example.com", "https://example.com"])
    expect(
      await cli.postrider("suppression", "add", "dead@example.net", ...of, "--scope", scope),
    ).toMatchObject({
      status: 1,
      err: expect.stringContaining("is no domain"),
    });
  const file = join(folder, "scopes.csv");
  writeFileSync(file, "a@example.net,,,*\nb@example.net,,,workspace\nc@example.net,,,Bücher.example\n");
  expect(await cli.json("suppression", "import", file, ...of)).toEqual({ suppressed: 2, skipped: 1 });
  const listed = await cli.json<{ email: string; scope: string }[]>("suppression", "list", ...of);
  expect(listed.map(({ email, scope }) => `${email} ${scope}`).sort()).toEqual([
    "b@example.net workspace",
    "c@example.net xn--bcher-kva.example",
  ]);
  const given = { email: "d@example.net", scope: "workspace" };
  expect((await own.client.post("/suppressions", given)).status).toBe(201);
});

test("an import names the rows that it skips, and fails where it can read none", async () => {
  const of = ["--workspace", (await api.workspace()).id];
  const file = join(folder, "odd.csv");
  writeFileSync(file, "email,reason\na@example.net\nnobody\n");
  expect((await cli.postrider("suppression", "import", file, ...of)).out).toBe(
    "1 suppressed, 2 skipped: rows 1, 3.\n",
  );
  writeFileSync(file, '{ "name": "x" }\n');
  expect(await cli.postrider("suppression", "import", file, ...of)).toMatchObject({
    status: 1,
    err: expect.stringContaining("no row of"),
  });
});

test("a list that is cut says so", async () => {
  const of = ["--workspace", (await api.workspace()).id];
  const file = join(folder, "many.csv");
  const rows = Array.from({ length: 101 }, (_, n) => `n${n}@example.net`);
  writeFileSync(file, rows.slice(1).join("\n"));
  await cli.json("suppression", "import", file, ...of);
  expect((await cli.postrider("suppression", "list", ...of)).out).not.toContain("There are more");
  writeFileSync(file, rows.join("\n"));
  await cli.json("suppression", "import", file, ...of);
  expect((await cli.postrider("suppression", "list", ...of)).out).toContain("There are more");
});
