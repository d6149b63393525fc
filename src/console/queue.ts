/** Mail of a workspace that has not gone, by where it wants to go; and trying it again, or giving it up. */
import Type from "typebox";
import type { Sql } from "../record/db/connect.ts";
import { cancelDeferred, retryDeferred, viewQueueOf } from "../record/mail/queueview.ts";
import { mailNotGone } from "../record/workspaces/suspension.ts";
import { type ConsoleCall, EVERYONE, type KnownWorkspace, type VisitOf, workspaceCall } from "./calls.ts";
import type { ConsoleAnswer } from "./refusal.ts";

/** So many e-mails are counted, and no more. */
const COUNTED_MAX = 100_000;

export const DestinationName = Type.String({ minLength: 1, maxLength: 253 });
const Destination = Type.Object(
  { destination: Type.Optional(DestinationName) },
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
      ...{ method: "POST", path: "queue/retry", roles: EVERYONE, body: Destination },
      async handle({ workspace, body, now }) {
        const chosen = { workspaceId: workspace.id, destination: destinationIn(body) };
        const retried = await retryDeferred(sql, chosen, new Date(now));
        return { status: 200, body: { object: "queue", retried }, detail: { ...chosen, retried } };
      },
    }),
    workspaceCall({
      ...{ method: "POST", path: "queue/cancel", roles: EVERYONE, body: Destination },
      async handle({ workspace, body, now }) {
        const destination = destinationIn(body);
        const canceled = await cancelDeferred(sql, workspace.id, destination, new Date(now));
        return { status: 200, body: { object: "queue", canceled }, detail: { destination, canceled } };
      },
    }),
  ];
}

export function destinationIn({ destination }: { destination?: string }): string | null {
  return destination?.trim().toLowerCase() ?? null;
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
