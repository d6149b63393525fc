/**
 * /automations: made, changed, stopped and deleted, and the runs of each. Shapes as the official client types
 * them.
 */
import Type from "typebox";
import { Unavailable } from "../admission/unavailable.ts";
import { firstChars } from "../chars.ts";
import type { Clock } from "../clock.ts";
import { isUuid } from "../ids.ts";
import {
  type AppliedVersion,
  AUTOMATIONS_MAX,
  type AutomationRow,
  deleteAutomation,
  findAutomation,
  type MeantAutomation,
  pageOfAutomations,
  renameAutomation,
  setAutomationState,
} from "../record/automations/automations.ts";
import { dropEntries, findRun, listRuns, type RunRow, stopRuns } from "../record/automations/runs.ts";
import { defaultAudience } from "../record/contacts/audiences.ts";
import type { Sql } from "../record/db/connect.ts";
import { visibleAudience } from "./audiences.ts";
import { documentOf, type Graph, graphOf } from "./automationgraph.ts";
import { checker, missingField } from "./check.ts";
import type { Json } from "./json.ts";
import { Spelling } from "./misspelt.ts";
import { envelope, LIST_QUERY, oneOf, pageOf } from "./page.ts";
import { type Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Anything, Count, Id, inner, listOf, Named, orNull, shape, Text, Time, told } from "./shapes.ts";
import { iso } from "./time.ts";
import { expectVersion, IfVersion } from "./version.ts";

const PATH = "/api/v1/automations";
const COPY_NAME_CHARS_MAX = 200;
/** One that others change at the same time is read again, a few times. */
const AMEND_ATTEMPTS_MAX = 8;

const Status = Type.Enum(["enabled", "disabled"]);
const Steps = Type.Array(Type.Record(Type.String(), Type.Unknown()), {
  maxItems: 150,
  description:
    "of a document, or with `connections` as the official client writes them: `{key, type, config}`",
});
const Connections = Type.Array(
  Type.Object({
    from: Type.String(),
    to: Type.String(),
    type: Type.Optional(
      Type.Enum(["default", "condition_met", "condition_not_met", "timeout", "event_received"]),
    ),
  }),
  { maxItems: 1_000 },
);
const fields = {
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  status: Type.Optional(Status),
  connections: Type.Optional(Connections),
  audience_id: Type.Optional(Type.String({ description: "default: the workspace's default audience" })),
  event: Type.Optional(Type.String()),
  entry: Type.Optional(Type.Unknown({ description: "default `every`" })),
  filters: Type.Optional(Type.Unknown()),
};
const NewAutomation = Type.Object(
  { ...fields, name: Type.String({ minLength: 1, maxLength: 200 }), steps: Steps },
  { $id: "NewAutomation" },
);
const UpdateAutomation = Type.Object(
  { ...fields, steps: Type.Optional(Steps), if_version: IfVersion },
  { $id: "UpdateAutomation" },
);
const checkNew = checker(NewAutomation);
const checkUpdate = checker(UpdateAutomation);
const spelling = new Spelling(Object.keys({ ...NewAutomation.properties, ...UpdateAutomation.properties }));

const automationFields = {
  id: Id,
  name: Text,
  status: Status,
  audience_id: Id,
  event: Text,
  created_at: Time,
  updated_at: Time,
};
const AutomationAnswer = shape("Automation", {
  object: Type.Literal("automation"),
  ...automationFields,
  version: Count,
  entry: Anything,
  filters: Anything,
  document: Type.Unknown({ description: "as this engine keeps it" }),
  steps: Type.Array(inner({ key: Text, type: Text, config: Named })),
  connections: Type.Array(inner({ from: Text, to: Text, type: Text })),
});
const runFields = {
  id: Id,
  version: Count,
  status: Type.Enum(["running", "completed", "cancelled"]),
  contact_id: Id,
  contact_email: orNull(Text),
  reason: orNull(Text),
  started_at: Time,
  next_step_at: orNull(Time),
  completed_at: orNull(Time),
  created_at: Time,
};
const RunAnswer = shape("AutomationRun", {
  object: Type.Literal("automation_run"),
  ...runFields,
  steps: Type.Array(
    inner({
      key: Text,
      type: Text,
      status: Type.Enum(["completed", "skipped"]),
      output: inner({ result: Text, detail: orNull(Text) }),
      error: Type.Null(),
      started_at: Time,
      completed_at: Time,
      created_at: Time,
    }),
  ),
});
const Changed = told("automation");

