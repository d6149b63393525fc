/**
 * The HTTP server: from a request on the wire to the handler of its route, and whatever happens, to exactly
 * one answer. Under /api/v1 every request passes the gate; the few open paths beside it are served as they
 * are.
 */

import uWS, { type us_listen_socket } from "uWebSockets.js";
import { existsSync, readFileSync } from "node:fs";
import { Unavailable } from "../admission/unavailable.ts";
import { whenLate } from "../clock.ts";
import { type Count, Counter, type Distribution, Gauge, Histogram, SECONDS } from "../meter.ts";
import type { BodyBudget } from "./bodybudget.ts";
import { Exchange } from "./exchange.ts";
import { type GateParts, type PassedRequest, pass } from "./gate.ts";
import {
  badFraming,
  bodyOf,
  OUTCOME_UNKNOWN,
  type Problem,
  problem,
  problemOf,
  Refusal,
  refuseMethod,
  unavailable,
} from "./problem.ts";
import {
  type Answer,
  type Call,
  isOfApi,
  type PageAnswer,
  type Route,
  withoutSpareSlashes,
} from "./routes.ts";

const REQUESTS = new Counter("postrider_requests_total", "Requests that were answered", ["route", "status"]);
const TOOK = new Histogram(
  "postrider_request_seconds",
  "From a request's head to the end of its answer",
  SECONDS,
  ["route"],
);
const REFUSED = new Counter(
  "postrider_requests_refused_total",
  "Requests that were refused, by the error's name",
  ["error"],
);
const UNAVAILABLE = new Counter("postrider_requests_unavailable_total", "Answers 503, by what was missing", [
  "reason",
]);
const GONE = new Counter("postrider_requests_gone_total", "Requests whose client had left before the answer");
const OPEN = new Gauge("postrider_http_connections", "Connections of callers that are open");
const TURNED_AWAY = new Counter(
  "postrider_http_connections_refused_total",
  "Connections of callers that were closed, since too many were open",
);
const IN_FLIGHT = new Gauge("postrider_requests_in_flight", "Requests that are being handled");

const IN_FLIGHT_MAX = 10_000;
/**
 * Descriptors that callers leave to stores and files: so many, or half where there are few. uWebSockets.js
 * tries without a pause to accept what it has none for.
 */
const SPARED_DESCRIPTORS = 1_000;
const DRAIN_MS_MAX = 4_000;
/** A connection that was silent for so long while we drain is idle, and may end. */
const DRAIN_SILENCE_MS = 300;
const DRAIN_LOOK_MS = 20;
const EXCLUSIVE_PORT = 1;
const SHARED_PORT = 0;

const READING = ["GET", "HEAD"];

export const READY_PATH = "/readyz";
export const HEALTH_PATH = "/healthz";
export const HEALTHY = JSON.stringify({ status: "ok" });

export type OpenPage = (exchange: Exchange) => PageAnswer | Promise<PageAnswer>;

export type ServerParts = {
  gate: GateParts;
  /** Where another answers than these parts: the cell that the caller is in. */
  answer?(exchange: Exchange): Promise<PageAnswer>;
  /** Paths outside /api/v1, and the one inside that needs no key. */
  open: ReadonlyMap<string, OpenPage>;
  /** Pages whose path begins so; the rest of the path is theirs. */
  openBelow: ReadonlyMap<string, OpenPage>;
  /** How long a store may take before the caller hears 503. */
  timeoutMs: number;
  onAnswer(exchange: Exchange, ms: number): void;
  onFault(exchange: Exchange, error: unknown): void;
};

type Listen = (
  host: string,
  port: number,
  options: number,
  onListening: (socket: us_listen_socket | false) => void,
) => void;

export type Server = {
  port: number;
  /** From now on requests are served; before, the process only says that it lives and what it waits for. */
  serve(parts: ServerParts): void;
  /** Takes no more connections, lets those that are open finish what they ask, and tells them to close. */
  stop(): Promise<void>;
};

type Listening = {
  host: string;
  port: number;
  sharesPort: boolean;
  /** Memory for bodies. */
  budget: BodyBudget;
  /** What is waited for, by the name of the check, until there is something to serve. */
  missing(): Record<string, string>;
};

