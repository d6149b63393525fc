/**
 * `postrider automation`: documents applied, automations listed and paused, their runs looked at and stopped.
 */
import { readFileSync } from "node:fs";
import { apply } from "../automation/apply.ts";
import { DocumentError } from "../automation/document.ts";
import { parseJson } from "../capacity/policyfile.ts";
import { messageOf } from "../caught.ts";
import { isUuid } from "../ids.ts";
import {
  AUTOMATIONS_MAX,
  type AutomationRow,
  findAutomation,
  listAutomations,
  setAutomationState,
} from "../record/automations/automations.ts";
import {
  countRuns,
  countSteps,
  findRun,
  listRuns,
  type RunRow,
  stopRuns,
} from "../record/automations/runs.ts";
import { RUNS_SHOWN } from "./commands/limits.ts";
import type { Context } from "./context.ts";
import { whyUnreadable } from "./files.ts";
import { CommandError, type OutputOptions, say, table, time } from "./print.ts";

type InWorkspace = OutputOptions & { workspace: string };

export async function applyFile({ sql, clock }: Context, file: string, options: InWorkspace): Promise<void> {
  const document = readDocument(file);
  const { applied, missingTemplates } = await apply(sql, options.workspace, document, clock.now()).catch(
    (error) => {
      throw error instanceof DocumentError ? new CommandError(`${file}: ${error.message}`) : error;
    },
  );
  if (applied.kind === "no audience")
    throw new CommandError(
      `The \`audience_id\` of the document is not an audience of the workspace ${options.workspace}.`,
    );
  if (applied.kind === "too many")
    throw new CommandError(`The workspace already has ${AUTOMATIONS_MAX} automations, which is the limit.`);
  if (!("version" in applied))
    throw new CommandError("The automation was changed or deleted meanwhile. Apply the file again.");
  const { id, version, kind } = applied;
  const warnings = missingTemplates.map(
    (ref) => `\nThere is no template ${ref}: steps that send it are skipped until there is.`,
  );
  const value = { id, version, result: kind, missing_templates: missingTemplates };
  say(options, value, `Automation ${id} ${kind}, version ${version}.${warnings.join("")}`);
}

function readDocument(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new CommandError(whyUnreadable(file, error));
  }
  try {
    return parseJson(text);
  } catch (error) {
    throw new CommandError(`${file}: ${messageOf(error)}`);
  }
}

export async function list({ sql }: Context, options: InWorkspace): Promise<void> {
  const rows = await listAutomations(sql, options.workspace);
  const lines = rows.map((row) => [row.id, row.name, row.event, entryOf(row), row.version, row.state]);
  say(options, rows.map(shown), table(lines, ["id", "name", "event", "entry", "version", "state"]));
}

export async function show({ sql }: Context, ref: string, options: InWorkspace): Promise<void> {
  const { document, ...row } = await expectAutomation(sql, options.workspace, ref);
  const [counts, steps] = await Promise.all([
    countRuns(sql, options.workspace, row.id),
    countSteps(sql, options.workspace, row.id, row.version),
  ]);
  const lines = steps.map(({ position, kind, result, count }) => [position, kind, result, count]);
  const text = [
    `${row.name} (${row.id}), version ${row.version}, ${row.state}`,
    `event ${row.event}, entry ${entryOf(row)}, audience ${row.audienceId}`,
    `runs: ${counts.active} active, ${counts.finished} finished, ${counts.stopped} stopped`,
    "",
    table(lines, ["step", "kind", "result", "runs"]),
  ];
  say(options, { ...shown(row), runs: counts, steps, document }, text.join("\n"));
}

export async function pause(context: Context, ref: string, options: InWorkspace): Promise<void> {
  await setState(context, ref, options, "paused");
}

export async function resume(context: Context, ref: string, options: InWorkspace): Promise<void> {
  await setState(context, ref, options, "active");
}

