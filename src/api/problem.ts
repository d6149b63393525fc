/**
 * Every refusal of the API, as a value: status, machine-readable name, message for people. Not an Error: a
 * refusal is an ordinary answer, and must not reveal internals.
 */
import { LACKING, type Lacking, toldBy, Unavailable } from "../admission/unavailable.ts";
import { isMoving } from "../record/cells/moving.ts";
import { fateOf } from "../record/db/lost.ts";

export type Problem = {
  status: number;
  name: ProblemName;
  message: string;
  details?: Record<string, string | number>;
  headers?: Record<string, string>;
  /** What kept us from answering otherwise. */
  lacking?: Lacking;
};

/** The table of errors: what each name is answered with. */
export const STATUS_OF = {
  validation_error: 422,
  missing_required_field: 422,
  invalid_parameter: 422,
  invalid_from_address: 422,
  invalid_attachment: 422,
  invalid_idempotency_key: 400,
  missing_api_key: 401,
  invalid_api_key: 401,
  plan_required: 402,
  restricted_api_key: 403,
  browser_request_blocked: 403,
  workspace_suspended: 403,
  not_found: 404,
  method_not_allowed: 405,
  invalid_idempotent_request: 409,
  concurrent_idempotent_requests: 409,
  version_conflict: 409,
  rate_limit_exceeded: 429,
  quota_exceeded: 429,
  application_error: 500,
  service_unavailable: 503,
} as const;
export type ProblemName = keyof typeof STATUS_OF;

/** Thrown by handlers; the exchange turns it into the answer. */
export class Refusal {
  readonly problem: Problem;
  constructor(problem: Problem) {
    this.problem = problem;
  }
}

export function problem(name: ProblemName, message: string, more: Partial<Problem> = {}): Problem {
  return { status: STATUS_OF[name], name, message, ...more };
}

export function refuse(name: ProblemName, message: string, more: Partial<Problem> = {}): Refusal {
  return new Refusal(problem(name, message, more));
}

export function refuseMethod(method: string, allowed: readonly string[]): Refusal {
  const allow = allowed.join(", ");
  return refuse("method_not_allowed", `${method} is not allowed here. Allowed: ${allow}.`, {
    headers: { Allow: allow },
  });
}

export function bodyOf({ status, name, message, details }: Problem): string {
  return JSON.stringify({ statusCode: status, name, message, details });
}

export function unavailable(lacking: Lacking): Problem {
  return problem("service_unavailable", `${LACKING[lacking]} Try again in 1 second.`, { lacking });
}
/** Two readers of the connection could disagree about where the request ends. */
export function badFraming(fault: string): Problem {
  return { ...problem("validation_error", `The request has ${fault}.`), status: 400 };
}
export const TOO_LARGE: Problem = {
  ...problem(
    "validation_error",
    "The request body is too large: at most 40 MB for sending e-mails, else 1 MB.",
  ),
  status: 413,
};
export const NOT_JSON_TYPE: Problem = {
  ...problem(
    "validation_error",
    "The `Content-Type` header must be `application/json`, without `Content-Encoding`.",
  ),
  status: 415,
};
export const NOT_FORM_TYPE: Problem = {
  ...problem(
    "validation_error",
    "Send `Content-Type: multipart/form-data; boundary=...`, and no `Content-Encoding`.",
  ),
  status: 415,
};
export const NOT_FORM: Problem = {
  ...problem("validation_error", "The request body is not valid multipart/form-data."),
  status: 400,
};
/** The outcome is unknown; a repeated request learns it. */
export const OUTCOME_UNKNOWN: Problem = problem("application_error", "Outcome unknown, try again.");
export const INTERNAL: Problem = problem(
  "application_error",
  "An unexpected error occurred on our side. The `X-Request-Id` of this answer finds it in the logs.",
);

/** What the caller is told of an error. `isRead`: nothing was to change, so it may be repeated. */
export function problemOf(error: unknown, isRead: boolean): Problem {
  if (error instanceof Refusal) return error.problem;
  if (error instanceof Unavailable) return unavailable(error.lacking);
  if (isMoving(error)) return unavailable("workspace");
  const fate = fateOf(error);
  if (fate === null) return INTERNAL;
  return fate === "not done" || isRead ? unavailable(toldBy(error) ?? "postgres") : OUTCOME_UNKNOWN;
}
