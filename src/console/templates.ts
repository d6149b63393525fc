/** Templates in the editor: what they become with variables, and their versions. */
import Type, { type Static } from "typebox";
import { isUuid } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { amendTemplate, findVersion, listVersions, type TemplateVersion } from "../record/mail/templates.ts";
import { planWith, TERMS } from "../rules/plans.ts";
import { compile } from "../template/compile.ts";
import { TemplateFault } from "../template/fault.ts";
import { RenderBudget, renderEmail } from "../template/render.ts";
import { turnIfLate } from "../turn.ts";
import {
  accountCall,
  type ConsoleCall,
  EVERYONE,
  type KnownWorkspace,
  type VisitOf,
  workspaceCall,
} from "./calls.ts";
import { type Frames, framed } from "./frames.ts";
import { limitIn } from "./pages.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

const PART_CHARS_MAX = 2 * 1024 * 1024;

const Part = Type.String({ maxLength: PART_CHARS_MAX });
const Optional = Type.Optional(Type.Union([Part, Type.Null()]));
const Rendered = Type.Object(
  {
    html: Part,
    subject: Optional,
    text: Optional,
    variables: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { additionalProperties: false },
);

const Restored = Type.Object(
  { version: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }) },
  { additionalProperties: false },
);

export type TemplateCallParts = { sql: Sql; frames: Frames };

export function templateCalls(parts: TemplateCallParts): ConsoleCall[] {
  return [
    workspaceCall({
      ...{ method: "POST", path: "templates/render", roles: EVERYONE, body: Rendered, changesNothing: true },
      handle: (visit) => render(parts, visit),
    }),
    workspaceCall({
      ...{ method: "GET", path: "templates/{id}/versions", roles: EVERYONE },
      handle: (visit) => versions(parts, visit),
    }),
    workspaceCall({
      ...{ method: "POST", path: "templates/{id}/restore", roles: EVERYONE, body: Restored },
      handle: (visit) => restore(parts, visit),
    }),
    accountCall({
      ...{ method: "GET", path: "frames/{name}" },
      handle: ({ params, query, session, now }) =>
        framed(parts.frames.find(params[0] ?? "", session.accountId, now), query),
    }),
  ];
}

async function render(
  { frames }: TemplateCallParts,
  visit: VisitOf<KnownWorkspace, Static<typeof Rendered>>,
): Promise<ConsoleAnswer> {
  const { html, subject = null, text = null, variables = {} } = visit.body;
  try {
    const late = turnIfLate();
    if (late) await late;
    const compiled = compile({ html, subject, text, from: null, replyTo: [], declared: [] });
    const budget = new RenderBudget(visit.now);
    budget.takeWork(compiled.units);
    const rendered = await renderEmail(compiled, variables, budget);
    const name = frames.keep(rendered.html, visit.session.accountId, visit.now);
    return {
      status: 200,
      body: {
        ...{ object: "rendering", html: rendered.html, subject: rendered.subject, text: rendered.text },
        frame_url: `/console/call/frames/${name}`,
      },
    };
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
    const place = error.place === "" ? "" : ` (${error.place})`;
    throw deny("validation_error", `The template cannot be rendered: ${error.message}${place}.`);
  }
}

/** An old version becomes the newest as it was: PATCH of the API cannot take away a text or a subject. */
async function restore(
  { sql }: TemplateCallParts,
  { workspace, params, body, now }: VisitOf<KnownWorkspace, Static<typeof Restored>>,
): Promise<ConsoleAnswer> {
  const { id: workspaceId, plan, isSuspended } = workspace;
  if (isSuspended) throw deny("workspace_suspended", "This workspace is suspended.");
  if (!TERMS[plan].templates)
    throw deny(
      "plan_required",
      `Changing templates needs the ${planWith("templates")} plan or a higher one.`,
    );
  const id = (params[0] ?? "").toLowerCase();
  const content = isUuid(id) ? await findVersion(sql, workspaceId, id, body.version) : null;
  if (!content) throw deny("not_found", "There is no template with this id, or it has no such version.");
  const made = await amendTemplate(sql, workspaceId, id, null, async () => content, new Date(now));
  if (made.kind !== "amended") throw deny("not_found", "There is no template with this id.");
  const { version } = body;
  return { status: 200, body: { object: "template", id, restored: version }, detail: { version } };
}

/** `cursor` is the version before which the page begins. */
async function versions(
  { sql }: TemplateCallParts,
  { workspace, params, query }: VisitOf<KnownWorkspace>,
): Promise<ConsoleAnswer> {
  const cursor = query.get("cursor");
  if (cursor !== null && !VERSION.test(cursor))
    throw deny("invalid_parameter", "`cursor` must be `next_cursor` of the page before.");
  const page = { before: cursor === null ? null : Number(cursor), most: limitIn(query) };
  const found = await listVersions(sql, workspace.id, params[0] ?? "", page);
  const last = found.at(-1);
  const isMore = last !== undefined && !last.isOldest;
  return {
    status: 200,
    body: {
      ...{ object: "list", data: found.map(show), has_more: isMore },
      next_cursor: isMore ? String(last.version) : null,
    },
  };
}

const VERSION = /^[1-9]\d{0,8}$/;

function show(one: TemplateVersion) {
  const { version, createdAt, isCurrent, name, subject, from, replyTo, html, plain, declared } = one;
  return {
    ...{ id: String(version), version, created_at: createdAt.toISOString(), is_current: isCurrent },
    ...{ name, subject, from, reply_to: replyTo, html, text: plain, variables: declared },
  };
}
