/**
 * The OpenAPI 3.1 document, made from the same table that routes the requests, the schemas that check them,
 * and those of the answers. Schemas with a name stand once, under `components`.
 */

import type { TSchema } from "typebox";
import { keysOf } from "../names.ts";
import { BODY_EXAMPLES } from "./examples.ts";
import { PARAMETERS } from "./page.ts";
import { type ProblemName, STATUS_OF } from "./problem.ts";
import { type Route, shortPath } from "./routes.ts";

type PlainSchema = Record<string, unknown>;
const EXAMPLE_DEPTH_MAX = 8;

export function openapi(routes: readonly Route[]) {
  const paths: Record<string, Record<string, unknown>> = {};
  const names = new Map<string, string>();
  const schemas: Record<string, PlainSchema> = { Error: errorSchema };
  for (const route of routes) {
    // one path may not be described under two names of its parameter
    const nameless = route.path.replace(/\{\w+\}/g, "{}");
    const named = names.get(nameless) ?? route.path;
    names.set(nameless, named);
    const path = shortPath({ ...route, path: named });
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operation({ ...route, path: named }, schemas);
  }
  const tags = [...new Set(Object.keys(paths).map(tagOf))].sort();
  return {
    openapi: "3.1.0",
    info: {
      title: "Postrider",
      version: "1",
      description:
        "Transactional e-mail, audiences and events. Every path is below /api/v1. A method that a path does not have is answered 405 with `Allow`, a path that there is not 404, both with an Error.",
      license: { name: "MIT", identifier: "MIT" },
      contact: { name: "The operator of this server" },
    },
    servers: [{ url: "/api/v1" }],
    security: [{ apiKey: [] }],
    tags: tags.map((name) => ({ name, description: `Everything below /${name}.` })),
    components: {
      securitySchemes: {
        apiKey: { type: "http", scheme: "bearer", description: "An API key: `pr_live_...`" },
      },
      schemas,
      responses: Object.fromEntries(STATUSES.map((status) => [`Refused${status}`, refusal(status)])),
      headers: HEADERS,
    },
    paths,
  };
}

const errorSchema: PlainSchema = {
  type: "object",
  description: "Why a request was refused.",
  required: ["statusCode", "name", "message"],
  properties: {
    statusCode: { type: "integer" },
    name: { type: "string", enum: Object.keys(STATUS_OF) },
    message: { type: "string" },
    details: { type: "object", additionalProperties: { type: ["string", "number"] } },
  },
  additionalProperties: false,
};

const DESCRIPTIONS: Record<number, string> = {
  400: "The body is not JSON (or not the form that is asked for), or the idempotency key is malformed.",
  401: "The key is missing, malformed, unknown or revoked.",
  402: "The plan does not include it.",
  403: "The key may not do that, the request came from a web page, or the workspace is suspended.",
  404: "It does not exist, or the key may not see it.",
  409: "The idempotency key belongs to another request, or `if_version` is not the version of now.",
  413: "The body is too large.",
  415: "The body is not `application/json`, or not `multipart/form-data` where that is asked for.",
  422: "A field or a parameter is wrong: the message names the first.",
  429: "Too many requests, or the quota is used up: see `Retry-After`.",
  500: "An error of the engine, or the outcome is unknown.",
  503: "The engine is overloaded, or a store does not answer. Nothing was done.",
};
const STATUSES = Object.keys(DESCRIPTIONS).map(Number);
const EXAMPLES: Partial<Record<ProblemName, string>> = {
  validation_error: "The `to` field must be an address.",
  missing_required_field: "Missing `to` field.",
  restricted_api_key: "This API key lacks the `contacts:read` permission.",
};

const HEADERS = {
  "X-Request-Id": { description: "Finds the request in the logs.", schema: { type: "string" } },
  "X-RateLimit-Limit": { description: "Requests per second or minute.", schema: { type: "integer" } },
  "X-RateLimit-Remaining": { description: "Of them, how many are left.", schema: { type: "integer" } },
  "X-RateLimit-Reset": { description: "Seconds until all are there again.", schema: { type: "integer" } },
  "Retry-After": { description: "Seconds to wait.", schema: { type: "integer" } },
};
type HeaderName = keyof typeof HEADERS;
const OF_ALL: readonly HeaderName[] = ["X-Request-Id"];
/** Once it is known who asks. */
const OF_KNOWN: readonly HeaderName[] = [
  ...OF_ALL,
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
];
const OF_REFUSED: Readonly<Record<number, readonly HeaderName[]>> = {
  401: OF_ALL,
  429: [...OF_KNOWN, "Retry-After"],
  503: OF_ALL,
};

