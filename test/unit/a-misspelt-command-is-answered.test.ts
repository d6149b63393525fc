/**
 * A wrong command, option or argument is answered in one line: what is wrong, what was probably meant, and
 * where to read on.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { everyCommand, makeProgram } from "../../src/cli/program.ts";

const ID = "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90";

async function run(...args: string[]): Promise<{ out: string; err: string; code: string }> {
  const said = { out: "", err: "", code: "" };
  const program = await makeProgram();
  for (const command of everyCommand(program))
    command.configureOutput({
      writeOut: (text) => {
        said.out += text;
      },
      writeErr: (text) => {
        said.err += text;
      },
    });
  await program.parseAsync(args, { from: "user" }).catch((error: { code: string }) => {
    said.code = error.code;
  });
  return said;
}

test.each([
  [["wrkspace", "list"], "error: unknown command 'wrkspace' (Did you mean workspace?) See `postrider help`."],
  [
    ["workspace", "creat"],
    "error: unknown command 'creat' (Did you mean create?) See `postrider help workspace`.",
  ],
  [
    ["workspace", "list", "--jsn"],
    "error: unknown option '--jsn' (Did you mean --json?) See `postrider help workspace list`.",
  ],
  [
    ["key", "list", "--workspce", ID],
    "error: unknown option '--workspce' (Did you mean --workspace?) See `postrider help key list`.",
  ],
  [["key", "revoke"], "error: missing required argument 'id'. See `postrider help key revoke`."],
  [
    ["key", "list"],
    "error: required option '--workspace <id>' not specified. See `postrider help key list`.",
  ],
  [
    ["workspace", "suspend", "5"],
    `error: '5' is invalid for <id>. It must be a UUID, such as ${ID}. See \`postrider help workspace suspend\`.`,
  ],
  [
    ["webhook", "replay", ID, "--workspace", ID, "--since", "2026-11-20 20:07"],
    "error: '2026-11-20 20:07' is invalid for --since <time>. It must be a time with an offset, such as 2026-11-20T20:07:38Z, or a day such as 2026-11-20. See `postrider help webhook replay`.",
  ],
  // read when the command runs, and by Commander: the same words
  [
    ["caps", "policy", "diff", "missing.json"],
    "error: 'missing.json' is invalid for <file>. missing.json: There is no such file. See `postrider help caps policy diff`.",
  ],
  [
    ["workspace", "create", "--name", "Shop", "--plan", "gold"],
    "error: 'gold' is invalid for --plan <plan>. It must be one of free, essentials, standard, pro. See `postrider help workspace create`.",
  ],
  [
    ["key", "create", "--workspace", ID, "--preset", "most"],
    "error: 'most' is invalid for --preset <name>. Allowed choices are full, audience, sending. See `postrider help key create`.",
  ],
  [
    ["serve", "--role", ""],
    "error: '' is invalid for --role <roles>. '' is not a role. The roles are api, deliver, automate, inbound, submission, webhooks, console, keeper. See `postrider help serve`.",
  ],
  [["help", "wrkspace"], "error: unknown command 'wrkspace' (Did you mean workspace?) See `postrider help`."],
  [
    ["help", "domain", "verfy"],
    "error: unknown command 'verfy' (Did you mean verify?) See `postrider help domain`.",
  ],
])("%j", async (args, message) => {
  expect((await run(...args)).err).toBe(`${message}\n`);
});

test("an unknown scenario lists those there are", async () => {
  const { err } = await run("caps", "simulate", "--scenario", "cleanstart");
  expect(err).toMatch(/There is no scenario and no file cleanstart\. The scenarios are .*clean-start/);
});

test("help of a command is that of its own options, with an example", async () => {
  const { out } = await run("help", "workspace", "create");
  expect(out).toContain("--owner-email");
  expect(out).toContain("Example:\n  postrider workspace create --name Shop");
  expect((await run("help")).out).toContain("workspace");
});

test("help says what is required, and a default once", async () => {
  const { out } = await run("help", "workspace", "create");
  expect(out).toMatch(/--name <name> +a display name \(required\)/);
  expect(out).not.toMatch(/--owner-email[^\n]*\n?[^\n]*\(required\)/);
  for (const { options } of everyCommand(await makeProgram()))
    for (const { flags, description, defaultValue, defaultValueDescription } of options) {
      const shown = defaultValueDescription ?? defaultValue;
      if (shown === undefined) continue;
      expect(description, flags).not.toContain("default:");
      expect(shown, flags).not.toBe("");
    }
});

test("help is asked for beside a mistake, too", async () => {
  const { out, err } = await run("key", "list", "--workspce", ID, "--help");
  expect(out).toContain("--workspace");
  expect(err).toBe("");
});

test("the version is that of the package", async () => {
  const file = new URL("../../package.json", import.meta.url);
  const { version } = JSON.parse(readFileSync(file, "utf8"));
  expect((await run("--version")).out).toBe(`${version}\n`);
});
