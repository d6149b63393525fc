/** Mail of a workspace that has not gone, by where it wants to go; and trying it again, or giving it up. */
import Type from "typebox";
import { parseMailbox } from "../address.ts";
import type { Sql } from "../record/db/connect.ts";
import { cancelDeferred, NO_DOMAIN, retryDeferred, viewQueueOf } from "../record/mail/queueview.ts";
import { mailNotGone } from "../record/workspaces/suspension.ts";
import { type ConsoleCall, EVERYONE, type KnownWorkspace, type VisitOf, workspaceCall } from "./calls.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

/** So many e-mails are counted, and no more. */
const COUNTED_MAX = 100_000;

/** Of spaces alone it would be no name, which stands for the smarthost's mail. */
export const DestinationName = Type.String({ minLength: 1, maxLength: 253, pattern: "\\S" });
/** null: what waits for no domain, but for the smarthost. Without it, all. */
export const AnyDestination = Type.Object(
  { destination: Type.Optional(Type.Union([DestinationName, Type.Null()])) },
  { additionalProperties: false },
);

export type SendingFigures = { domain: string; in_flight: number; delivered_per_minute: number };

export type QueueParts = {
  sql: Sql;
  lists(): Sql;
  /** What is being sent to the busiest domains, by all workspaces together. */
  figures(now: number): Promise<readonly SendingFigures[]>;
};

export function queueCalls(parts: QueueParts): ConsoleCall[] {
  const { sql } = parts;
  return [
    workspaceCall({ method: "GET", path: "queue", roles: EVERYONE, handle: (visit) => show(parts, visit) }),
    workspaceCall({
      ...{ method: "POST", path: "queue/retry", roles: EVERYONE, body: AnyDestination },
      async handle({ workspace, body, now }) {
        const chosen = { workspaceId: workspace.id, destination: destinationIn(body) };
        const retried = await retryDeferred(sql, chosen, new Date(now));
        return { status: 200, body: { object: "queue", retried }, detail: { ...chosen, retried } };
      },
    }),
    workspaceCall({
      ...{ method: "POST", path: "queue/cancel", roles: EVERYONE, body: AnyDestination },
      async handle({ workspace, body, now }) {
        const destination = destinationIn(body);
        const canceled = await cancelDeferred(sql, workspace.id, destination, new Date(now));
        return { status: 200, body: { object: "queue", canceled }, detail: { destination, canceled } };
      },
    }),
  ];
}

export function destinationIn({ destination }: { destination?: string | null }): string | null {
  if (destination === undefined) return null;
  return destination === null ? NO_DOMAIN : named(destination);
}

/** A domain as mail is kept under; other names are those of providers, and `smarthost`. */
export function named(destination: string): string {
  const name = destination.trim().toLowerCase();
  if (!name.includes(".")) return name;
  const domain = parseMailbox(`x@${name}`)?.domain;
  if (domain === undefined)
    throw deny("validation_error", `${name} is not a domain. Write one such as example.com.`);
  return domain;
}

/** How much others send to a domain is for operators alone. */
async function show(
  { lists, figures }: QueueParts,
  { workspace, session, now }: VisitOf<KnownWorkspace>,
): Promise<ConsoleAnswer> {
  const sending = session.isOperator ? await figures(now).catch(() => []) : [];
  const sql = lists();
  const [held, view] = await Promise.all([
    mailNotGone(sql, workspace.id, COUNTED_MAX),
    viewQueueOf(sql, workspace.id, COUNTED_MAX),
  ]);
  const { scheduled, waiting, deferred, inLine, onItsWay } = held;
  return {
    status: 200,
    body: {
      object: "queue",
      emails: { scheduled, waiting, deferred, queued: inLine, in_flight: onItsWay },
      ...view,
      destinations: view.destinations.map((one) => {
        const known = sending.find(({ domain }) => domain === one.domain);
        const { in_flight = null, delivered_per_minute = null } = known ?? {};
        return { ...one, in_flight, delivered_per_minute };
      }),
    },
  };
}
