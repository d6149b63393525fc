/** `postrider workspace`: create, list, set. */
import { randomBytes } from "node:crypto";
import { Command, InvalidArgumentError } from "commander";
import { hashPassword } from "../admission/password.ts";
import { isUuid, newId } from "../ids.ts";
import { CAP_MIN, isPlan, type LimitName, limitsOf, OVERRIDE_MAX, PLANS, type Plan } from "../plans.ts";
import { insertCapChange } from "../record/capacity.ts";
import type { Sql } from "../record/connect.ts";
import { type Account, expectReleaseNow, readAccount } from "../record/ledgers.ts";
import { insertOwner, listWorkspaces, type Workspace } from "../record/workspaces.ts";
import { CommandError, type Context, type Output, say, table, withContext } from "./context.ts";

const LIMIT_NAMES = Object.keys(limitsOf("pro", {})) as LimitName[];
const PASSWORD_BYTES = 12;

export function workspaceCommand(): Command {
  const command = new Command("workspace").description("workspaces, their plans and limits");
  command
    .command("create")
    .requiredOption("--name <name>", "what people call it")
    .requiredOption("--plan <plan>", PLANS.join(", "), readPlan)
    .option("--owner-email <email>", "makes an owner; the password is shown once")
    .option("--json", "as JSON")
    .action((options) => withContext((context) => create(context, options)));
  command
    .command("list")
    .option("--json", "as JSON")
    .action((options) => withContext((context) => list(context, options)));
  command
    .command("set")
    .argument("<id>", "the workspace", readId)
    .option("--plan <plan>", PLANS.join(", "), readPlan)
    .option("--limit <name=value>", `${LIMIT_NAMES.join(", ")}; name=default takes the plan's`, readLimit, {})
    .option("--json", "as JSON")
    .action((id, options) => withContext((context) => set(context, id, options)));
  return command;
}

async function create(
  { keyring, sql, clock }: Context,
  options: Output & { name: string; plan: Plan; ownerEmail?: string },
) {
  const { id, handle } = await keyring.createWorkspace(options.name, options.plan, {});
  const owner = options.ownerEmail
    ? { email: options.ownerEmail, password: randomBytes(PASSWORD_BYTES).toString("base64url") }
    : null;
  if (owner) {
    const now = clock.now();
    const row = {
      id: newId(now),
      workspaceId: id,
      email: owner.email,
      passwordHash: await hashPassword(owner.password),
    };
    await insertOwner(sql, row, new Date(now));
  }
  const made = `Workspace ${id} (${options.plan}), handle ${handle}.`;
  const text = owner ? `${made}\nOwner ${owner.email}, password ${owner.password} (shown once).` : made;
  say(options, { id, handle, name: options.name, plan: options.plan, ...(owner && { owner }) }, text);
}

async function list({ sql }: Context, options: Output) {
  const workspaces = await listWorkspaces(sql);
  const rows = workspaces.map((one) => [one.id, one.handle, one.plan, one.name, JSON.stringify(one.limits)]);
  say(options, workspaces.map(show), table(rows, ["id", "handle", "plan", "name", "limits of its own"]));
}

async function set(
  { keyring, sql, reservations, clock }: Context,
  id: string,
  options: Output & { plan?: Plan; limit: Record<string, number | null> },
) {
  const { plan, limit: limits } = options;
  if (plan === undefined && Object.keys(limits).length === 0)
    throw new CommandError("Nothing to set: give --plan or --limit.");
  const before = await readAccount(sql, id);
  const workspace = await keyring.changeWorkspace(id, { ...(plan && { plan }), limits });
  if (!workspace) throw new CommandError(`There is no workspace ${id}.`);
  await noteFixed(sql, id, before, limits, new Date(clock.now()));
  // what waits for a cap may go now
  await expectReleaseNow(sql, id, new Date(clock.now()));
  await reservations.forget(workspace.handle);
  say(
    options,
    show(workspace),
    `Workspace ${id}: ${workspace.plan}, limits of its own ${JSON.stringify(workspace.limits)}.`,
  );
}

/** A cap fixed by hand is a change of caps like any other: it stands in their history. */
async function noteFixed(
  sql: Sql,
  id: string,
  before: Account | null,
  limits: Record<string, number | null>,
  now: Date,
): Promise<void> {
  const after = await readAccount(sql, id);
  if (!before || !after || !("cap_hour" in limits || "cap_day" in limits)) return;
  const capsOf = ({ allowance }: Account) => ({ day: allowance.capDay, hour: allowance.capHour });
  const reason = `Limits of the workspace set: ${JSON.stringify(limits)}`;
  const change = { reason, level: "fixed", counts: null, policyVersion: null, by: "operator" };
  await insertCapChange(sql, id, { before: capsOf(before), after: capsOf(after), ...change }, now);
}

function show({ id, handle, name, plan, limits, createdAt }: Workspace) {
  return { id, handle, name, plan, limits: limitsOf(plan, limits), overrides: limits, created_at: createdAt };
}

function readPlan(text: string): Plan {
  if (!isPlan(text)) throw new InvalidArgumentError(`It must be one of ${PLANS.join(", ")}.`);
  return text;
}

export function readId(text: string): string {
  if (!isUuid(text)) throw new InvalidArgumentError("It must be a UUID.");
  return text.toLowerCase();
}

function readLimit(text: string, limits: Record<string, number | null>): Record<string, number | null> {
  const [name = "", value = ""] = text.split("=");
  if (!(LIMIT_NAMES as string[]).includes(name))
    throw new InvalidArgumentError(`The name must be one of ${LIMIT_NAMES.join(", ")}.`);
  if (value === "default") return { ...limits, [name]: null };
  const number = Number(value);
  const min = name.startsWith("cap_") ? CAP_MIN : 1;
  if (!/^\d+$/.test(value) || number < min || number > OVERRIDE_MAX)
    throw new InvalidArgumentError(
      `${name} must be a whole number from ${min} to ${OVERRIDE_MAX}, or default.`,
    );
  return { ...limits, [name]: number };
}
