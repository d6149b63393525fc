/**
 * The HTTP server: from a request on the wire to the handler of its route, and whatever happens, to exactly one
 * answer. Under /api/v1 every request passes the gate; the few open paths beside it are served as they are.
 */
import uWS, { type us_listen_socket } from "uWebSockets.js";
import { Unavailable } from "../admission/unavailable.ts";
import { Counter, Gauge, Histogram, SECONDS } from "../meter.ts";
import type { BodyBudget } from "./bodybudget.ts";
import { Exchange } from "./exchange.ts";
import { type GateParts, pass } from "./gate.ts";
import {
  badFraming,
  bodyOf,
  OUTCOME_UNKNOWN,
  type Problem,
  problem,
  problemOf,
  Refusal,
  unavailable,
} from "./problem.ts";
import type { Answer, Route } from "./routes.ts";

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
const IN_FLIGHT = new Gauge("postrider_requests_in_flight", "Requests that are being handled");

const IN_FLIGHT_MAX = 10_000;
const DRAIN_MS_MAX = 4_000;
const EXCLUSIVE_PORT = 1;
const SHARED_PORT = 0;

export type OpenPage = (exchange: Exchange) => Answer | Promise<Answer>;

export type ServerParts = {
  gate: GateParts;
  /** Paths outside /api/v1, and the one inside that needs no key. */
  open: ReadonlyMap<string, OpenPage>;
  /** Pages whose path begins so; the rest of the path is theirs. */
  openBelow: ReadonlyMap<string, OpenPage>;
  budget: BodyBudget;
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

export type Server = { port: number; stop(): Promise<void> };

export function startServer(
  parts: ServerParts,
  host: string,
  port: number,
  sharesPort: boolean,
): Promise<Server> {
  let inFlight = 0;
  let isStopping = false;
  let onIdle: (() => void) | null = null;
  const unfollow = IN_FLIGHT.follow(() => inFlight);

  // the version header names the library to everyone; its switch is missing from its types
  (uWS as unknown as { _cfg(option: string): void })._cfg("silent");
  const app = uWS.App();
  app.any("/*", (res, req) => {
    const began = performance.now();
    const exchange = new Exchange(res, req, parts.budget);
    inFlight++;
    exchange.onEnd = () => {
      inFlight--;
      const ms = performance.now() - began;
      count(exchange, ms);
      parts.onAnswer(exchange, ms);
      if (inFlight === 0) onIdle?.();
    };
    const { fault } = exchange.head;
    if (fault !== null) {
      refuse(exchange, badFraming(fault));
      return;
    }
    if (inFlight > IN_FLIGHT_MAX || isStopping) {
      refuse(exchange, unavailable(isStopping ? "process" : "capacity"));
      return;
    }
    serve(parts, exchange).then(
      ({ status, body, headers }) => exchange.answer(status, body, headers),
      (error) => refuse(exchange, toldOf(parts, exchange, error)),
    );
  });

  return new Promise((resolve, reject) => {
    const onListening = (socket: us_listen_socket | false): void => {
      if (socket) resolve({ port: uWS.us_socket_local_port(socket), stop: () => stop(socket) });
      else
        reject(
          new Error(`Port ${port} on ${host} is in use. Stop the process that listens there, or set PORT.`),
        );
    };
    // the form with host and options works, but only the others are in its types
    const listen = app.listen.bind(app) as unknown as Listen;
    listen(host, port, sharesPort ? SHARED_PORT : EXCLUSIVE_PORT, onListening);
  });

  async function stop(socket: us_listen_socket): Promise<void> {
    uWS.us_listen_socket_close(socket);
    isStopping = true;
    if (inFlight > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, DRAIN_MS_MAX);
        onIdle = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    unfollow();
    app.close();
  }
}

/** By the template of its route: paths hold ids. */
function count({ method, route, status }: Exchange, ms: number): void {
  if (status === 0) {
    GONE.add(1);
    return;
  }
  const name = route === null ? "none" : `${method} ${route}`;
  REQUESTS.add(1, name, `${Math.floor(status / 100)}xx`);
  TOOK.note(ms / 1_000, name);
}

async function serve(parts: ServerParts, exchange: Exchange): Promise<Answer> {
  const open = parts.open.get(exchange.path);
  if (open) return open(exchange);
  if (!exchange.path.startsWith("/api/v1")) {
    for (const [prefix, page] of parts.openBelow) if (exchange.path.startsWith(prefix)) return page(exchange);
    const found = problem("not_found", `There is nothing at ${exchange.path}. The API is under /api/v1.`);
    return { status: found.status, body: bodyOf(found) };
  }
  const { route, call } = await pass(parts.gate, exchange);
  // a late answer is ignored, since the exchange is already answered
  const timer = setTimeout(
    () => {
      parts.onFault(exchange, new Unavailable("stores", "a store did not answer in time"));
      refuse(exchange, isRead(exchange) ? unavailable("stores") : OUTCOME_UNKNOWN);
    },
    deadlineOf(route, parts.timeoutMs),
  );
  try {
    return await route.handle(call);
  } finally {
    clearTimeout(timer);
  }
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
  return method === "GET" || method === "HEAD";
}
