/** An automation as it runs: its versions, and what the runs of one did at each of its steps. */
import { isUuid } from "../ids.ts";
import { findAutomation, readDocuments } from "../record/automations/automations.ts";
import { countPlaces, listVersionRuns } from "../record/automations/runs.ts";
import type { Sql } from "../record/db/connect.ts";
import { type ConsoleCall, EVERYONE, type KnownWorkspace, type VisitOf, workspaceCall } from "./calls.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

/** Counting more would take long. */
const RUNS_MAX = 10_000;
const VERSIONS_SHOWN = 50;

export function automationCalls(parts: { sql: Sql }): ConsoleCall[] {
  return [
    workspaceCall({
      ...{ method: "GET", path: "automations/{id}/flow", roles: EVERYONE },
      handle: (visit) => flow(parts.sql, visit),
    }),
    workspaceCall({
      ...{ method: "GET", path: "automations/{id}/versions/{version}", roles: EVERYONE },
      handle: (visit) => documentOf(parts.sql, visit),
    }),
  ];
}

async function flow(sql: Sql, { workspace, params, query }: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const id = (params[0] ?? "").toLowerCase();
  const found = isUuid(id) ? await findAutomation(sql, workspace.id, id) : null;
  if (!found) throw deny("not_found", "There is no automation with this id.");
  const asked = query.get("version");
  const version = asked === null ? found.version : versionIn(asked);
  const [[written], places, versions] = await Promise.all([
    readDocuments(sql, [{ workspaceId: workspace.id, automationId: id, version }]),
    countPlaces(sql, workspace.id, id, version, RUNS_MAX),
    listVersionRuns(sql, workspace.id, id, { runs: RUNS_MAX, versions: VERSIONS_SHOWN }),
  ]);
  if (!written) throw deny("not_found", "This automation has no such version.");
  const body = {
    ...{ object: "automation_flow", id, version, document: written.document, runs_counted_max: RUNS_MAX },
    places: places.map(({ position, done, skipped, standing }) => ({
      ...{ step: position, done, skipped, standing },
    })),
    versions: versions.map(({ version: number, createdAt, runs }) => ({
      ...{ version: number, created_at: createdAt.toISOString(), runs, is_current: number === found.version },
    })),
  };
  return { status: 200, body };
}

/** Runs keep the version that they began with: theirs may be an old one. */
async function documentOf(sql: Sql, { workspace, params }: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const [id = "", text = ""] = params;
  const key = { workspaceId: workspace.id, automationId: id.toLowerCase(), version: Number(text) };
  const [written] = isUuid(id) && VERSION.test(text) ? await readDocuments(sql, [key]) : [];
  if (!written) throw deny("not_found", "There is no automation with this id, or it has no such version.");
  const { version, document } = written;
  return { status: 200, body: { object: "automation_version", id: key.automationId, version, document } };
}

const VERSION = /^[1-9]\d{0,8}$/;

function versionIn(text: string): number {
  if (!VERSION.test(text)) throw deny("invalid_parameter", "`version` must be a whole number from 1 on.");
  return Number(text);
}
