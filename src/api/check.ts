/**
 * Bodies against their TypeBox schemas, and what is wrong with them in words: a refusal names the first bad
 * field in backticks with its path, as callers would write it: `[3].to[1]`.
 */
import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { firstChars } from "../chars.ts";
import { errorsIn, faultWords, type SchemaError, type SchemaErrorOf } from "../schemafault.ts";
import type { Json } from "./json.ts";
import { type Refusal, refuse } from "./problem.ts";

const NAME_CHARS_SHOWN = 50;

/**
 * A function that hands the body back typed, or throws the refusal. A field that is `null` counts as absent
 * unless `keepsNull`. `at` is the path of the body when it is an item of another: `[3].`
 */
export function checker<S extends TSchema>(
  schema: S,
  options: { keepsNull?: boolean } = {},
): (body: Json | undefined, at?: string) => Static<S> {
  const compiled = Compile(schema);
  return (body = {}, at = "") => {
    const value = options.keepsNull ? body : withoutNulls(body);
    if (compiled.Check(value)) return value as Static<S>;
    throw explain(errorsIn(compiled, value), schema, at);
  };
}

function withoutNulls(body: Json): Json {
  if (body === null || typeof body !== "object" || Array.isArray(body)) return body;
  for (const name in body) {
    if (body[name] === null)
      return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
  }
  return body;
}

function explain(errors: readonly SchemaError[], schema: TSchema, at: string): Refusal {
  const first = errors[0];
  if (!first)
    return refuse(
      "validation_error",
      "The request body is not valid, and holds too many values to say where. Send fewer in one request.",
    );
  if (first.keyword === "required") return missingOf(first, at);
  // of the alternatives of a field, the error that lies deepest is the most useful
  const field = first.instancePath.split("/")[1];
  const ofField = errors.filter(
    (error) => error.instancePath.split("/")[1] === field && error.keyword !== "anyOf",
  );
  const deepest = ofField.reduce((best, error) => (depth(error) > depth(best) ? error : best), first);
  if (deepest.keyword === "required") return missingOf(deepest, at);
  const words = faultWords(
    ofField.filter(({ instancePath }) => instancePath === deepest.instancePath),
    schema,
  );
  if (deepest.instancePath === "") return refuse("validation_error", `The request body ${words}.`);
  return refuse("validation_error", `The \`${at}${pointedPath(deepest.instancePath)}\` field ${words}.`);
}

function missingOf({ instancePath, params }: SchemaErrorOf<"required">, at: string): Refusal {
  return missingField(`${at}${pointedPath(instancePath, params.requiredProperties[0])}`);
}

export function missingField(path: string): Refusal {
  return refuse("missing_required_field", `Missing \`${path}\` field.`);
}

/** Of a request that has no body. `wanted`: what it should hold. */
export function missingBody(wanted: string): Refusal {
  return refuse("missing_required_field", `The request has no body. Send ${wanted}.`);
}

function depth(error: SchemaError): number {
  return error.instancePath.split("/").length;
}

/** `/3/to/1` as `[3].to[1]`. */
function pointedPath(pointer: string, last?: string): string {
  const names = pointer
    .split("/")
    .slice(1)
    .map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
  return fieldPath(last === undefined ? names : [...names, last]);
}

export function fieldPath(names: readonly string[]): string {
  let path = "";
  for (const given of names) {
    const name = firstChars(given, NAME_CHARS_SHOWN);
    path += /^\d+$/.test(name) ? `[${name}]` : path === "" ? name : `.${name}`;
  }
  return path;
}