export function startServer({ host, port, sharesPort, budget, missing }: Listening): Promise<Server> {
  let parts: ServerParts | null = null;
  let inFlight = 0;
  let connections = 0;
  let askedAt = 0;
  let isStopping = false;
  const unfollow = [IN_FLIGHT.follow(() => inFlight), OPEN.follow(() => connections)];

  // the version header names the library to everyone; its switch is missing from its types
  (uWS as unknown as { _cfg(option: string): void })._cfg("silent");
  const app = uWS.App();
  const descriptors = descriptorsMax();
  const connectionsMax = Math.max(descriptors / 2, descriptors - SPARED_DESCRIPTORS);
  // biome-ignore lint/suspicious/useIterableCallbackReturn: it is told of connections, and filters none
  app.filter((res, change) => {
    connections += Number(change);
    if (Number(change) < 0 || connections <= connectionsMax) return;
    TURNED_AWAY.add(1);
    res.close();
  });
  app.any("/*", (res, req) => {
    const exchange = new Exchange(res, req, budget, () => isStopping);
    const { beganAt } = exchange;
    askedAt = beganAt;
    const { fault } = exchange.head;
    inFlight++;
    exchange.onEnd = () => {
      inFlight--;
      const ms = performance.now() - beganAt;
      count(exchange, ms);
      endSpan(exchange);
      parts?.onAnswer(exchange, ms);
    };
    if (fault !== null) refuse(exchange, badFraming(fault));
    else if (inFlight > IN_FLIGHT_MAX) refuse(exchange, unavailable("capacity"));
    else if (parts === null) answerUnready(exchange, missing());
    else if (isStopping && exchange.path === READY_PATH) answerUnready(exchange, { process: "stopping" });
    else answerServed(parts, exchange);
  });

  return new Promise((resolve, reject) => {
    const onListening = (socket: us_listen_socket | false): void => {
      if (socket)
        resolve({
          port: uWS.us_socket_local_port(socket),
          serve: (found) => {
            parts = found;
          },
          stop: () => stop(socket),
        });
      else
        reject(
          Object.assign(
            new Error(`Port ${port} on ${host} is in use. Stop the process that listens there, or set PORT.`),
            { code: "EADDRINUSE" },
          ),
        );
    };
    // the form with host and options works, but only the others are in its types
    const listen = app.listen.bind(app) as unknown as Listen;
    listen(host, port, sharesPort ? SHARED_PORT : EXCLUSIVE_PORT, onListening);
  });

  async function stop(socket: us_listen_socket): Promise<void> {
    isStopping = true;
    uWS.us_listen_socket_close(socket);
    askedAt = performance.now();
    const until = askedAt + DRAIN_MS_MAX;
    const isBusy = () => inFlight > 0 || performance.now() - askedAt < DRAIN_SILENCE_MS;
    // judged after what has come was read: whoever was held up finds all connections silent
    while (connections > 0 && isBusy() && performance.now() < until)
      await new Promise((resolve) => setTimeout(() => setImmediate(resolve), DRAIN_LOOK_MS));
    for (const one of unfollow) one();
    app.close();
  }
}

const LIMITS_FILE = "/proc/self/limits";

/** How many files and sockets this process may have open, where Linux tells. */
function descriptorsMax(): number {
  const limits = existsSync(LIMITS_FILE) ? readFileSync(LIMITS_FILE, "utf8") : "";
  return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
}

function answerServed(parts: ServerParts, exchange: Exchange): void {
  (parts.answer?.(exchange) ?? answerOf(parts, exchange)).then(
    ({ status, body, headers }) => exchange.answer(status, body, headers),
    (error) => refuse(exchange, toldOf(parts, exchange, error)),
  );
}

/** What supervisors and load balancers ask is answered in any case. */
function answerUnready(exchange: Exchange, checks: Record<string, string>): void {
  if (exchange.path === HEALTH_PATH) exchange.answer(200, HEALTHY);
  else if (exchange.path === READY_PATH)
    exchange.answer(503, JSON.stringify({ status: "not ready", checks }));
  else refuse(exchange, unavailable("stores"));
}

/** By the template of its route: paths hold ids. */
function count({ method, route, status }: Exchange, ms: number): void {
  if (status === 0) {
    GONE.add(1);
    return;
  }
  const { name, took, answers } = seriesOf(method, route);
  const hundreds = Math.floor(status / 100);
  answers[hundreds] ??= REQUESTS.of(name, `${hundreds}xx`);
  answers[hundreds].n++;
  TOOK.noteIn(took, ms / 1_000);
}

