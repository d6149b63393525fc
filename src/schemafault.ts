/**
 * What is wrong with a value by its TypeBox schema, in words that follow the name of its field: "must be a
 * string".
 */
import Type, { type TSchema } from "typebox";
import type { TLocalizedValidationError } from "typebox/error";

export type SchemaError = TLocalizedValidationError;
export type SchemaErrorOf<Keyword extends SchemaError["keyword"]> = Extract<
  SchemaError,
  { keyword: Keyword }
>;

/** To look for errors takes up to 3 us for each value, and TypeBox goes on after it has found enough. */
const EXAMINED_MAX = 5_000;
/** Older clients send files as arrays of bytes, in which nothing can be wrong. */
const BYTES_MIN = 1_000;

/** What is wrong with a value; nothing where it holds too much to look through. */
export function errorsIn(schema: { Errors(value: unknown): SchemaError[] }, value: unknown): SchemaError[] {
  return countUpTo(EXAMINED_MAX, value) > EXAMINED_MAX ? [] : schema.Errors(withoutBytes(value));
}

function countUpTo(most: number, value: unknown): number {
  if (typeof value !== "object" || value === null || isBytes(value)) return 1;
  let count = 1;
  // not `Object.values`, which takes an object of 40,000 fields apart as a whole
  for (const name in value) {
    count += countUpTo(most - count, (value as Record<string, unknown>)[name]);
    if (count > most) break;
  }
  return count;
}

function withoutBytes(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return isBytes(value) ? [] : value.map(withoutBytes);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withoutBytes(one)]));
}

function isBytes(value: object): boolean {
  return Array.isArray(value) && value.length > BYTES_MIN && value.every(isByte);
}

function isByte(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 255;
}

type Schema = { items?: { type?: string } } & { [part: string]: unknown };

const patternWords = new Map<string, string>();

/** A string of a pattern, and the words that stand for the pattern in messages. */
export function patterned(pattern: string, words: string, options: { description?: string } = {}) {
  patternWords.set(pattern, words);
  return Type.String({ pattern, ...options });
}

const LIMITS = new Set(["minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "pattern"]);

/** `errors` are those of one value: more than one when the schema allows alternatives. */
export function faultWords(errors: readonly SchemaError[], schema: TSchema): string {
  const values = errors.flatMap(valuesOf);
  if (values.length > 0) return `must be ${either([...values, ...(errors.some(wantsNull) ? ["null"] : [])])}`;
  // of alternatives it has the type of one, and breaks its limit
  const limit = errors.find(({ keyword }) => LIMITS.has(keyword));
  if (limit) return limitWords(limit);
  const types = errors.filter((error) => error.keyword === "type");
  if (types.length > 0) return `must be ${either(types.map((error) => typeWords(error, schema)))}`;
  return errors[0] ? limitWords(errors[0]) : "is not valid";
}

/**
 * Of a file an operator writes, as a sentence: the field and what is wrong with it. `what` is the file's own
 * name.
 */
export function fileFault(errors: readonly SchemaError[], schema: TSchema, what: string): string {
  const deepest = errors.reduce((best, one) => (depth(one) > depth(best) ? one : best), errors[0]);
  if (!deepest) return `The ${what} is not valid.`;
  const { keyword, instancePath } = deepest;
  const path = instancePath.slice(1).replaceAll("/", ".");
  if (deepest.keyword === "required") {
    const missing = String(deepest.params.requiredProperties[0]);
    return `The ${what} lacks \`${path === "" ? missing : `${path}.${missing}`}\`.`;
  }
  if (keyword === "boolean") return `The ${what} has no field \`${path}\`.`;
  const words = faultWords(
    errors.filter((error) => error.instancePath === instancePath),
    schema,
  );
  return `${path === "" ? `The ${what}` : `\`${path}\``} ${words}.`;
}

function depth(error: SchemaError | undefined): number {
  return error?.instancePath.split("/").length ?? 0;
}

/** The values that an alternative allows. */
function valuesOf(error: SchemaError): string[] {
  if (error.keyword === "const") return [JSON.stringify(error.params.allowedValue)];
  return error.keyword === "enum" ? error.params.allowedValues.map((value) => JSON.stringify(value)) : [];
}

function wantsNull(error: SchemaError): boolean {
  return error.keyword === "type" && error.params.type === "null";
}

const TYPES: Record<string, { one: string; many: string }> = {
  string: { one: "a string", many: "strings" },
  number: { one: "a number", many: "numbers" },
  integer: { one: "a whole number", many: "whole numbers" },
  boolean: { one: "true or false", many: "booleans" },
  object: { one: "an object", many: "objects" },
  array: { one: "an array", many: "arrays" },
  null: { one: "null", many: "nulls" },
};

function typeWords({ params, schemaPath }: SchemaErrorOf<"type">, schema: TSchema): string {
  const type = String(params.type);
  const items = type === "array" ? TYPES[schemaAt(schema, schemaPath)?.items?.type ?? ""] : undefined;
  return `${TYPES[type]?.one ?? type}${items ? ` of ${items.many}` : ""}`;
}

/** `#/properties/to/anyOf/1` */
function schemaAt(schema: TSchema, path: string): Schema | undefined {
  return path
    .split("/")
    .slice(1)
    .reduce<Schema | undefined>((at, part) => at?.[part] as Schema | undefined, schema as Schema);
}

function limitWords({ keyword, message, params }: SchemaError): string {
  switch (keyword) {
    case "minItems":
      return `must have at least ${counted(params.limit, "item")}`;
    case "maxItems":
      return `must have at most ${counted(params.limit, "item")}`;
    case "minLength":
      return `must have at least ${counted(params.limit, "character")}`;
    case "maxLength":
      return `must have at most ${counted(params.limit, "character")}`;
    case "minimum":
      return `must be at least ${params.limit}`;
    case "maximum":
      return `must be at most ${params.limit}`;
    case "exclusiveMinimum":
      return `must be more than ${params.limit}`;
    case "exclusiveMaximum":
      return `must be less than ${params.limit}`;
    case "pattern":
      return `must be ${patternWords.get(String(params.pattern)) ?? "in another form"}`;
    default:
      return message;
  }
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

function either(words: readonly string[]): string {
  const different = [...new Set(words)];
  return different.length < 2
    ? (different[0] ?? "")
    : `${different.slice(0, -1).join(", ")} or ${different.at(-1)}`;
}
