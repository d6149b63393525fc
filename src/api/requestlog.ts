/**
 * /logs: the requests of the last days. They are kept beside the answer, never before it: gathered here and
 * written once a second, at most so many that a flood of requests costs little. Under a flood some of the
 * successful ones are left out. Neither bodies nor paths are kept, since both hold addresses.
 */
import Type from "typebox";
import type { Clock } from "../clock.ts";
import { isUuid, newId, timeOfId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import {
  findRequest,
  insertRequests,
  type LoggedRequest,
  listRequests,
} from "../record/workspaces/requests.ts";
import type { Exchange } from "./exchange.ts";
import { envelope, LIST_QUERY, pageOf } from "./page.ts";
import { refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Id, listOf, shape, Text, Time } from "./shapes.ts";
import { iso } from "./time.ts";

const PATH = "/api/v1/logs";
const WRITE_EVERY_MS = 1_000;
/** Of each kind: fifty keys at their usual rate. */
const REQUESTS_PER_WRITE_MAX = 500;
const UNKNOWN_ROUTE = "(unknown)";

type Kept = LoggedRequest & { workspaceId: string };

export class RequestLog {
  readonly #sql: Sql;
  readonly #clock: Clock;
  readonly #onFault: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #done: Kept[] = [];
  #refused: Kept[] = [];

  constructor(sql: Sql, clock: Clock, onFault: (error: unknown) => void) {
    this.#sql = sql;
    this.#clock = clock;
    this.#onFault = onFault;
    this.#timer = setInterval(() => this.#write().catch(onFault), WRITE_EVERY_MS);
  }

  /** Requests without a valid key belong to nobody. */
  note({ caller, route, method, status, requestId }: Exchange, ms: number): void {
    const kept = status < 400 ? this.#done : this.#refused;
    if (caller === null || kept.length >= REQUESTS_PER_WRITE_MAX) return;
    kept.push({
      workspaceId: caller.workspaceId,
      id: newId(this.#clock.now()),
      keyId: caller.keyId,
      method,
      route: route ?? UNKNOWN_ROUTE,
      status,
      ms: Math.round(ms * 10) / 10,
      requestId,
    });
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#write().catch(this.#onFault);
  }

  /** What cannot be written is left out: nobody waits for it. */
  async #write(): Promise<void> {
    const requests = [...this.#refused, ...this.#done];
    if (requests.length === 0) return;
    this.#done = [];
    this.#refused = [];
    await insertRequests(this.#sql, requests);
  }
}

const logFields = {
  id: Id,
  created_at: Time,
  endpoint: Type.String({ description: "with names for what the path held", examples: ["/emails/{id}"] }),
  method: Text,
  response_status: Type.Integer(),
  user_agent: Type.Null(),
  api_key_id: Id,
  duration_ms: Type.Number(),
  request_id: Id,
};

export function logRoutes({ reads, lists }: { reads: Sql; lists(): Sql }): Route[] {
  const shared = { permissions: ["full"], success: 200 } as const;
  return [
    {
      ...shared,
      method: "GET",
      path: PATH,
      summary: "List the requests of the last 7 days, newest first",
      query: LIST_QUERY,
      answer: listOf(shape("LogItem", logFields)),
      handle: (call) => list(lists(), call),
    },
    {
      ...shared,
      method: "GET",
      path: `${PATH}/{id}`,
      summary: "Get one request",
      answer: shape("Log", {
        object: Type.Literal("log"),
        ...logFields,
        request_body: Type.Null(),
        response_body: Type.Null(),
      }),
      handle: (call) => get(reads, call),
    },
  ];
}

async function list(sql: Sql, { caller, query }: Call): Promise<Answer> {
  const page = pageOf(query);
  const rows = await listRequests(sql, caller.workspaceId, page);
  return { status: 200, body: envelope(rows, page, show) };
}

async function get(reads: Sql, { caller, params }: Call): Promise<Answer> {
  const id = params[0] ?? "";
  if (!isUuid(id)) throw refuse("invalid_parameter", "The `id` of a request must be a UUID.");
  const found = await findRequest(reads, caller.workspaceId, id.toLowerCase());
  if (!found) throw refuse("not_found", "There is no request with this id.");
  const whole = { object: "log", ...show(found), request_body: null, response_body: null };
  return { status: 200, body: JSON.stringify(whole) };
}

function show({ id, keyId, method, route, status, ms, requestId }: LoggedRequest) {
  return {
    id,
    created_at: iso(new Date(timeOfId(id))),
    endpoint: route,
    method,
    response_status: status,
    user_agent: null,
    api_key_id: keyId,
    duration_ms: ms,
    request_id: requestId,
  };
}