/** What became of a document; `says`: what is wrong with it. */
export type AppliedDocument = AppliedVersion | { kind: "wrong"; says: string };

export type AutomationParts = {
  reads: Sql;
  lists(): Sql;
  clock: Clock;
  /**
   * Checks a document and keeps it, as a new automation, which begins in this state, or as the next version
   * of one.
   */
  apply(
    workspaceId: string,
    document: unknown,
    now: number,
    state: AutomationRow["state"],
    meant: MeantAutomation,
  ): Promise<AppliedDocument>;
};

export function automationRoutes(parts: AutomationParts): Route[] {
  const shared = { permissions: ["full"], success: 200 } as const;
  const one = `${PATH}/{id}`;
  return [
    {
      ...shared,
      method: "POST",
      path: PATH,
      summary: "Create an automation",
      success: 201,
      request: NewAutomation,
      answer: Changed,
      handle: (call) => create(parts, call),
    },
    {
      ...shared,
      method: "GET",
      path: PATH,
      summary: "List automations, newest first",
      answer: listOf(shape("AutomationItem", automationFields)),
      query: [...LIST_QUERY, { name: "status", description: "`enabled` or `disabled`" }],
      handle: (call) => list(parts, call),
    },
    {
      ...shared,
      method: "GET",
      path: one,
      summary: "Get an automation",
      answer: AutomationAnswer,
      handle: (call) => get(parts, call),
    },
    {
      ...shared,
      method: "PATCH",
      path: one,
      summary: "Rename, enable, disable or change an automation; runs keep the version they began with",
      request: UpdateAutomation,
      answer: Changed,
      handle: (call) => update(parts, call),
    },
    {
      ...shared,
      method: "DELETE",
      path: one,
      summary: "Delete an automation: its runs stop",
      answer: told("automation", { deleted: Type.Literal(true) }),
      handle: (call) => remove(parts, call),
    },
    {
      ...shared,
      method: "POST",
      path: `${one}/duplicate`,
      summary: "Copy an automation; the copy is disabled",
      answer: Changed,
      success: 201,
      handle: (call) => duplicate(parts, call),
    },
    {
      ...shared,
      method: "POST",
      path: `${one}/stop`,
      summary: "Disable an automation and end its runs",
      answer: told("automation", { status: Type.Literal("disabled") }),
      handle: (call) => stop(parts, call),
    },
    {
      ...shared,
      method: "GET",
      path: `${one}/runs`,
      summary: "List the runs of an automation, newest first",
      answer: listOf(shape("AutomationRunItem", runFields)),
      query: [
        ...LIST_QUERY,
        {
          name: "status",
          description: "`running`, `completed`, `cancelled`, `failed`, or several with commas",
        },
      ],
      handle: (call) => runs(parts, call),
    },
    {
      ...shared,
      method: "GET",
      path: `${one}/runs/{run_id}`,
      summary: "Get a run of an automation, with what its steps did",
      answer: RunAnswer,
      handle: (call) => run(parts, call),
    },
  ];
}

/** As it is kept. */
type Document = {
  name: string;
  audience_id: string;
  event: string;
  entry: Json;
  filters?: Json;
  steps: Json[];
};

