/** What the console refuses, in the shape of the API's refusals. */
import type { Readable } from "node:stream";

const STATUS_OF_REFUSAL = {
  validation_error: 422,
  missing_required_field: 422,
  invalid_parameter: 422,
  invalid_token: 422,
  not_signed_in: 401,
  invalid_credentials: 401,
  code_required: 401,
  plan_required: 402,
  forbidden: 403,
  cross_site_request: 403,
  browser_request_blocked: 403,
  workspace_suspended: 403,
  not_found: 404,
  method_not_allowed: 405,
  repeated_call: 409,
  rate_limit_exceeded: 429,
  service_unavailable: 503,
} as const;
export type ConsoleRefusalName = keyof typeof STATUS_OF_REFUSAL;

/** `body`: an object becomes JSON, and a stream is sent as it comes. `detail` goes to the audit log. */
export type ConsoleAnswer = {
  status: number;
  body: object | string | Buffer | Readable;
  headers?: Record<string, string>;
  detail?: object;
};

/** Thrown, and answered as it says. */
export class ConsoleRefusal {
  readonly answer: ConsoleAnswer;
  constructor(answer: ConsoleAnswer) {
    this.answer = answer;
  }
}

export function deny(
  name: ConsoleRefusalName,
  message: string,
  more: { details?: Record<string, number>; headers?: Record<string, string> } = {},
): ConsoleRefusal {
  const status = STATUS_OF_REFUSAL[name];
  const { details, headers = {} } = more;
  const body = { statusCode: status, name, message, ...(details && { details }) };
  return new ConsoleRefusal({ status, body, headers });
}

export function tooManyAttempts(seconds: number, what = "Too many attempts."): ConsoleRefusal {
  return deny("rate_limit_exceeded", `${what} Try again in ${span(seconds)}.`, {
    details: { retry_after: seconds },
    headers: { "Retry-After": String(seconds) },
  });
}

function span(seconds: number): string {
  const minutes = Math.ceil(seconds / 60);
  const isLong = minutes > 120;
  const count = isLong ? Math.ceil(minutes / 60) : minutes;
  return `${count} ${isLong ? "hour" : "minute"}${count === 1 ? "" : "s"}`;
}
