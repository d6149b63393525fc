/**
 * The gate of the API: the checks every request passes before its handler runs, in the order the contract
 * gives. Browser 403, no key 401, bad key 401, suspended workspace 403, rate 429, route 404 and 405,
 * permission 403, plan 402, body 413, 415, 400.
 */
import { createHash } from "node:crypto";
import type { Admission, Caller, Rate } from "../admission/admit.ts";
import type { Bearer } from "../admission/bearer.ts";
import { allows, type Permission } from "../admission/permissions.ts";
import { planWith, TERMS } from "../rules/plans.ts";
import { beginSpan, isTracing, type TraceSpan } from "../trace.ts";
import { refuseAbsent } from "./absent.ts";
import { fieldPath } from "./check.ts";
import type { BodyResult, Exchange } from "./exchange.ts";
import { boundaryOf, type Form, parseForm } from "./form.ts";
import type { RequestHead } from "./head.ts";
import type { WorkOfRoutes } from "./inhand.ts";
import { JSON_DEPTH_MAX, type NotJson } from "./json.ts";
import type { Body, ParsedBody } from "./jsonthread.ts";
import { refuseRepeated } from "./page.ts";
import {
  NOT_FORM,
  NOT_FORM_TYPE,
  NOT_JSON_TYPE,
  type Problem,
  problem,
  Refusal,
  refuse,
  refuseMethod,
  TOO_LARGE,
  unavailable,
} from "./problem.ts";
import {
  BODY_BYTES_MAX,
  type Call,
  type CallHead,
  type Route,
  type Router,
  readingOf,
  shortPath,
} from "./routes.ts";

type Received = { chunks: Buffer[]; size: number };

type ReadContent = Pick<Call, "body" | "form" | "digest" | "badItems">;

export type GateParts = {
  readKey(key: string): Bearer | null;
  admit(bearer: Bearer): Promise<Admission>;
  router: Router;
  parse(body: Body): ParsedBody | Promise<ParsedBody>;
  inHand: WorkOfRoutes;
  /** A request with a valid key: its last use. */
  onUse(caller: Caller): void;
};

const CHALLENGE = { headers: { "WWW-Authenticate": "Bearer" } };
const BROWSER = problem(
  "browser_request_blocked",
  "API keys are server-side secrets: requests from a web page are refused. Call the API from your server.",
);
const MISSING_KEY = problem(
  "missing_api_key",
  "Missing API key. Send it in the `Authorization` header: `Bearer pr_live_...`.",
  CHALLENGE,
);
const MALFORMED_KEY = problem(
  "invalid_api_key",
  "API key is invalid. Send it in the `Authorization` header: `Bearer pr_live_...`.",
  CHALLENGE,
);
export const INVALID_KEY = problem(
  "invalid_api_key",
  "API key is invalid: it is misspelt, revoked, or from another server.",
  CHALLENGE,
);
const NO_BODY: ReadContent = {
  body: undefined,
  form: null,
  digest: () => createHash("sha256").digest("hex"),
  badItems: null,
};
export const SUSPENDED = problem(
  "workspace_suspended",
  "This workspace is suspended. Nothing is sent until its operator resumes it: ask them.",
);
const NO_QUERY = new URLSearchParams();

/** A request whose caller is known: of the API's own server, or of the console's. */
export type KnownRequest = {
  method: string;
  path: string;
  query: string;
  hasBody: boolean;
  head: CallHead["head"] & Pick<RequestHead, "contentLength" | "contentEncoding" | "contentType">;
  body(bytesMax: number): Promise<BodyResult>;
  dropBody(): void;
  onGone: (() => void) | null;
  span?: TraceSpan | null;
};

export type PassedRequest = {
  route: Route;
  call: Call;
  /** Called once its handler has ended, however that was. */
  end(): void;
};

/** The request, ready for its handler; throws a Refusal otherwise. */
export async function pass(parts: GateParts, exchange: Exchange): Promise<PassedRequest> {
  const bearer = bearerOf(parts, exchange);
  const caller = callerOf(parts, exchange, await parts.admit(bearer));
  return passKnown(parts, exchange, caller, (route) => {
    exchange.route = shortPath(route);
    exchange.span = isTracing() ? spanOf(exchange, caller) : null;
  });
}

/** Only callers with a key are traced: a span costs more than a refusal. null: traces are off. */
export function spanOf(
  { method, route, head, requestId, beganAt }: Exchange,
  { workspaceId }: Caller,
): TraceSpan | null {
  return beginSpan(`${method} ${route}`, {
    kind: "request",
    parent: head.traceparent,
    startedAt: performance.timeOrigin + beganAt,
    attributes: {
      "http.request.method": method,
      "http.route": route,
      "postrider.request_id": requestId,
      "postrider.workspace_id": workspaceId,
    },
  });
}

type PassParts = Pick<GateParts, "router" | "parse" | "inHand">;