/** Others are ignored like everywhere, but with a misspelt `filters` everybody would enter. */
function expectSpelt(body: Json | undefined): Json | undefined {
  for (const name in body as object) {
    const meant = spelling.isKnown(name) ? null : spelling.nearest(name);
    if (meant !== null)
      throw refuse(
        "validation_error",
        `The \`${name}\` field is not known. Did you mean \`${meant}\`? Correct its name, or remove it.`,
      );
  }
  return body;
}

async function create(parts: AutomationParts, call: Call): Promise<Answer> {
  const { status, connections, name, audience_id, ...given } = checkNew(expectSpelt(call.body));
  const written = partsOf({ ...given, connections });
  if (written.event === undefined) throw missingField("event");
  const document = {
    name,
    audience_id: await audienceOf(parts, call, audience_id),
    entry: "every",
    ...written,
  };
  // as the official client documents it, what it writes begins when it is enabled
  const state = (status ?? (connections ? "disabled" : "enabled")) === "enabled" ? "active" : "paused";
  return answer(201, idOf(await applied(parts, call, document, state, "new"), name));
}

type Written = { connections?: unknown; steps?: unknown; event?: string; entry?: unknown; filters?: unknown };

/** What a body says of the document itself. */
function partsOf({ connections, steps, event, entry, filters }: Written) {
  const terms = { ...(entry !== undefined && { entry }), ...(filters !== undefined && { filters }) };
  if (connections !== undefined) return { ...terms, ...documentOf(graphIn(steps, connections)) };
  return { ...terms, ...(event !== undefined && { event }), ...(steps !== undefined && { steps }) };
}

const checkGraph = checker(
  Type.Object({
    steps: Type.Array(
      Type.Object({
        key: Type.String({ minLength: 1, maxLength: 100 }),
        type: Type.String(),
        config: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      }),
    ),
    connections: Connections,
  }),
);

function graphIn(steps: unknown, connections: unknown): Graph {
  const graph = checkGraph({ steps: steps ?? null, connections } as Json);
  return {
    steps: graph.steps.map(({ key, type, config = {} }) => ({
      key,
      type,
      config: config as Graph["steps"][0]["config"],
    })),
    connections: graph.connections.map(({ from, to, type = "default" }) => ({ from, to, type })),
  };
}

async function audienceOf(
  { reads, clock }: AutomationParts,
  { caller }: Call,
  given?: string,
): Promise<string> {
  if (given !== undefined) return visibleAudience(caller, audienceIdIn(given));
  const id = await defaultAudience(reads, caller.workspaceId, new Date(clock.now()));
  if (id === null) throw unknownAutomation();
  return visibleAudience(caller, id);
}

function audienceIdIn(text: string): string {
  if (!isUuid(text)) throw refuse("validation_error", "The `audience_id` field must be a UUID.");
  return text.toLowerCase();
}

async function applied(
  { apply, clock }: AutomationParts,
  { caller }: Call,
  document: object,
  state: AutomationRow["state"],
  meant: MeantAutomation,
): Promise<AppliedVersion> {
  const result = await apply(caller.workspaceId, document, clock.now(), state, meant);
  if (result.kind === "wrong") throw refuse("validation_error", result.says);
  return result;
}

/** Of what was applied under this name. */
function idOf(result: AppliedVersion, name: string): string {
  switch (result.kind) {
    case "no audience":
      throw refuse("not_found", "There is no audience with this id.");
    case "too many":
      throw refuse(
        "validation_error",
        `A workspace has at most ${AUTOMATIONS_MAX} automations. Delete one first.`,
      );
    case "taken":
      throw taken(name);
    case "gone":
      throw unknownAutomation();
    case "stale":
      throw new Unavailable("workspace", "the automation keeps changing");
    default:
      return result.id;
  }
}

async function list({ reads }: AutomationParts, { caller, query }: Call): Promise<Answer> {
  const page = pageOf(query, ["status"]);
  const status = oneOf(query, "status", ["enabled", "disabled"]);
  const rows = await pageOfAutomations(
    reads,
    caller.workspaceId,
    caller.audienceIds,
    status && stateOf(status),
    page,
  );
  return { status: 200, body: envelope(rows, page, show) };
}

