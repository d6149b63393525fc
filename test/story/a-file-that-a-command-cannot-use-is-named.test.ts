/** Every command that takes a file says in words which one it cannot use, and why. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CommandLine, commandLine } from "../rig/command.ts";

let cli: CommandLine;
let folder: string;
let missing: string;
let ofWorkspace: string[];
let ofAudience: string[];
beforeAll(async () => {
  cli = commandLine();
  folder = mkdtempSync(join(tmpdir(), "postrider-file-"));
  mkdirSync(join(folder, "people"));
  missing = join(folder, "missing");
  const { id } = await cli.json<{ id: string }>("workspace", "create", "--name", "Shop", "--plan", "pro");
  ofWorkspace = ["--workspace", id];
  const audience = await cli.json<{ id: string }>("audience", "create", ...ofWorkspace, "--name", "All");
  ofAudience = ["--audience", audience.id];
});
afterAll(() => rmSync(folder, { recursive: true }));

async function refusalOf(...args: string[]): Promise<string> {
  const { status, err } = await cli.postrider(...args);
  expect(status, err).toBe(1);
  return err;
}

test.each([
  ["suppression import", (file: string) => ["suppression", "import", file, ...ofWorkspace]],
  ["contact import", (file: string) => ["contact", "import", file, ...ofAudience]],
  ["domain add --key", (file: string) => ["domain", "add", "example.com", "--key", file, ...ofWorkspace]],
  ["automation apply", (file: string) => ["automation", "apply", file, ...ofWorkspace]],
  ["caps evidence import", (file: string) => ["caps", "evidence", "import", file]],
  ["restore, before it tells to empty Redis", (file: string) => ["restore", file]],
])("%s", async (_, commandFor) => {
  expect(await refusalOf(...commandFor(missing))).toContain(`There is no file ${missing}.`);
  expect(await refusalOf(...commandFor(folder))).toContain(`${folder} is a folder.`);
});

test("contact export, which writes one", async () => {
  const file = join(missing, "people.csv");
  expect(await refusalOf("contact", "export", file, ...ofAudience)).toBe(
    `${file} cannot be written: there is no folder ${missing}.\n`,
  );
  expect(await refusalOf("contact", "export", folder, ...ofAudience)).toBe(
    `${folder} cannot be written: it is a folder.\n`,
  );
});

test("backup, which writes one", async () => {
  const file = join(missing, "postrider.backup.gz");
  expect(await refusalOf("backup", file)).toBe(`${file} cannot be written: there is no folder ${missing}.\n`);
});
