/**
 * The routes of the API as a table, and finding one. Double and trailing slashes are tolerated, parameters
 * are percent-decoded once, and an invalid escape stays as it is.
 */
import type { TObject, TSchema } from "typebox";
import type { Caller } from "../admission/admit.ts";
import type { Permission } from "../admission/permissions.ts";
import type { TraceSpan } from "../trace.ts";
import type { AnswerBody, Headers } from "./exchange.ts";
import type { Form } from "./form.ts";
import type { RequestHead } from "./head.ts";
import type { BadItems, Json } from "./json.ts";
import type { Reading } from "./jsonwork.ts";

export const BODY_BYTES_MAX = 1024 * 1024;
export const EMAIL_BODY_BYTES_MAX = 40 * 1024 * 1024;

/** What handlers see of the request besides path, query and body. */
export type CallHead = {
  head: Pick<RequestHead, "idempotencyKey" | "batchValidation">;
  /** In its trace; without one it is not traced. */
  span?: TraceSpan | null;
};

export type Call = {
  caller: Caller;
  params: readonly string[];
  query: URLSearchParams;
  exchange: CallHead;
  /** The parsed body; undefined when there was none. */
  body: Json | undefined;
  bodyBytes: number;
  /** The parts of a body that is a form. */
  form: Form | null;
  /** Of a body whose route spares items: those that must be refused. */
  badItems: BadItems | null;
  /** Of the body as it came, for what must be compared byte by byte. */
  digest(): string;
};

/** `body`: as bytes when it is so large that to encode it would hold up others. */
export type Answer = { status: number; body: string | Buffer; headers?: Headers };
/** Of a page outside of the API. */
export type PageAnswer = Omit<Answer, "body"> & { body: AnswerBody };

/** `alias`: another name that means the same. Each may be given once. `schema`: if others have another. */
export type Parameter = { name: string; alias?: string; description: string; schema?: object };

export type Route = {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** `{name}` stands for one segment. */
  path: string;
  /** One of these is enough; the first is the one a refusal names. */
  permissions: readonly Permission[];
  /** A query that asks for more than the route itself. */
  permissionByQuery?(query: URLSearchParams): Permission | null;
  plan?: "templates" | "events";
  bodyBytesMax?: number;
  /** For the API's own description. */
  summary: string;
  success: number;
  /** Other statuses, with their answers. */
  alsoSucceeds?: Readonly<Record<number, TSchema>>;
  request?: TSchema;
  /** The body is `multipart/form-data` instead of JSON. */
  takesForm?: boolean;
  /** What parts of the form hold as JSON. */
  formJson?: TObject;
  answer?: TSchema;
  /** Fields that are read besides those of the request. */
  alsoReads?: readonly string[];
  /** What a digest of the request covers besides its bytes. */
  digestPrefix?(exchange: CallHead): string;
  /** Whether text that cannot be stored refuses only its item of the body, by `handle`. */
  sparesItems?(exchange: CallHead): boolean;
  query?: readonly Parameter[];
  /** Those that change what it does. */
  headers?: readonly Parameter[];
  /** Whether the route waits for a commit, which has deadlines of its own. */
  commits?: boolean;
  handle(call: Call): Promise<Answer> | Answer;
};

export type Match =
  | { kind: "route"; route: Route; params: string[] }
  | { kind: "wrong method"; allow: string[] }
  | { kind: "unknown" };

type Node = { literal: Map<string, Node>; param: Node | null; routes: Map<string, Route> };

export class Router {
  readonly #root: Node = node();
  readonly routes: readonly Route[];

  constructor(routes: readonly Route[]) {
    this.routes = routes;
    for (const route of routes) this.#add(route);
  }

  find(method: string, path: string): Match {
    const params: string[] = [];
    let at: Node | undefined = this.#root;
    for (let from = 0, to = 0; to < path.length; from = to + 1) {
      to = path.indexOf("/", from);
      if (to === -1) to = path.length;
      if (to === from) continue;
      const segment = path.slice(from, to);
      const literal: Node | undefined = at.literal.get(segment);
      if (literal) {
        at = literal;
        continue;
      }
      if (!at.param) return { kind: "unknown" };
      params.push(decode(segment));
      at = at.param;
    }
    const route = at.routes.get(method);
    if (route) return { kind: "route", route, params };
    if (at.routes.size === 0) return { kind: "unknown" };
    return { kind: "wrong method", allow: [...at.routes.keys()] };
  }

  #add(route: Route): void {
    let at = this.#root;
    for (const segment of route.path.split("/")) {
      if (segment === "") continue;
      if (segment.startsWith("{")) {
        at.param ??= node();
        at = at.param;
        continue;
      }
      let next = at.literal.get(segment);
      if (!next) {
        next = node();
        at.literal.set(segment, next);
      }
      at = next;
    }
    at.routes.set(route.method, route);
  }
}

function node(): Node {
  return { literal: new Map(), param: null, routes: new Map() };
}

function decode(segment: string): string {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

const API_PATH = /^\/+api\/+v1/;

/** Whether it takes a key. A base url that ends with a slash puts two in front. */
export function isOfApi(path: string): boolean {
  return path.startsWith("/api/v1") || API_PATH.test(path);
}

export function withoutSpareSlashes(path: string): string {
  if (!path.endsWith("/") && !path.includes("//")) return path;
  return path.replace(/\/+/g, "/").replace(/(.)\/$/, "$1");
}

const shortPaths = new WeakMap<Route, string>();

/** As callers write it, below the base of the API. */
export function shortPath(route: Route): string {
  const known = shortPaths.get(route);
  if (known !== undefined) return known;
  const path = route.path.slice("/api/v1".length);
  shortPaths.set(route, path);
  return path;
}

const readings = new WeakMap<Route, Reading>();

/** What of a body the route's schema knows; the rest is ignored. */
export function readingOf(route: Route): Reading {
  const known = readings.get(route);
  if (known) return known;
  const { request, alsoReads = [] } = route;
  const schema = request as { items?: TSchema; maxItems?: number } | undefined;
  const { properties } = (schema?.items ?? request ?? {}) as { properties?: Record<string, TSchema> };
  const fields = properties ? [...Object.keys(properties), ...alsoReads] : null;
  const reading = { fields, itemsMax: schema?.maxItems ?? 0 };
  readings.set(route, reading);
  return reading;
}
