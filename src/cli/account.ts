/** `postrider account`: people of the console, in the hands of whoever runs the machine. */
import { randomBytes } from "node:crypto";
import { Command } from "commander";
import { hashPassword } from "../admission/password.ts";
import {
  type AccountOfPerson,
  findAccount,
  setOperator,
  setPassword,
  setTotpSecret,
} from "../record/accounts/accounts.ts";
import { CommandError, type Context, type OutputOptions, say, withContext } from "./context.ts";
import { readSwitch } from "./workspace.ts";

const PASSWORD_BYTES = 12;

export function accountCommand(): Command {
  const command = new Command("account").description("people who sign in to the console");
  command
    .command("set")
    .description("make somebody an operator, who sees what concerns the whole installation, or take it back")
    .argument("<email>", "the address of the account")
    .requiredOption("--operator <on|off>", "whether they are an operator", readSwitch)
    .option("--json", "print JSON")
    .action((email: string, options: OutputOptions & { operator: boolean }) =>
      withContext((context) => set(context, email, options)),
    );
  command
    .command("password")
    .description("make a new password, end all sessions, and ask for no codes until they are set up again")
    .argument("<email>", "the address of the account")
    .option("--json", "print JSON")
    .action((email: string, options: OutputOptions) =>
      withContext((context) => password(context, email, options)),
    );
  return command;
}

async function set(context: Context, email: string, options: OutputOptions & { operator: boolean }) {
  const account = await accountOf(context, email);
  await setOperator(context.sql, account.id, options.operator);
  const words = options.operator ? "an operator" : "no operator";
  const value = { id: account.id, email: account.email, operator: options.operator };
  say(options, value, `${account.email} is ${words} from the next call on.`);
}

async function password(context: Context, given: string, options: OutputOptions) {
  const { sql } = context;
  const { id, email } = await accountOf(context, given);
  const fresh = randomBytes(PASSWORD_BYTES).toString("base64url");
  await setPassword(sql, id, await hashPassword(fresh), { former: null, sessionKept: null });
  await setTotpSecret(sql, id, null);
  say(options, { id, email, password: fresh }, `${email} has the password ${fresh} (shown once).`);
}

async function accountOf({ sql }: Context, email: string): Promise<AccountOfPerson> {
  const account = await findAccount(sql, email);
  if (!account)
    throw new CommandError(
      `There is no account ${email}. \`postrider workspace create --owner-email\` makes one, and so does an invitation.`,
    );
  return account;
}