async function get(parts: AutomationParts, call: Call): Promise<Answer> {
  const found = await find(parts, call);
  const document = found.document as Document;
  const { version, entry, filters } = { ...document, version: found.version };
  const body = {
    object: "automation",
    ...show(found),
    ...{ version, entry, filters: filters ?? [], document },
    ...graphOf(document),
  };
  return { status: 200, body: JSON.stringify(body) };
}

async function update(parts: AutomationParts, call: Call): Promise<Answer> {
  const { reads, clock } = parts;
  const { workspaceId } = call.caller;
  const { name, status, audience_id, if_version, ...given } = checkUpdate(expectSpelt(call.body));
  const written = partsOf(given);
  if (audience_id !== undefined) audienceIdIn(audience_id);
  const found = await find(parts, call);
  expectVersion(if_version, found.version);
  const now = new Date(clock.now());
  const audience = audience_id === undefined ? undefined : await audienceOf(parts, call, audience_id);
  if (audience !== undefined || Object.keys(written).length > 0)
    await amend(
      parts,
      call,
      { ...written, ...(name && { name }), ...(audience && { audience_id: audience }) },
      if_version,
    );
  else if (name !== undefined && name !== found.name)
    if (!(await renameAutomation(reads, workspaceId, found.id, name, now))) throw taken(name);
  if (status !== undefined) await setAutomationState(reads, workspaceId, found.id, stateOf(status), now);
  return answer(200, found.id);
}

/** What others change meanwhile stays: then it is read and amended again, unless one version is `meant`. */
async function amend(
  parts: AutomationParts,
  call: Call,
  given: object & { name?: string },
  meant: number | undefined,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const { id, version, name, state, document } = await find(parts, call);
    expectVersion(meant, version);
    const whole = { ...(document as Document), name, ...given };
    const result = await applied(parts, call, whole, state, { id, version, name });
    if (result.kind === "stale" && attempt < AMEND_ATTEMPTS_MAX) continue;
    idOf(result, whole.name);
    return;
  }
}

async function duplicate(parts: AutomationParts, call: Call): Promise<Answer> {
  const { document, name } = await find(parts, call);
  const copied = (as: string) =>
    applied(parts, call, { ...(document as Document), name: as }, "paused", "new");
  const copy = firstChars(`Copy of ${name}`, COPY_NAME_CHARS_MAX);
  const result = await copied(copy);
  if (result.kind !== "taken") return answer(201, idOf(result, copy));
  const marked = `${firstChars(copy, COPY_NAME_CHARS_MAX - 20)} ${clockMark(parts.clock.now())}`;
  return answer(201, idOf(await copied(marked), marked));
}

/** Tells copies of one automation apart. */
function clockMark(now: number): string {
  return new Date(now).toISOString().slice(0, 19);
}

async function remove(parts: AutomationParts, call: Call): Promise<Answer> {
  const { workspaceId } = call.caller;
  const reason = "the automation was deleted";
  const { id } = await halt(parts, call, reason);
  await deleteAutomation(parts.reads, workspaceId, id);
  // it may have been enabled in between
  await stopRuns(parts.reads, workspaceId, { automationId: id }, reason, new Date(parts.clock.now()));
  await dropEntries(parts.reads, workspaceId, id);
  return { status: 200, body: JSON.stringify({ object: "automation", id, deleted: true }) };
}

async function stop(parts: AutomationParts, call: Call): Promise<Answer> {
  const { id } = await halt(parts, call, "stopped by hand");
  return { status: 200, body: JSON.stringify({ object: "automation", id, status: "disabled" }) };
}

/** Nobody enters any more, and those under way end. */
async function halt(parts: AutomationParts, call: Call, reason: string) {
  const { reads, clock } = parts;
  const { workspaceId } = call.caller;
  const found = await find(parts, call);
  const now = new Date(clock.now());
  await setAutomationState(reads, workspaceId, found.id, "paused", now);
  await stopRuns(reads, workspaceId, { automationId: found.id }, reason, now);
  return found;
}

