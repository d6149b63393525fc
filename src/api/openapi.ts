/** The OpenAPI 3.1 document, made from the same schemas that check the requests and the same table that routes them. */

import { STATUS_OF } from "./problem.ts";
import type { Route } from "./routes.ts";

export function openapi(routes: readonly Route[]) {
  const paths: Record<string, Record<string, unknown>> = {};
  const names = new Map<string, string>();
  for (const route of routes) {
    // one path may not be described under two names of its parameter
    const shape = route.path.replace(/\{\w+\}/g, "{}");
    const named = names.get(shape) ?? route.path;
    names.set(shape, named);
    const path = named.replace(/^\/api\/v1/, "");
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operation({ ...route, path: named });
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Postrider",
      version: "1",
      description: "Transactional e-mail, audiences and events. Every path is below /api/v1.",
    },
    servers: [{ url: "/api/v1" }],
    security: [{ apiKey: [] }],
    components: {
      securitySchemes: {
        apiKey: { type: "http", scheme: "bearer", description: "An API key: `pr_live_...`" },
      },
      schemas: { Error: errorSchema },
    },
    paths,
  };
}

const errorSchema = {
  type: "object",
  required: ["statusCode", "name", "message"],
  properties: {
    statusCode: { type: "integer" },
    name: { type: "string", enum: Object.keys(STATUS_OF) },
    message: { type: "string" },
    details: { type: "object" },
  },
};

function operation({ method, path, permissions, plan, request, summary, success, query, answer }: Route) {
  const parameters = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
      name,
      in: "path",
      required: true,
      schema: { type: "string" },
    })),
    ...(query ?? []).map(({ name, description }) => ({
      name,
      in: "query",
      description,
      schema: { type: "string" },
    })),
  ];
  const needs = `Needs the ${permissions.map((permission) => `\`${permission}\``).join(" or ")} permission.`;
  return {
    summary,
    description: plan ? `${needs} The plan must include ${plan}.` : needs,
    operationId: `${method.toLowerCase()}${path
      .replace(/^\/api\/v1/, "")
      .replace(/[{}]/g, "")
      .replace(/[/_](\w)/g, (_, letter: string) => letter.toUpperCase())}`,
    ...(parameters.length > 0 && { parameters }),
    ...(request && { requestBody: { required: true, content: { "application/json": { schema: request } } } }),
    responses: {
      [String(success)]: {
        description: "Done.",
        ...(answer && { content: { "application/json": { schema: answer } } }),
      },
      default: {
        description: "Refused: see `name`.",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
  };
}
