/**
 * The description of the API, made without a server, and holding answers against it: a status, a field or a
 * value that the document does not have fails the test that met it.
 */
import { Compile } from "typebox/schema";
import { routesOf } from "../../src/api/api.ts";
import { openapi } from "../../src/api/openapi.ts";

type Media = { "application/json": { schema: object } };
export type Operation = {
  operationId: string;
  parameters?: { name: string; in: "path" | "query" | "header"; schema: Record<string, unknown> }[];
  /** Of a form there is no JSON. */
  requestBody?: { content: Partial<Media> };
  responses: Record<string, { content: Media } | { $ref: string }>;
};
type Described = { matches: RegExp; literals: number; path: string; operations: Record<string, Operation> };

/** Routes are only described here: none is called, and what they would use is not there. */
const NOTHING = {} as never;
export const DOCUMENT = openapi(
  routesOf(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING),
);
export const PATHS = DOCUMENT.paths as unknown as Record<string, Record<string, Operation>>;

/** Of those that match, the one with the most words of its own: /emails/batch is no id. */
const described: Described[] = Object.entries(PATHS)
  .map(([path, operations]) => ({
    matches: new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`),
    literals: path.replace(/\{\w+\}/g, "").length,
    path,
    operations,
  }))
  .sort((a, b) => b.literals - a.literals);

type Validator = { Check(value: unknown): boolean; Errors(value: unknown): [boolean, unknown[]] };
const validators = new Map<string, Validator>();

function validatorOf(name: string, schema: object): Validator {
  const known = validators.get(name);
  if (known) return known;
  const made = Compile({ ...schema, components: DOCUMENT.components }) as unknown as Validator;
  validators.set(name, made);
  return made;
}

/** `path` is below /api/v1, with or without a query. Throws what is wrong. */
export function holdToDocument(method: string, path: string, status: number, body: unknown): void {
  // slashes too many are forgiven
  const plain = `/${(path.split("?")[0] as string).split("/").filter(Boolean).join("/")}`;
  const operation = described.find(({ matches }) => matches.test(plain))?.operations[method.toLowerCase()];
  const what = `${method} ${plain} ${status}`;
  if (!operation) {
    if (status < 400) throw new Error(`${what} is not in the document`);
    hold(what, "Error", { $ref: "#/components/schemas/Error" }, body);
    return;
  }
  const response = operation.responses[String(status)];
  if (!response)
    throw new Error(`${what}: the document does not have this status for ${operation.operationId}`);
  if ("$ref" in response) hold(what, "Error", { $ref: "#/components/schemas/Error" }, body);
  else hold(what, `${operation.operationId} ${status}`, response.content["application/json"].schema, body);
}

function hold(what: string, name: string, schema: object, body: unknown): void {
  const validator = validatorOf(name, schema);
  if (validator.Check(body)) return;
  const [, errors] = validator.Errors(body);
  throw new Error(
    `${what} is not as the document says: ${JSON.stringify(errors).slice(0, 1_000)}\n${JSON.stringify(body).slice(0, 2_000)}`,
  );
}