async function runs(parts: AutomationParts, call: Call): Promise<Answer> {
  const page = pageOf(call.query, ["status"]);
  const states = runStatesIn(call.query);
  const { id } = await find(parts, call);
  const rows = await listRuns(parts.lists(), call.caller.workspaceId, id, { ...page, state: states });
  return { status: 200, body: envelope(rows, page, showRun) };
}

const RUN_STATES: Record<string, RunRow["state"] | null> = {
  running: "active",
  completed: "finished",
  cancelled: "stopped",
  // a step that fails is tried again, or skipped
  failed: null,
};

function runStatesIn(query: URLSearchParams): RunRow["state"][] | null {
  const given = query.get("status");
  if (given === null) return null;
  return given.split(",").flatMap((name) => {
    const state = Object.hasOwn(RUN_STATES, name) ? RUN_STATES[name] : undefined;
    if (state === undefined)
      throw refuse(
        "invalid_parameter",
        `\`status\` must be some of \`${Object.keys(RUN_STATES).join("`, `")}\`.`,
      );
    return state ?? [];
  });
}

async function run(parts: AutomationParts, call: Call): Promise<Answer> {
  const runId = uuidOf(call.params[1], "a run");
  const { id } = await find(parts, call);
  const found = await findRun(parts.reads, call.caller.workspaceId, runId);
  if (!found || found.automationId !== id) throw refuse("not_found", "There is no run with this id.");
  const steps = found.steps.map(({ position, kind, result, detail, beganAt, endedAt }) => ({
    key: position,
    type: kind,
    status: result === "skipped" ? "skipped" : "completed",
    output: { result, detail },
    error: null,
    started_at: iso(beganAt),
    completed_at: iso(endedAt),
    created_at: iso(beganAt),
  }));
  return { status: 200, body: JSON.stringify({ object: "automation_run", ...showRun(found), steps }) };
}

async function find({ reads }: AutomationParts, { caller, params }: Call) {
  const found = await findAutomation(reads, caller.workspaceId, uuidOf(params[0], "an automation"));
  // by a key that is limited to audiences, those of others do not exist
  if (!found || (caller.audienceIds !== null && !caller.audienceIds.includes(found.audienceId)))
    throw unknownAutomation();
  return found;
}

function uuidOf(text: string | undefined, what: string): string {
  if (text === undefined || !isUuid(text))
    throw refuse("invalid_parameter", `The id of ${what} must be a UUID.`);
  return text.toLowerCase();
}

function stateOf(status: string): AutomationRow["state"] {
  return status === "enabled" ? "active" : "paused";
}

function unknownAutomation(): Refusal {
  return refuse("not_found", "There is no automation with this id.");
}

function taken(name: string): Refusal {
  return refuse(
    "validation_error",
    `The \`name\` \`${name}\` is that of another automation. Choose another one.`,
  );
}

function answer(status: number, id: string): Answer {
  return { status, body: JSON.stringify({ object: "automation", id }) };
}

function show({ id, name, state, audienceId, event, createdAt, updatedAt }: AutomationRow) {
  return {
    id,
    name,
    status: state === "active" ? "enabled" : "disabled",
    audience_id: audienceId,
    event,
    created_at: iso(createdAt),
    updated_at: iso(updatedAt),
  };
}

const STATUS_OF_RUN = { active: "running", finished: "completed", stopped: "cancelled" } as const;

function showRun(run: RunRow) {
  const { id, version, state, reason, contactId, contactEmail, createdAt, wakeAt, endedAt } = run;
  return {
    ...{ id, version },
    status: STATUS_OF_RUN[state],
    contact_id: contactId,
    contact_email: contactEmail,
    reason,
    started_at: iso(createdAt),
    next_step_at: iso(wakeAt),
    completed_at: iso(endedAt),
    created_at: iso(createdAt),
  };
}
