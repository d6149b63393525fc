/**
 * A command about a workspace that is not there says so. It neither answers as of one that has nothing, nor
 * stores anything for it.
 */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";

const { postrider, json } = commandLine();
const nowhere = randomUUID();

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "postrider-mistyped-"));
  writeFileSync(join(folder, "gone.csv"), "ada@example.com\n");
});
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  ["key list"],
  ["domain list"],
  ["automation list"],
  ["webhook list"],
  ["suppression list"],
  ["suppression add ada@example.com"],
  ["suppression export"],
  ["queue retry"],
  ["queue cancel"],
  ["email find ada@example.com"],
  ["send-test --to ada@example.com --from shop@example.com"],
])("%s", async (words) => {
  expect(await postrider(...words.split(" "), "--workspace", nowhere)).toEqual({
    status: 1,
    out: "",
    err: `There is no workspace ${nowhere}. \`postrider workspace list\` lists them.\n`,
  });
});

test("suppression import", async () => {
  const file = join(folder, "gone.csv");
  const { status, err } = await postrider("suppression", "import", file, "--workspace", nowhere);
  expect([status, err]).toEqual([1, expect.stringContaining(`There is no workspace ${nowhere}.`)]);
});

/** Other tests make workspaces at the same time: so it is looked for by its name, not counted. */
test.each([
  ["an owner without an address", `Shop ${randomUUID()}`, ["--owner-email", "ada"], "--owner-email"],
  ["no name", " ", [], "--name"],
])("a workspace with %s is not made", async (_, name, options, named) => {
  const { status, err } = await postrider(
    ...["workspace", "create", "--plan", "pro", "--name", name],
    ...options,
  );
  expect([status, err]).toEqual([1, expect.stringContaining(`is invalid for ${named}`)]);
  const listed = await json<{ name: string }[]>("workspace", "list");
  expect(listed.filter((workspace) => workspace.name.trim() === name.trim())).toEqual([]);
});
