/**
 * The endpoints of the OpenAPI document as HTML: what each takes and answers, and how to call it from three
 * languages.
 */
import { escapeHtml, tableHtml } from "./markdown.ts";

type DocumentSchema = Record<string, unknown>;
type Content = { "application/json": { schema: DocumentSchema; example?: unknown } };
type Operation = {
  tags: string[];
  summary: string;
  description: string;
  operationId: string;
  parameters?: { name: string; in: string; description: string; schema: DocumentSchema }[];
  requestBody?: { content: Content };
  responses: Record<string, { description?: string; content?: Content; $ref?: string }>;
};
export type ApiDocument = {
  tags: { name: string }[];
  components: { schemas: Record<string, DocumentSchema>; responses: Record<string, unknown> };
  paths: Record<string, Record<string, unknown>>;
};

export type Endpoint = { method: string; path: string; tag: string; operation: Operation };

const DEPTH_MAX = 2;

export function endpointsOf(document: ApiDocument): Endpoint[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, given]) => {
      const operation = given as Operation;
      return { method: method.toUpperCase(), path, tag: operation.tags[0] ?? "", operation };
    }),
  );
}

export function endpointHtml(endpoint: Endpoint, document: ApiDocument, baseUrl: string): string {
  const { method, path, operation } = endpoint;
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation;
  const body = requestBody?.content["application/json"];
  const parts = [
    `<h2 id="${operationId}">${withCode(summary)}</h2>`,
    `<p><code>${method} ${escapeHtml(path)}</code></p>`,
    `<p>${withCode(description)}</p>`,
    table(
      ["parameter", "in", "what"],
      parameters.map(({ name, in: place, description: what }) => [code(name), place, withCode(what)]),
    ),
    body ? `<h3>Body</h3>${fieldsHtml(body.schema, document)}` : "",
    `<h3>Examples</h3>${examplesHtml(endpoint, body?.example, baseUrl)}`,
    `<h3>Answers</h3>${answersHtml(responses, document)}`,
  ];
  return `<section>${parts.join("\n")}</section>`;
}

function fieldsHtml(schema: DocumentSchema, document: ApiDocument): string {
  const rows = fieldsOf(schema, document, "", 0);
  return rows.length > 0 ? table(["field", "type", "what"], rows) : "<p>Any JSON.</p>";
}

function fieldsOf(given: DocumentSchema, document: ApiDocument, at: string, depth: number): string[][] {
  const schema = resolved(given, document);
  const items = schema.items as DocumentSchema | undefined;
  if (items) return fieldsOf(items, document, `${at}[]`, depth);
  const alternatives = schema.anyOf as DocumentSchema[] | undefined;
  if (alternatives) {
    const shaped = alternatives.find((one) => resolved(one, document).properties !== undefined);
    return shaped ? fieldsOf(shaped, document, at, depth) : [];
  }
  const required = new Set((schema.required ?? []) as string[]);
  return Object.entries((schema.properties ?? {}) as Record<string, DocumentSchema>).flatMap(
    ([name, field]) => {
      const path = at === "" ? name : `${at}.${name}`;
      const words = [
        required.has(name) ? "required" : "",
        String(resolved(field, document).description ?? ""),
      ];
      const own = [
        code(path),
        escapeHtml(typeOf(field, document)),
        withCode(words.filter(Boolean).join("; ")),
      ];
      return depth < DEPTH_MAX ? [own, ...fieldsOf(field, document, path, depth + 1)] : [own];
    },
  );
}

function typeOf(given: DocumentSchema, document: ApiDocument): string {
  const schema = resolved(given, document);
  if ("const" in schema) return JSON.stringify(schema.const);
  const alternatives = schema.anyOf as DocumentSchema[] | undefined;
  if (alternatives) return [...new Set(alternatives.map((one) => typeOf(one, document)))].join(" or ");
  const type = String(schema.format ?? schema.type ?? "any");
  return schema.items ? `${typeOf(schema.items as DocumentSchema, document)}[]` : type;
}