function headersOf(names: readonly HeaderName[]) {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

function refusal(status: number) {
  const named = keysOf(STATUS_OF).filter((name) => STATUS_OF[name] === status);
  const names: ProblemName[] = named.length > 0 ? named : ["validation_error"];
  return {
    description: DESCRIPTIONS[status],
    headers: headersOf(OF_REFUSED[status] ?? OF_KNOWN),
    content: {
      "application/json": {
        schema: { $ref: "#/components/schemas/Error" },
        examples: Object.fromEntries(
          names.map((name) => [
            name,
            {
              value: {
                statusCode: status,
                name,
                message: EXAMPLES[name] ?? "What is wrong, and what to do.",
              },
            },
          ]),
        ),
      },
    },
  };
}

function operation(route: Route, schemas: Record<string, PlainSchema>) {
  const { method, path, permissions, plan, request, summary, success, answer } = route;
  const { query = [], headers = [], alsoSucceeds = {} } = route;
  const answers: [string, TSchema | undefined][] = [
    [String(success), answer],
    ...Object.entries(alsoSucceeds),
  ];
  const parameters = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
      name,
      in: "path",
      required: true,
      description: PATH_WORDS[name] ?? "An id.",
      schema: { type: "string" },
    })),
    ...query.map(({ name, description, schema = PARAMETERS[name] ?? { type: "string" } }) => ({
      ...{ name, in: "query", description, schema },
    })),
    ...headers.map(({ name, description, schema = { type: "string" } }) => ({
      ...{ name, in: "header", description, schema },
    })),
  ];
  const needs = `Needs the ${permissions.map((permission) => `\`${permission}\``).join(" or ")} permission.`;
  return {
    tags: [tagOf(shortPath(route))],
    summary,
    description: plan ? `${needs} The plan must include ${plan}.` : needs,
    operationId: `${method.toLowerCase()}${shortPath(route)
      .replace(/[{}]/g, "")
      .replace(/[/_-](\w)/g, (_, letter: string) => letter.toUpperCase())}`,
    ...(parameters.length > 0 && { parameters }),
    ...(request && { requestBody: { required: true, content: requestOf(route, request, schemas) } }),
    responses: Object.fromEntries([
      ...answers.map(([status, schema]) => [
        status,
        {
          description: SUCCESS_WORDS[Number(status)] ?? "Done.",
          headers: headersOf(OF_KNOWN),
          content: contentOf(schema, schemas),
        },
      ]),
      ...refusalsOf(route).map((status) => [
        String(status),
        { $ref: `#/components/responses/Refused${status}` },
      ]),
    ]),
  };
}

const SUCCESS_WORDS: Record<number, string> = {
  200: "Done.",
  201: "Created.",
  202: "Accepted: done in the background.",
};
const PATH_WORDS: Record<string, string> = {
  id: "A UUID, or what the summary names.",
  email_or_id: "The address or the id of a contact.",
  id_or_email: "The id or the address of a suppression.",
  id_or_external_id: "The id or the external id of a template.",
};

/**
 * The statuses with which the route may refuse. A body that is not asked for is read too, and must be JSON.
 */
function refusalsOf({ path, request, plan }: Route): number[] {
  return [
    ...[400, 401],
    ...(plan ? [402] : []),
    403,
    ...(path.includes("{") || request ? [404] : []),
    ...[409, 413, 415, 422, 429, 500, 503],
  ];
}

function tagOf(path: string): string {
  return path.split("/")[1] ?? "";
}

function requestOf(route: Route, request: TSchema, schemas: Record<string, PlainSchema>) {
  const { method, takesForm } = route;
  const content = contentOf(request, schemas, BODY_EXAMPLES[`${method} ${shortPath(route)}`]);
  return takesForm ? { "multipart/form-data": content["application/json"] } : content;
}

function contentOf(schema: TSchema | undefined, schemas: Record<string, PlainSchema>, example?: unknown) {
  if (!schema) return { "application/json": { schema: {} } };
  return {
    "application/json": {
      schema: hoisted(schema, schemas),
      example: example ?? exampleOf(schema as PlainSchema),
    },
  };
}

/** The schema as JSON, with what has a name moved to `components`. */
function hoisted(schema: unknown, schemas: Record<string, PlainSchema>): unknown {
  if (Array.isArray(schema)) return schema.map((one) => hoisted(one, schemas));
  if (schema === null || typeof schema !== "object") return schema;
  const { $id, alsoRequired, ...rest } = schema as PlainSchema;
  const plain = Object.fromEntries(
    Object.entries(rest).map(([name, value]) => [name, hoisted(value, schemas)]),
  );
  if (Array.isArray(alsoRequired))
    plain.required = [...((plain.required as string[]) ?? []), ...alsoRequired];
  if (typeof $id !== "string") return plain;
  schemas[$id] ??= plain;
  return { $ref: `#/components/schemas/${$id}` };
}

/** One value that the schema takes. */
function exampleOf(schema: PlainSchema, depth = 0): unknown {
  const { examples, enum: values, anyOf, type, properties, required, items, minItems } = schema;
  if (Array.isArray(examples)) return examples[0];
  if ("const" in schema) return schema.const;
  if (Array.isArray(values)) return values[0];
  if (Array.isArray(anyOf)) return exampleOf(anyOf[0], depth);
  switch (type) {
    case "object": {
      const needed = new Set((required ?? []) as string[]);
      const shown = Object.entries((properties ?? {}) as Record<string, PlainSchema>).filter(
        ([name]) => depth < EXAMPLE_DEPTH_MAX && (needed.has(name) || depth < 2),
      );
      return Object.fromEntries(shown.map(([name, of]) => [name, exampleOf(of, depth + 1)]));
    }
    case "array":
      return depth < EXAMPLE_DEPTH_MAX || minItems
        ? [exampleOf((items ?? {}) as PlainSchema, depth + 1)]
        : [];
    case "integer":
    case "number":
      return schema.minimum ?? 1;
    case "boolean":
      return false;
    case "null":
      return null;
    case "string":
      return "text";
    default:
      return {};
  }
}