/**
 * What comes behind the key. `onRoute` may refuse the route, too. A promise only where a body is waited for:
 * to wait costs more than all the rest.
 */
export function passKnown(
  parts: PassParts,
  exchange: KnownRequest,
  caller: Caller,
  onRoute: (route: Route, query: URLSearchParams) => void,
): PassedRequest | Promise<PassedRequest> {
  const { route, params } = findRoute(parts.router, exchange);
  const query = exchange.query === "" ? NO_QUERY : new URLSearchParams(exchange.query);
  onRoute(route, query);
  checkPermission(route, caller, query);
  checkPlan(route, caller);
  const asked = { route, caller, params, query, exchange };
  if (exchange.hasBody) return passWithBody(parts, asked);
  refuseRepeatedIn(asked);
  return passed(asked, takenInHand(parts, asked, 0), NO_BODY, 0);
}

type AskedCall = Pick<Call, "caller" | "params" | "query"> & { route: Route; exchange: KnownRequest };

async function passWithBody(parts: PassParts, asked: AskedCall): Promise<PassedRequest> {
  const received = await readBody(asked);
  const end = takenInHand(parts, asked, received.size);
  try {
    const content = received.size === 0 ? NO_BODY : await contentOf(parts, asked, received);
    refuseRepeatedIn(asked);
    return passed(asked, end, content, received.size);
  } catch (error) {
    end();
    throw error;
  }
}

function refuseRepeatedIn({ route, query }: AskedCall): void {
  if (route.query && query !== NO_QUERY) refuseRepeated(query, route.query);
}

function takenInHand({ inHand }: PassParts, { route, caller }: AskedCall, size: number): () => void {
  const end = inHand.take(route, caller.bearer.handle, size);
  if (!end) throw new Refusal(unavailable("capacity"));
  return end;
}

function passed(
  { route, caller, params, query, exchange }: AskedCall,
  end: () => void,
  { body, form, digest, badItems }: ReadContent,
  bodyBytes: number,
): PassedRequest {
  // written out: with a spread, each call would be an object of a shape of its own
  const call = { caller, params, query, exchange, body, form, digest, badItems, bodyBytes };
  return { route, call, end };
}

function bearerOf(parts: GateParts, exchange: Exchange): Bearer {
  if (exchange.head.isFromBrowser || exchange.method === "OPTIONS") throw new Refusal(BROWSER);
  const { authorization } = exchange.head;
  if (authorization.trim() === "") throw new Refusal(MISSING_KEY);
  const token = keyTextOf(authorization);
  if (token === null) throw new Refusal(MALFORMED_KEY);
  const bearer = parts.readKey(token);
  if (!bearer) throw new Refusal(INVALID_KEY);
  refuseInVain(parts, exchange, bearer);
  return bearer;
}

function callerOf(parts: GateParts, exchange: Exchange, admission: Admission): Caller {
  if (admission.kind === "unknown key") throw new Refusal(INVALID_KEY);
  const { caller } = admission;
  parts.onUse(caller);
  exchange.caller = caller;
  exchange.belongsTo(caller.workspaceId);
  exchange.rate = admission.rate;
  const refused = refusalOf(admission);
  if (!refused) return caller;
  nameRoute(parts.router, exchange);
  throw refused;
}

/** With too much to do, a refusal costs as little as it can: nobody is asked, and no body is kept. */
function refuseInVain({ router, inHand }: GateParts, exchange: Exchange, { handle }: Bearer): void {
  if (!inHand.isMuch) return;
  const match = router.find(exchange.method, exchange.path);
  if (match.kind !== "route") return;
  const { contentLength } = exchange.head;
  // no room would ever be enough
  if (contentLength > bodyBytesMaxOf(match.route)) return;
  if (inHand.hasRoom(match.route, handle, contentLength)) return;
  exchange.route = shortPath(match.route);
  throw new Refusal(unavailable("capacity"));
}

function refusalOf(admission: Exclude<Admission, { kind: "unknown key" }>): Refusal | null {
  if (admission.caller.isSuspended) return new Refusal(SUSPENDED);
  return admission.kind === "limited" ? rateLimited(admission.rate, admission.retryAfterSeconds) : null;
}

/** Of a request that is refused before its route counts: the log names what was called. */
function nameRoute(router: Router, exchange: Exchange): void {
  const match = router.find(exchange.method, exchange.path);
  if (match.kind === "route") exchange.route = shortPath(match.route);
}

/** null: the header holds no key. */
export function keyTextOf(authorization: string): string | null {
  return /^bearer +(\S+)$/i.exec(authorization.trim())?.[1] ?? null;
}

function findRoute(router: Router, { method, path }: KnownRequest): { route: Route; params: string[] } {
  refuseAbsent(path);
  const match = router.find(method, path);
  if (match.kind === "unknown")
    throw refuse(
      "not_found",
      `There is no endpoint ${method} ${path}. GET /api/v1/openapi.json describes them all.`,
    );
  if (match.kind === "wrong method") throw refuseMethod(method, match.allow);
  return match;
}

