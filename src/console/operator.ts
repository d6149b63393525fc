/**
 * What operators see and do: all workspaces, the whole queue, and finding a mail. No mail's contents, and no
 * contacts.
 */
import Type from "typebox";
import type { Keyring } from "../admission/keyring.ts";
import { HOUR_MS } from "../clock.ts";
import { isUuid } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { resumeDestination, suspendDestination } from "../record/mail/destinations.ts";
import { mailOfId } from "../record/mail/find.ts";
import { bounceDeferred, retryDeferred, viewQueue } from "../record/mail/queueview.ts";
import { findEmails } from "../record/mail/read.ts";
import { mailNotGone } from "../record/workspaces/suspension.ts";
import { findWorkspace, pageOfWorkspaces, type WorkspaceItem } from "../record/workspaces/workspaces.ts";
import { reasonOf } from "../rules/reason.ts";
import { type ConsoleCall, operatorCall } from "./calls.ts";
import { pageIn, pageOfRows, wholeList } from "./pages.ts";
import { AnyDestination, DestinationName, destinationIn, named, type SendingFigures } from "./queue.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

const HELD_MAX = 100_000;
const HOURS_MAX = 24 * 365;
const NAME_CHARS_MAX = 100;

const closed = { additionalProperties: false } as const;
/** With a letter in it: those who ask later have nothing else. */
const Reason = Type.String({ minLength: 1, maxLength: 300, pattern: "\\S" });
const Reasoned = Type.Object({ reason: Reason }, closed);
const PerhapsReasoned = Type.Object({ reason: Type.Optional(Reason) }, closed);
const Wanted = Type.Object({ what: Type.String({ minLength: 1, maxLength: 1_000 }) }, closed);
const Destination = Type.Object({ destination: DestinationName }, closed);
const HeldDestination = Type.Object(
  {
    destination: DestinationName,
    hours: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: HOURS_MAX })),
    reason: Reason,
  },
  closed,
);
const BouncedDestination = Type.Object({ destination: DestinationName, reason: Reason }, closed);

export type OperatorParts = {
  sql: Sql;
  lists(): Sql;
  keyring: Keyring;
  /** What is being sent to the busiest domains; workers tell it through Redis. */
  figures(now: number): Promise<readonly SendingFigures[]>;
};

export function operatorCalls(parts: OperatorParts): ConsoleCall[] {
  const { sql } = parts;
  return [
    operatorCall({
      ...{ method: "GET", path: "operator/workspaces" },
      async handle({ query }) {
        const page = pageIn(query);
        const name = (query.get("name") ?? "").slice(0, NAME_CHARS_MAX);
        if (name.includes("\0")) throw deny("invalid_parameter", "`name` must be without U+0000.");
        return pageOfRows(await pageOfWorkspaces(sql, name, page), page, show);
      },
    }),
    operatorCall({
      ...{ method: "POST", path: "operator/workspaces/{id}/suspend", body: Reasoned },
      handle: ({ params, body }) => suspend(parts, params[0], body.reason),
    }),
    operatorCall({
      ...{ method: "POST", path: "operator/workspaces/{id}/resume", body: PerhapsReasoned },
      handle: ({ params, body }) => resume(parts, params[0], body.reason ?? null),
    }),
    operatorCall({
      ...{ method: "POST", path: "operator/find", body: Wanted },
      handle: ({ body, now }) => find(sql, body.what.trim(), now),
    }),
    operatorCall({
      ...{ method: "GET", path: "operator/queue" },
      async handle({ now }) {
        const [view, sending] = await Promise.all([
          viewQueue(parts.lists()),
          parts.figures(now).catch(() => []),
        ]);
        return { status: 200, body: { object: "queue", ...view, sending } };
      },
    }),
    ...queueChanges(sql),
  ];
}

