/**
 * Finds unknown fields of a request that look like a known one with a letter or two wrong, for the `warnings`
 * of the answer. They are ignored like every unknown field. The cost is bounded: each name is compared once,
 * and a request has a limit.
 */
import Type, { type TSchema } from "typebox";
import { nearestOf } from "../rules/spelling.ts";
import type { Json } from "./json.ts";

export type Warning = { path: string; message: string };

export const Warnings = Type.Optional(
  Type.Array(Type.Object({ path: Type.String(), message: Type.String() }), {
    description: "fields that are not known and look misspelt; they were ignored",
  }),
);

const WARNINGS_MAX = 10;
const COMPARED_MAX = 200;
/** Other names are not compared, and an answer does not repeat them. */
const NAME = /^[\w-]{1,24}$/;
/** Of a name that the caller made; nothing is said of what stands below a longer one. */
const OWN_NAME_CHARS_MAX = 100;

type FieldSchema = {
  properties?: Record<string, TSchema>;
  items?: TSchema & FieldSchema;
  /** Of a record: all names are the caller's own. */
  patternProperties?: Record<string, TSchema & FieldSchema>;
  anyOf?: (TSchema & FieldSchema)[];
};

/** Finds the known name that each unknown one was probably meant to be. */
export class Spelling {
  readonly #known: readonly string[];
  readonly #refused: readonly string[];
  readonly #nearest = new Map<string, string | null>();

  /** `refused` are known, and nobody is advised to use them. */
  constructor(known: readonly string[], refused: readonly string[] = []) {
    this.#known = known;
    this.#refused = refused;
  }

  isKnown(name: string): boolean {
    return this.#known.includes(name) || this.#refused.includes(name);
  }

  /** null: it is like none of them. */
  nearest(name: string): string | null {
    if (!NAME.test(name)) return null;
    const before = this.#nearest.get(name);
    if (before !== undefined) return before;
    if (this.#nearest.size >= COMPARED_MAX) return null;
    const found = nearestOf(name, this.#known);
    this.#nearest.set(name, found);
    return found;
  }
}

/** Of one request. */
export class Misspelt {
  readonly warnings: Warning[] = [];
  readonly #refused: readonly string[];
  readonly #spellings = new Map<object, Spelling>();

  /** Those fields are read besides the ones that the schema names, only to refuse them. */
  constructor(refused: readonly string[]) {
    this.#refused = refused;
  }

  /** `at` stands before the path of every field: `[3].`, or nothing. */
  look(value: Json | undefined, schema: TSchema, at: string): void {
    const { properties, items, patternProperties } = formOf(schema, Array.isArray(value));
    if (Array.isArray(value)) {
      if (items?.properties)
        for (const [n, item] of value.entries()) this.look(item, items, `${at.slice(0, -1)}[${n}].`);
      return;
    }
    if (value === null || typeof value !== "object") return;
    for (const each of Object.values(patternProperties ?? {}))
      if (each.properties)
        for (const name in value)
          if (name.length <= OWN_NAME_CHARS_MAX) this.look(value[name], each, `${at}${name}.`);
    if (!properties) return;
    for (const name in value) {
      if (this.warnings.length >= WARNINGS_MAX) return;
      const below = Object.hasOwn(properties, name) ? properties[name] : undefined;
      if (below && typeof value[name] === "object") this.look(value[name], below, `${at}${name}.`);
      else if (!below) this.#spell(name, this.#spellingOf(properties), at);
    }
  }

  #spell(name: string, spelling: Spelling, at: string): void {
    const meant = spelling.isKnown(name) ? null : spelling.nearest(name);
    if (meant === null) return;
    const message = `The \`${at}${name}\` field is not known and is ignored. Did you mean \`${meant}\`?`;
    this.warnings.push({ path: `${at}${name}`, message });
  }

  #spellingOf(properties: Record<string, TSchema>): Spelling {
    const known = this.#spellings.get(properties);
    if (known) return known;
    const spelling = new Spelling(Object.keys(properties), this.#refused);
    this.#spellings.set(properties, spelling);
    return spelling;
  }
}

/** Of alternatives the one for an array, or for an object: no field has two of them. */
function formOf(schema: FieldSchema & TSchema, isArray: boolean): FieldSchema {
  return (
    schema.anyOf?.find((one) => (isArray ? one.items : (one.properties ?? one.patternProperties))) ?? schema
  );
}