function resolved(schema: DocumentSchema, document: ApiDocument): DocumentSchema {
  const name = /^#\/components\/schemas\/(\w+)$/.exec(String(schema.$ref ?? ""))?.[1];
  return name === undefined ? schema : (document.components.schemas[name] ?? {});
}

function answersHtml(responses: Operation["responses"], document: ApiDocument): string {
  const rows = Object.entries(responses).map(([status, { description, content, $ref }]) => {
    if ($ref) return [code(status), refusalWords($ref, document)];
    const example = content?.["application/json"].example;
    const shown = example === undefined ? "" : `<pre tabindex="0"><code>${json(example)}</code></pre>`;
    return [code(status), `${escapeHtml(description ?? "")}${shown}`];
  });
  return table(["status", "what"], rows);
}

/** Each name leads to the page that explains it. */
function refusalWords(ref: string, document: ApiDocument): string {
  const found = document.components.responses[ref.split("/").at(-1) ?? ""] as {
    description: string;
    content: { "application/json": { examples: Record<string, unknown> } };
  };
  const names = Object.keys(found.content["application/json"].examples);
  const links = names.map((name) => `<a href="/docs/errors#${name}"><code>${name}</code></a>`);
  return `${escapeHtml(found.description)} ${links.join(", ")}`;
}

function examplesHtml(endpoint: Endpoint, body: unknown, baseUrl: string): string {
  const asked = { ...endpoint, url: `${baseUrl}/api/v1${endpoint.path}`, body };
  const shown = [
    ["curl", curl(asked)],
    ["Node", node(asked)],
    ["Python", python(asked)],
  ] as const;
  return shown
    .map(([name, text]) => `<h4>${name}</h4><pre tabindex="0"><code>${escapeHtml(text)}</code></pre>`)
    .join("");
}

type Example = Endpoint & { url: string; body: unknown };

function curl({ method, url, body }: Example): string {
  const lines = [`curl -X ${method} '${url}'`, `  -H "Authorization: Bearer $KEY"`];
  if (body !== undefined)
    lines.push(
      `  -H "Content-Type: application/json"`,
      `  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
    );
  return lines.join(" \\\n");
}

function node({ method, url, body }: Example): string {
  const headers = ['Authorization: "Bearer " + env.KEY'];
  if (body !== undefined) headers.push('"Content-Type": "application/json"');
  const lines = [
    'import { env } from "node:process";',
    "",
    `const response = await fetch("${url}", {`,
    `  method: "${method}",`,
    `  headers: { ${headers.join(", ")} },`,
    ...(body === undefined ? [] : [`  body: JSON.stringify(${JSON.stringify(body)}),`]),
    "});",
    "console.log(response.status, await response.json());",
  ];
  return lines.join("\n");
}

function python({ method, url, body }: Example): string {
  const headers = ['"Authorization": "Bearer " + os.environ["KEY"]'];
  if (body !== undefined) headers.push('"Content-Type": "application/json"');
  return [
    "import json, os, urllib.request",
    "",
    ...(body === undefined ? [] : [`body = json.loads(r'''${JSON.stringify(body)}''')`]),
    "request = urllib.request.Request(",
    `    "${url}",`,
    `    method="${method}",`,
    `    headers={${headers.join(", ")}},`,
    ...(body === undefined ? [] : ["    data=json.dumps(body).encode(),"]),
    ")",
    "with urllib.request.urlopen(request) as response:",
    "    print(response.status, json.load(response))",
  ].join("\n");
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return "";
  return tableHtml(
    head,
    rows.map((cells) => ({ id: null, cells })),
  );
}

function code(text: string): string {
  return `<code>${escapeHtml(text)}</code>`;
}

/** Descriptions have code in backticks. */
export function withCode(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}

function json(value: unknown): string {
  return escapeHtml(JSON.stringify(value, null, 2));
}