async function setState(
  { sql, clock }: Context,
  ref: string,
  options: InWorkspace,
  state: "active" | "paused",
): Promise<void> {
  const { id, name } = await expectAutomation(sql, options.workspace, ref);
  await setAutomationState(sql, options.workspace, id, state, new Date(clock.now()));
  say(options, { id, state }, `${name} is ${state}.`);
}

export async function listRunsOf(
  { sql }: Context,
  ref: string,
  options: InWorkspace & { state?: string; after?: string },
): Promise<void> {
  const { id } = await expectAutomation(sql, options.workspace, ref);
  const page = { after: options.after ?? null, limit: RUNS_SHOWN, state: options.state ?? null };
  const rows = (await listRuns(sql, options.workspace, id, page)).slice(0, RUNS_SHOWN);
  const lines = rows.map((run) => [
    run.id,
    run.contactEmail ?? run.contactId,
    run.state,
    run.position,
    time(run.wakeAt),
    time(run.createdAt),
    time(run.endedAt),
    run.reason,
  ]);
  const head = ["id", "contact", "state", "step", "next", "started", "ended", "reason"];
  say(options, rows.map(shownRun), table(lines, head));
}

export async function showRun({ sql }: Context, id: string, options: InWorkspace): Promise<void> {
  const run = isUuid(id) ? await findRun(sql, options.workspace, id.toLowerCase()) : null;
  if (!run)
    throw new CommandError(
      `There is no run ${id} in this workspace. \`postrider automation runs\` lists them.`,
    );
  const { steps, ...row } = run;
  const lines = steps.map(({ position, kind, result, detail, beganAt, endedAt }) => [
    position,
    kind,
    result,
    detail,
    time(beganAt),
    time(endedAt),
  ]);
  const text = [
    `run ${row.id} of version ${row.version}, contact ${row.contactId}, event ${row.eventId}`,
    `${row.state}${row.reason === null ? "" : `: ${row.reason}`}, started ${time(row.createdAt)}${row.wakeAt ? `, goes on ${time(row.wakeAt)}` : ""}`,
    "",
    table(lines, ["step", "kind", "result", "detail", "began", "ended"]),
  ];
  say(options, { ...shownRun(row), steps }, text.join("\n"));
}

export async function stop(
  { sql, clock }: Context,
  ref: string,
  options: InWorkspace & { run?: string },
): Promise<void> {
  const { id, name } = await expectAutomation(sql, options.workspace, ref);
  const now = new Date(clock.now());
  if (options.run === undefined) await setAutomationState(sql, options.workspace, id, "paused", now);
  const which = { automationId: id, ...(options.run !== undefined && { runId: options.run }) };
  const stopped = await stopRuns(sql, options.workspace, which, "stopped by hand", now);
  say(options, { id, stopped }, `${stopped} run${stopped === 1 ? "" : "s"} of ${name} stopped.`);
}

async function expectAutomation(sql: Context["sql"], workspaceId: string, ref: string) {
  const automation = await findAutomation(sql, workspaceId, ref);
  if (!automation)
    throw new CommandError(
      `There is no automation ${ref} in this workspace. \`postrider automation list\` lists them.`,
    );
  return automation;
}

function entryOf({ entry, cooldownMs }: AutomationRow): string {
  return cooldownMs === null ? entry : `${entry} ${cooldownMs / 1000} s`;
}

function shown(row: AutomationRow) {
  const { id, name, audienceId, event, version, state, createdAt, updatedAt } = row;
  return {
    id,
    name,
    audience_id: audienceId,
    event,
    entry: entryOf(row),
    version,
    state,
    created_at: time(createdAt),
    updated_at: time(updatedAt),
  };
}

function shownRun(run: RunRow) {
  const { id, automationId, version, contactId, contactEmail, eventId, state, reason, position } = run;
  return {
    id,
    automation_id: automationId,
    version,
    contact_id: contactId,
    contact_email: contactEmail,
    event_id: eventId,
    state,
    reason,
    position,
    wake_at: time(run.wakeAt),
    created_at: time(run.createdAt),
    ended_at: time(run.endedAt),
  };
}