function checkPermission(route: Route, { permissions }: Caller, query: URLSearchParams): void {
  // the one that would have been enough is named
  const wanted = route.permissionByQuery?.(query);
  if (wanted && !allows(permissions, wanted)) throw lacks(wanted);
  if (!route.permissions.some((permission) => allows(permissions, permission)))
    throw lacks(route.permissions[0] as Permission);
}

export function lacks(permission: Permission): Refusal {
  return refuse("restricted_api_key", `This API key lacks the \`${permission}\` permission.`);
}

function checkPlan(route: Route, { plan }: Caller): void {
  if (!route.plan || TERMS[plan][route.plan]) return;
  const wanted = planWith(route.plan);
  throw refuse(
    "plan_required",
    `This endpoint needs the ${wanted} plan or a higher one; the workspace is on ${plan}.`,
  );
}

async function readBody({ route, exchange }: AskedCall): Promise<Received> {
  const bytesMax = bodyBytesMaxOf(route);
  const { contentLength, contentEncoding, contentType } = exchange.head;
  if (contentLength > bytesMax) throw new Refusal(TOO_LARGE);
  const isRead = route.takesForm
    ? boundaryOf(contentType) !== null
    : /^application\/json[ \t]*(;|$)/i.test(contentType);
  if (contentEncoding !== "" || !isRead) throw new Refusal(route.takesForm ? NOT_FORM_TYPE : NOT_JSON_TYPE);
  return bytesOf(await exchange.body(bytesMax));
}

function bodyBytesMaxOf({ bodyBytesMax = BODY_BYTES_MAX }: Route): number {
  return bodyBytesMax;
}

function bytesOf(result: BodyResult): Received {
  switch (result.kind) {
    case "body":
      return result;
    case "too large":
      throw new Refusal(TOO_LARGE);
    case "no room":
    case "gone":
      throw new Refusal(unavailable("capacity"));
  }
}

function contentOf(
  parts: PassParts,
  asked: AskedCall,
  received: Received,
): ReadContent | Promise<ReadContent> {
  if (!asked.route.takesForm) return parseBody(parts, asked, received);
  return { ...NO_BODY, form: formOf(asked.exchange, received) };
}

function formOf(exchange: KnownRequest, { chunks }: Received): Form {
  const bytes = Buffer.concat(chunks);
  exchange.dropBody();
  const form = parseForm(boundaryOf(exchange.head.contentType) ?? "", bytes);
  if (!form) throw new Refusal(NOT_FORM);
  return form;
}

async function parseBody(
  parts: PassParts,
  { route, caller: { workspaceId }, exchange }: AskedCall,
  { chunks, size }: Received,
): Promise<ReadContent> {
  const { fields, itemsMax } = readingOf(route);
  const sparesItems = route.sparesItems?.(exchange) ?? false;
  const parsed = await parts.parse({
    chunks,
    size,
    workspaceId,
    reading: { fields, itemsMax, sparesItems },
    digestPrefix: route.digestPrefix?.(exchange) ?? "",
    onGone: (dropped) => {
      exchange.onGone = dropped;
    },
  });
  exchange.dropBody();
  if (parsed.kind !== "json") throw notRead(parsed);
  return { body: parsed.value, form: null, digest: parsed.digest, badItems: parsed.badItems };
}

export function notRead(found: NotJson): Refusal {
  switch (found.kind) {
    case "not json":
      return notJson("The request body is not valid JSON.");
    case "not utf-8":
      return notJson("The request body is not UTF-8. Send JSON in UTF-8.");
    case "byte order mark":
      return notJson("The request body begins with a byte order mark. Send JSON without it.");
    case "too deep":
      return refuse(
        "validation_error",
        `The request body is nested too deeply: at most ${JSON_DEPTH_MAX} levels are allowed.`,
      );
    case "too many":
      return refuse("validation_error", "The request body holds too many values. Send fewer in one request.");
    case "bad text":
      return badText(found.path);
  }
}

function notJson(message: string): Refusal {
  return refuse("validation_error", message, { status: 400 });
}

export function badText(path: readonly string[]): Refusal {
  return refuse("validation_error", `${whoseText(path)} must not contain U+0000 or unpaired surrogates.`);
}

function whoseText(path: readonly string[]): string {
  return path.length === 0 ? "The request body" : `The \`${fieldPath(path)}\` field`;
}

export function rateLimited({ limit, per }: Rate, retryAfterSeconds: number): Refusal {
  const seconds = `${retryAfterSeconds} second${retryAfterSeconds === 1 ? "" : "s"}`;
  const details: Problem["details"] = { retry_after: retryAfterSeconds };
  return refuse(
    "rate_limit_exceeded",
    `Too many requests: at most ${limit} a ${per} are allowed. Try again in ${seconds}.`,
    {
      details,
      headers: { "Retry-After": String(retryAfterSeconds) },
    },
  );
}