type RouteSeries = { name: string; took: Distribution; answers: Count[] };
const seriesOfRoutes = new Map<string | null, Map<string, RouteSeries>>();

/** Kept, since to find a series by its labels costs more than to count. */
function seriesOf(method: string, route: string | null): RouteSeries {
  // without a route the method is whatever a caller wrote
  const key = route === null ? "" : method;
  const known = seriesOfRoutes.get(route)?.get(key);
  if (known) return known;
  const name = route === null ? "none" : `${method} ${route}`;
  const series = { name, took: TOOK.of(name), answers: [] };
  const methods = seriesOfRoutes.get(route) ?? new Map<string, RouteSeries>();
  seriesOfRoutes.set(route, methods.set(key, series));
  return series;
}

/** Below the API's path only what is read is open, and as there double and trailing slashes are tolerated. */
export function openPage({ open }: ServerParts, { method, path }: Exchange): OpenPage | undefined {
  if (!isOfApi(path)) return open.get(path);
  return method === "GET" ? open.get(withoutSpareSlashes(path)) : undefined;
}

export function answerOf(parts: ServerParts, exchange: Exchange): Promise<PageAnswer> {
  const open = openPage(parts, exchange);
  return open || !isOfApi(exchange.path) ? answerOpen(parts, exchange, open) : answerPassed(parts, exchange);
}

async function answerOpen(
  parts: ServerParts,
  exchange: Exchange,
  open: OpenPage | undefined,
): Promise<PageAnswer> {
  if (open && !READING.includes(exchange.method)) throw refuseMethod(exchange.method, READING);
  if (open) return open(exchange);
  for (const [prefix, page] of parts.openBelow) if (exchange.path.startsWith(prefix)) return page(exchange);
  const found = problem("not_found", `There is nothing at ${exchange.path}. The API is under /api/v1.`);
  return { status: found.status, body: bodyOf(found) };
}

async function answerPassed(parts: ServerParts, exchange: Exchange): Promise<Answer> {
  return await handlePassed(parts, exchange, await pass(parts.gate, exchange));
}

/** By the handler of its route, within the time that it has. */
export function handlePassed(
  parts: ServerParts,
  exchange: Exchange,
  { route, call, end }: PassedRequest,
): Promise<Answer> {
  // a late answer is ignored, since the exchange is already answered
  const late = () => {
    if (exchange.hasAnswered) return;
    parts.onFault(exchange, new Unavailable("stores", "a store did not answer in time"));
    refuse(exchange, isRead(exchange) ? unavailable("stores") : OUTCOME_UNKNOWN);
  };
  const cancel = whenLate(deadlineOf(route, parts.timeoutMs), late);
  const over = () => {
    cancel();
    end();
  };
  const handled = handle(route, call);
  // beside the answer: to catch a refusal and throw it again would cost as much as to make it
  handled.then(over, over);
  return handled;
}

function handle(route: Route, call: Call): Promise<Answer> {
  try {
    return Promise.resolve(route.handle(call));
  } catch (error) {
    return Promise.reject(error);
  }
}

function endSpan({ span, status }: Exchange): void {
  span?.end({ "http.response.status_code": status }, status >= 500 ? String(status) : null);
}

function refuse(exchange: Exchange, found: Problem): void {
  if (!exchange.hasAnswered) {
    REFUSED.add(1, found.name);
    if (found.lacking !== undefined) UNAVAILABLE.add(1, found.lacking);
  }
  exchange.answer(found.status, bodyOf(found), found.headers);
}

function toldOf(parts: ServerParts, exchange: Exchange, error: unknown): Problem {
  if (!(error instanceof Refusal)) parts.onFault(exchange, error);
  return problemOf(error, isRead(exchange));
}

/** Longer than all deadlines of a commit together: waiting for the one before, writing, learning its fate. */
const COMMIT_TIMEOUTS = 6;

export function deadlineOf({ commits }: Route, timeoutMs: number): number {
  return commits ? COMMIT_TIMEOUTS * timeoutMs : timeoutMs;
}

/** The request changes nothing, so it may be repeated. */
function isRead({ method }: Exchange): boolean {
  return READING.includes(method);
}
