/** /events/log: what happened in a workspace, in order, so that a receiver can fill a gap by sequence. */
import Type from "typebox";
import type { Sql } from "../record/db/connect.ts";
import { type EventRow, readEvents } from "../record/outbox/outbox.ts";
import { eventId, shownEvent } from "../webhooks/payload.ts";
import { refuseLimited } from "./audiences.ts";
import { refuseIgnored } from "./page.ts";
import { refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Count, inner, Named, shape, Text, Time } from "./shapes.ts";

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1_000;

export function eventLogRoutes(lists: () => Sql): Route[] {
  return [
    {
      method: "GET",
      path: "/api/v1/events/log",
      permissions: ["full"],
      summary: "Read the event log of the workspace, oldest first",
      query: [
        {
          name: "after",
          description: "a `sequence`: only events after it",
          schema: { type: "integer", minimum: 0, default: 0 },
        },
        {
          name: "limit",
          description: "how many events",
          schema: { type: "integer", minimum: 1, maximum: LIMIT_MAX, default: LIMIT_DEFAULT },
        },
      ],
      success: 200,
      answer: inner({
        object: Type.Literal("list"),
        data: Type.Array(
          shape("LoggedEvent", { sequence: Count, id: Text, type: Text, created_at: Time, data: Named }),
        ),
        has_more: Type.Boolean(),
      }),
      handle: (call) => read(lists(), call),
    },
  ];
}

async function read(sql: Sql, { caller, query }: Call): Promise<Answer> {
  refuseLimited(caller, "read the event log, which tells of all contacts");
  refuseIgnored(query, [], ["after"]);
  const after = wholeOf(query, "after", 0, 0, Number.MAX_SAFE_INTEGER);
  const limit = wholeOf(query, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX);
  const { events, isMore } = await readEvents(sql, caller.workspaceId, after, limit);
  return { status: 200, body: JSON.stringify({ object: "list", data: events.map(show), has_more: isMore }) };
}

function wholeOf(query: URLSearchParams, name: string, otherwise: number, min: number, max: number): number {
  const text = query.get(name);
  if (text === null) return otherwise;
  const number = Number(text);
  if (!/^\d{1,16}$/.test(text) || number < min || number > max)
    throw refuse("invalid_parameter", `\`${name}\` must be a whole number from ${min} to ${max}.`);
  return number;
}

function show(event: EventRow) {
  const { sequence } = event;
  return { sequence, id: eventId(event), ...shownEvent(event) };
}
