/** The help of every command ends with an example, and every example is one that the command takes. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { EXAMPLES } from "../../src/cli/examples.ts";
import { everyCommand, makeProgram, pathOf } from "../../src/cli/program.ts";

const started = process.cwd();
beforeAll(() => {
  const folder = mkdtempSync(join(tmpdir(), "examples-"));
  writeFileSync(join(folder, "policy.json"), JSON.stringify(DEFAULT_POLICY));
  process.chdir(folder);
});
afterAll(() => process.chdir(started));

/** Those that do something themselves, rather than only gather others. */
const doing = everyCommand(await makeProgram())
  .map((command) => ({ path: pathOf(command), isGroup: command.commands.length > 0 }))
  .filter(({ path, isGroup }) => path === "queue" || !isGroup)
  .map(({ path }) => path);

test("no example is of a command that does not exist", () => {
  expect(Object.keys(EXAMPLES).sort()).toEqual([...doing].sort());
});

test.each(doing)("%s", async (path) => {
  const program = await makeProgram();
  const command = everyCommand(program).find((one) => pathOf(one) === path) as Command;
  let help = "";
  command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
  const example = `postrider ${path} ${EXAMPLES[path]}`.trimEnd();
  expect(help.trimEnd().endsWith(`Example:\n  ${example}`)).toBe(true);

  let isTaken = false;
  command.action(() => {
    isTaken = true;
  });
  const words = example.match(/"[^"]*"|\S+/g) ?? [];
  await program.parseAsync(
    words.slice(1).map((word) => word.replaceAll('"', "")),
    { from: "user" },
  );
  expect(isTaken).toBe(true);
});

test.each(doing)("%s says what it does, and what each option is for", async (path) => {
  const command = everyCommand(await makeProgram()).find((one) => pathOf(one) === path) as Command;
  expect(command.description()).not.toBe("");
  for (const { flags, description } of command.options) expect(description, flags).not.toBe("");
});
