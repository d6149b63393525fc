/** `postrider workspace`: create, list, set, suspend, resume. */
import { randomBytes } from "node:crypto";
import { hashPassword } from "../admission/password.ts";
import { sayCount } from "../capacity/report/words.ts";
import { newId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { logEvents } from "../record/outbox/outbox.ts";
import { insertCapChange } from "../record/workspaces/caps.ts";
import { type Account, expectReleaseNow, readAccount } from "../record/workspaces/ledgers.ts";
import { mailNotGone } from "../record/workspaces/suspension.ts";
import { insertOwner, listWorkspaces, type Workspace } from "../record/workspaces/workspaces.ts";
import { limitsOf, type Overrides, type Plan } from "../rules/plans.ts";
import type { Context } from "./context.ts";
import { findUnfinishedMoves } from "./openmoves.ts";
import { type OutputOptions, say, table, UsageError, unknownWorkspace } from "./print.ts";

const PASSWORD_BYTES = 12;
/** So many held e-mails are counted, and no more. */
const HELD_MAX = 1_000_000;

export async function create(
  { keyring, sql, clock }: Context,
  options: OutputOptions & { name: string; plan: Plan; ownerEmail?: string },
) {
  const { id, handle } = await keyring.createWorkspace(options.name, options.plan, {});
  const owner = options.ownerEmail ? await ownerOf(sql, id, options.ownerEmail, clock.now()) : null;
  const made = `Workspace ${id} (${options.plan}), handle ${handle}.`;
  const text = owner ? `${made}\n${ownerText(owner)}` : made;
  say(options, { id, handle, name: options.name, plan: options.plan, ...(owner && { owner }) }, text);
}

type OwnerShown = { email: string; password: string | null };

async function ownerOf(sql: Sql, workspaceId: string, email: string, now: number): Promise<OwnerShown> {
  const password = randomBytes(PASSWORD_BYTES).toString("base64url");
  const row = { id: newId(now), workspaceId, email, passwordHash: await hashPassword(password) };
  const { isNew } = await insertOwner(sql, row, new Date(now));
  return { email, password: isNew ? password : null };
}

function ownerText({ email, password }: OwnerShown): string {
  return password === null
    ? `Owner ${email}, who has an account already: its password stays.`
    : `Owner ${email}, password ${password} (shown once).`;
}

export async function list({ sql }: Context, options: OutputOptions) {
  const [workspaces, moves] = await Promise.all([listWorkspaces(sql), findUnfinishedMoves()]);
  const moveOf = (id: string) => moves.find(({ workspaceId }) => workspaceId === id)?.text ?? null;
  const rows = workspaces.map((one) => [
    one.id,
    one.handle,
    one.plan,
    one.name,
    limitsText(one.limits),
    one.suspendedAt?.toISOString(),
  ]);
  const head = ["id", "handle", "plan", "name", "own limits", "suspended"];
  const told = workspaces.map(({ id }) => moveOf(id)).filter((text) => text !== null);
  const shown = workspaces.map((one) => {
    const move = moveOf(one.id);
    return { ...show(one), ...(move !== null && { move }) };
  });
  say(options, shown, [table(rows, head), ...told].join("\n"));
}

export async function set(
  { keyring, sql, reservations, clock }: Context,
  id: string,
  options: OutputOptions & { plan?: Plan; limit: Record<string, number | null>; eventLog?: boolean },
) {
  const { plan, limit: limits, eventLog } = options;
  if (plan === undefined && eventLog === undefined && Object.keys(limits).length === 0)
    throw new UsageError("Nothing to change: give --plan, --limit or --event-log.");
  if (eventLog !== undefined && !(await logEvents(sql, id, eventLog))) throw unknownWorkspace(id);
  const before = await readAccount(sql, id);
  const workspace = await keyring.changeWorkspace(id, { ...(plan && { plan }), limits });
  if (!workspace) throw unknownWorkspace(id);
  await noteFixed(sql, id, before, limits, new Date(clock.now()));
  // what waits for a cap may go now
  await expectReleaseNow(sql, id, new Date(clock.now()));
  await reservations.forget(workspace.handle);
  const log = workspace.logsEvents ? "on" : "off";
  const text = `Workspace ${id}: plan ${workspace.plan}, own limits ${limitsText(workspace.limits)}, event log ${log}.`;
  say(options, show(workspace), text);
}

function limitsText(limits: Overrides): string {
  const all = Object.entries(limits).map(([name, value]) => `${name}=${value}`);
  return all.length === 0 ? "none" : all.join(" ");
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

export async function suspend(
  { keyring, sql }: Context,
  id: string,
  options: OutputOptions & { reason?: string },
) {
  const { reason = null } = options;
  const suspended = await keyring.suspend(id, reason);
  if (!suspended) throw unknownWorkspace(id);
  const held = await heldBack(sql, id);
  const words = [
    `Workspace ${id} is suspended${inBrackets(reason)}: its keys get 403.`,
    `Held: ${sayCount(held.scheduled)} scheduled, ${sayCount(held.waiting)} waiting for a cap, ${sayCount(held.deferred)} deferred, ${sayCount(held.in_line)} queued.`,
    `With workers: ${sayCount(held.on_its_way)}. They start none of these any more: messages that are being transmitted are finished, the rest is held.`,
  ];
  const value = { id, suspended: true, suspended_at: suspended.suspendedAt, reason, held };
  say(options, value, words.join("\n"));
}

export async function resume(
  { keyring, sql }: Context,
  id: string,
  options: OutputOptions & { reason?: string },
) {
  const { reason = null } = options;
  const resumed = await keyring.resume(id, reason);
  if (!resumed) throw unknownWorkspace(id);
  const held = await heldBack(sql, id);
  const all = held.scheduled + held.waiting + held.deferred + held.in_line;
  say(
    options,
    { id, suspended: false, suspended_at: null, reason, held },
    `Workspace ${id} is resumed${inBrackets(reason)}. What was held (${sayCount(all)}) goes out when it is due and the caps allow.`,
  );
}

function inBrackets(reason: string | null): string {
  return reason === null ? "" : ` (${reason})`;
}

async function heldBack(sql: Sql, id: string) {
  const { scheduled, waiting, deferred, inLine, onItsWay } = await mailNotGone(sql, id, HELD_MAX);
  return { scheduled, waiting, deferred, in_line: inLine, on_its_way: onItsWay };
}

function show(workspace: Workspace) {
  const { id, handle, name, plan, limits, createdAt, suspendedAt, suspendedFor, resumedAt, resumedFor } =
    workspace;
  return {
    id,
    handle,
    name,
    plan,
    limits: limitsOf(plan, limits),
    overrides: limits,
    event_log: workspace.logsEvents,
    created_at: createdAt,
    suspended_at: suspendedAt,
    suspended_for: suspendedFor,
    resumed_at: resumedAt,
    resumed_for: resumedFor,
  };
}
