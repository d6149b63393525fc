/** `postrider account`: people of the console, in the hands of whoever runs the machine. */
import { randomBytes } from "node:crypto";
import { hashPassword } from "../admission/password.ts";
import {
  type AccountOfPerson,
  findAccount,
  setOperator,
  setPassword,
  setTotpSecret,
} from "../record/accounts/accounts.ts";
import type { Context } from "./context.ts";
import { CommandError, type OutputOptions, say } from "./print.ts";

const PASSWORD_BYTES = 12;

export async function set(context: Context, email: string, options: OutputOptions & { operator: boolean }) {
  const account = await accountOf(context, email);
  await setOperator(context.sql, account.id, options.operator);
  const words = options.operator ? "an operator" : "no operator";
  const value = { id: account.id, email: account.email, operator: options.operator };
  say(options, value, `${account.email} is ${words} from the next call on.`);
}

export async function password(context: Context, given: string, options: OutputOptions) {
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