function queueChanges(sql: Sql): ConsoleCall[] {
  return [
    operatorCall({
      ...{ method: "POST", path: "operator/queue/suspend", body: HeldDestination },
      async handle({ body, now }) {
        const { hours, reason } = body;
        const until = hours === undefined ? null : new Date(now + hours * HOUR_MS);
        const hold = { destination: named(body.destination), until, reason };
        await suspendDestination(sql, hold, new Date(now));
        return { status: 200, body: { object: "queue", ...hold }, detail: hold };
      },
    }),
    operatorCall({
      ...{ method: "POST", path: "operator/queue/resume", body: Destination },
      async handle({ body }) {
        const destination = named(body.destination);
        if ((await resumeDestination(sql, destination)) === 0)
          throw deny("not_found", `${destination} is not suspended.`);
        return {
          status: 200,
          body: { object: "queue", destination, resumed: true },
          detail: { destination },
        };
      },
    }),
    operatorCall({
      ...{ method: "POST", path: "operator/queue/retry", body: AnyDestination },
      async handle({ body, now }) {
        const chosen = { workspaceId: null, destination: destinationIn(body) };
        const retried = await retryDeferred(sql, chosen, new Date(now));
        return { status: 200, body: { object: "queue", retried }, detail: { ...chosen, retried } };
      },
    }),
    operatorCall({
      ...{ method: "POST", path: "operator/queue/bounce", body: BouncedDestination },
      async handle({ body, now }) {
        const { reason } = body;
        const destination = named(body.destination);
        const bounced = await bounceDeferred(sql, destination, reason, new Date(now));
        return { status: 200, body: { object: "queue", bounced }, detail: { destination, reason, bounced } };
      },
    }),
  ];
}

function show({ id, name, plan, handle, createdAt, members, ...state }: WorkspaceItem) {
  const { suspendedAt, suspendedFor, resumedAt, resumedFor } = state;
  return {
    ...{ object: "workspace", id, name, plan, handle, created_at: createdAt.toISOString() },
    ...{ suspended_at: suspendedAt?.toISOString() ?? null, suspended_for: suspendedFor },
    ...{ resumed_at: resumedAt?.toISOString() ?? null, resumed_for: resumedFor, members },
  };
}

async function suspend(parts: OperatorParts, id = "", reason: string): Promise<ConsoleAnswer> {
  const suspended = isUuid(id) ? await parts.keyring.suspend(id.toLowerCase(), reason) : null;
  if (!suspended) throw unknown();
  return changed(parts, id, suspended.suspendedAt, reason);
}

async function resume(parts: OperatorParts, id = "", reason: string | null): Promise<ConsoleAnswer> {
  const resumed = isUuid(id) ? await parts.keyring.resume(id.toLowerCase(), reason) : null;
  if (!resumed) throw unknown();
  return changed(parts, id, null, reason);
}

async function changed(
  { sql }: OperatorParts,
  id: string,
  suspendedAt: Date | null,
  reason: string | null,
): Promise<ConsoleAnswer> {
  const { scheduled, waiting, deferred, inLine, onItsWay } = await mailNotGone(sql, id, HELD_MAX);
  const held = { scheduled, waiting, deferred, queued: inLine, in_flight: onItsWay };
  const suspended_at = suspendedAt?.toISOString() ?? null;
  return { status: 200, body: { object: "workspace", id, suspended_at, held }, detail: { reason } };
}

function unknown() {
  return deny("not_found", "There is no workspace with this id.");
}

/** By Message-ID or id: those who complain send the header. */
async function find(sql: Sql, what: string, now: number): Promise<ConsoleAnswer> {
  const [left = ""] = what.replace(/^<|>$/g, "").split("@");
  if (!isUuid(left))
    throw deny("validation_error", "`what` must be a Message-ID of this engine, or the id of an e-mail.");
  const found = await mailOfId(sql, null, left.toLowerCase());
  const emails = await findEmails(
    sql,
    found.map(({ workspaceId, id }) => ({ workspaceId, emailId: id })),
  );
  const shown = found.map(async ({ workspaceId, id, status, createdAt }) => {
    const email = emails.get(id);
    return {
      ...{ workspace_id: workspaceId, workspace: (await findWorkspace(sql, workspaceId))?.name ?? null, id },
      ...{ status: email?.status ?? status, created_at: createdAt.toISOString() },
      reason: email ? reasonOf(email, email.history, now) : null,
    };
  });
  return wholeList(await Promise.all(shown));
}
