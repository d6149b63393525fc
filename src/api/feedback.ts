/**
 * /feedback: what another system says became of mail after it was taken, kept with the reports of receivers.
 */
import Type from "typebox";
import { parseMailbox } from "../address.ts";
import { Unavailable } from "../admission/unavailable.ts";
import type { Clock } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { insertReports, type NewReport } from "../record/mail/reports.ts";
import { checker, missingBody } from "./check.ts";
import type { Json } from "./json.ts";
import { Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Count, inner } from "./shapes.ts";
import { parseInstant } from "./time.ts";

const ITEMS_MAX = 100;
const DETAIL_CHARS_MAX = 2_000;

export const Feedback = Type.Object(
  {
    email_id: Type.Optional(Type.String({ description: "of the e-mail; or its `message_id`" })),
    message_id: Type.Optional(Type.String({ description: "as `GET /emails/{id}` shows it" })),
    recipient: Type.Optional(
      Type.String({
        description: "the recipient that the report is about; required when the e-mail has several",
      }),
    ),
    type: Type.Enum(["bounce", "complaint"]),
    at: Type.Optional(
      Type.String({ description: "when it happened, RFC 3339; default: now, also for a time in the future" }),
    ),
    category: Type.Optional(
      Type.Enum(["hard", "soft", "block"], {
        description: "of a bounce; without it, read from `detail`, and hard without that",
      }),
    ),
    detail: Type.Optional(
      Type.String({ maxLength: DETAIL_CHARS_MAX, description: "the literal reply, shown with the e-mail" }),
    ),
  },
  { $id: "Feedback" },
);
const checkFeedback = checker(Feedback);

export type FeedbackParts = { sql: Sql; clock: Clock };

export function feedbackRoutes(parts: FeedbackParts): Route[] {
  return [
    {
      method: "POST",
      path: "/api/v1/feedback",
      permissions: ["full"],
      summary: `Report up to ${ITEMS_MAX} bounces and complaints; saying one again changes nothing`,
      request: Type.Array(Feedback, { minItems: 1, maxItems: ITEMS_MAX }),
      success: 202,
      answer: inner({ object: Type.Literal("feedback"), accepted: Count }),
      handle: (call) => take(parts, call),
    },
  ];
}

async function take({ sql, clock }: FeedbackParts, { caller, body }: Call): Promise<Answer> {
  if (body === undefined) throw missingBody("an array of reports");
  if (!Array.isArray(body) || body.length === 0 || body.length > ITEMS_MAX)
    throw refuse("validation_error", `The request body must be an array of 1 to ${ITEMS_MAX} reports.`);
  const reports = body.map((item, n) => readItem(item, n, caller.workspaceId, clock.now()));
  await insertReports(sql, reports).catch((error: unknown) => {
    throw new Unavailable("postgres", "Postgres did not take the reports", error);
  });
  return { status: 202, body: JSON.stringify({ object: "feedback", accepted: reports.length }) };
}

function readItem(item: Json, n: number, workspaceId: string, now: number): NewReport {
  const at = (field: string) => `\`[${n}].${field}\``;
  const given = checkItem(item, n);
  const emailId = emailIdOf(given);
  if (emailId === null) throw namesNoEmail(given, at);
  const recipient = given.recipient === undefined ? null : parseMailbox(given.recipient);
  if (given.recipient !== undefined && recipient === null)
    throw refuse("validation_error", `The ${at("recipient")} field must be an address: \`a@x.com\`.`);
  const happenedAt = given.at === undefined ? null : parseInstant(given.at);
  if (given.at !== undefined && happenedAt === null)
    throw refuse("validation_error", `The ${at("at")} field must be a time of RFC 3339 with an offset.`);
  const said = {
    type: given.type,
    recipient: recipient?.address ?? null,
    category: given.category ?? null,
    detail: given.detail?.replace(/\p{Cc}+/gu, " ").trim() ?? null,
    // the clock of another system may be ahead of ours, and what came later could not be shown as later
    at: happenedAt === null ? null : Math.min(happenedAt, now),
  };
  return {
    id: newId(now),
    source: "api",
    handle: null,
    workspaceId,
    emailId,
    place: null,
    network: null,
    raw: Buffer.from(JSON.stringify(said)),
  };
}

function checkItem(item: Json, n: number) {
  if (item === null || typeof item !== "object" || Array.isArray(item))
    throw refuse("validation_error", `\`[${n}]\` must be a JSON object.`);
  try {
    return checkFeedback(item);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal({ ...error.problem, message: error.problem.message.replace("`", `\`[${n}].`) });
  }
}

function namesNoEmail(given: { email_id?: string; message_id?: string }, at: (field: string) => string) {
  if (given.email_id !== undefined)
    return refuse("validation_error", `The ${at("email_id")} field must be a UUID.`);
  if (given.message_id !== undefined)
    return refuse(
      "validation_error",
      `The ${at("message_id")} field must be a Message-ID as \`GET /emails/{id}\` shows it.`,
    );
  return refuse("missing_required_field", `Missing ${at("email_id")} or ${at("message_id")} field.`);
}

/** A Message-ID of ours is made of the id and the sender's domain. */
function emailIdOf({ email_id, message_id }: { email_id?: string; message_id?: string }): string | null {
  const text = email_id ?? message_id?.trim().replace(/^<|>$/g, "").split("@")[0] ?? "";
  return isUuid(text) ? text.toLowerCase() : null;
}
