/** `postrider workspace`: create, list, set, suspend, resume. */
import { randomBytes } from "node:crypto";
import { Command, InvalidArgumentError } from "commander";
import { hashPassword } from "../admission/password.ts";
import { isUuid, newId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { logEvents } from "../record/outbox/outbox.ts";
import { insertCapChange } from "../record/workspaces/caps.ts";
import { type Account, expectReleaseNow, readAccount } from "../record/workspaces/ledgers.ts";
import { mailNotGone } from "../record/workspaces/suspension.ts";
import { insertOwner, listWorkspaces, type Workspace } from "../record/workspaces/workspaces.ts";
import { CAP_MIN, isPlan, type LimitName, limitsOf, OVERRIDE_MAX, PLANS, type Plan } from "../rules/plans.ts";
import { CommandError, type Context, type Output, say, table, withContext } from "./context.ts";

const LIMIT_NAMES = Object.keys(limitsOf("pro", {})) as LimitName[];
const PASSWORD_BYTES = 12;
/** So many held e-mails are counted, and no more. */
const HELD_MAX = 1_000_000;

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
    .option(
      "--event-log <on|off>",
      "keep what happens to its e-mails and contacts, to be read by GET /events/log",
      readSwitch,
    )
    .option("--limit <name=value>", `${LIMIT_NAMES.join(", ")}; name=default takes the plan's`, readLimit, {})
    .option("--json", "as JSON")
    .action((id, options) => withContext((context) => set(context, id, options)));
  command
    .command("suspend")
    .description("its keys answer 403 at once, and nothing of it leaves; scheduled and waiting mail stays")
    .argument("<id>", "the workspace", readId)
    .option("--reason <text>", "kept with the workspace, for operators only")
    .option("--json", "as JSON")
    .action((id, options) => withContext((context) => suspend(context, id, options)));
  command
    .command("resume")
    .description("its keys work again, and what was held goes on, under the caps")
    .argument("<id>", "the workspace", readId)
    .option("--reason <text>", "why, for operators only: it stands in what this command prints")
    .option("--json", "as JSON")
    .action((id, options) => withContext((context) => resume(context, id, options)));
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
  const rows = workspaces.map((one) => [
    one.id,
    one.handle,
    one.plan,
    one.name,
    JSON.stringify(one.limits),
    one.suspendedAt?.toISOString(),
  ]);
  const head = ["id", "handle", "plan", "name", "limits of its own", "suspended"];
  say(options, workspaces.map(show), table(rows, head));
}

async function set(
  { keyring, sql, reservations, clock }: Context,
  id: string,
  options: Output & { plan?: Plan; limit: Record<string, number | null>; eventLog?: boolean },
) {
  const { plan, limit: limits, eventLog } = options;
  if (plan === undefined && eventLog === undefined && Object.keys(limits).length === 0)
    throw new CommandError("Nothing to set: give --plan, --limit or --event-log.");
  if (eventLog !== undefined && !(await logEvents(sql, id, eventLog)))
    throw new CommandError(`There is no workspace ${id}.`);
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

async function suspend({ keyring, sql }: Context, id: string, options: Output & { reason?: string }) {
  const { reason = null } = options;
  const suspended = await keyring.suspend(id, reason);
  if (!suspended) throw new CommandError(`There is no workspace ${id}.`);
  const held = await heldBack(sql, id);
  const words = [
    `Workspace ${id} is suspended${reason === null ? "" : ` (${reason})`}: its keys answer 403.`,
    `Held: ${held.scheduled} scheduled, ${held.waiting} waiting for a cap, ${held.deferred} deferred, ${held.in_line} in line.`,
    `${held.on_its_way} e-mails are in the hands of workers: what receivers are taking now is finished, the rest comes back.`,
  ];
  const value = { id, suspended: true, suspended_at: suspended.suspendedAt, reason, held };
  say(options, value, words.join("\n"));
}

async function resume({ keyring, sql }: Context, id: string, options: Output & { reason?: string }) {
  const { reason = null } = options;
  const resumed = await keyring.resume(id);
  if (!resumed) throw new CommandError(`There is no workspace ${id}.`);
  const held = await heldBack(sql, id);
  const all = held.scheduled + held.waiting + held.deferred + held.in_line;
  say(
    options,
    { id, suspended: false, suspended_at: null, reason, held },
    `Workspace ${id} is resumed. ${all} e-mails go on, as far as they are due and the caps let them.`,
  );
}

async function heldBack(sql: Sql, id: string) {
  const { scheduled, waiting, deferred, inLine, onItsWay } = await mailNotGone(sql, id, HELD_MAX);
  return { scheduled, waiting, deferred, in_line: inLine, on_its_way: onItsWay };
}

function show(workspace: Workspace) {
  const { id, handle, name, plan, limits, createdAt, suspendedAt, suspendedFor, logsEvents } = workspace;
  return {
    id,
    handle,
    name,
    plan,
    limits: limitsOf(plan, limits),
    overrides: limits,
    event_log: logsEvents,
    created_at: createdAt,
    suspended_at: suspendedAt,
    suspended_for: suspendedFor,
  };
}

function readPlan(text: string): Plan {
  if (!isPlan(text)) throw new InvalidArgumentError(`It must be one of ${PLANS.join(", ")}.`);
  return text;
}

function readSwitch(text: string): boolean {
  if (text !== "on" && text !== "off") throw new InvalidArgumentError("It must be on or off.");
  return text === "on";
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
