/**
 * Unknown fields are ignored everywhere. Where one looks like a known field with a letter or two wrong, the
 * answer of whatever is written says so: an audience with a misspelt `double_opt_in` would have none.
 */
import Type, { type TObject, type TProperties, type TSchema } from "typebox";
import type { Form } from "./form.ts";
import { type Json, parseJson } from "./json.ts";
import { Misspelt, Warnings } from "./misspelt.ts";
import type { Route } from "./routes.ts";

type Answered = { properties?: TProperties; anyOf?: TSchema[]; $id?: string };

/** Each answer has one schema with warnings, however many routes give it; null: it has none. */
const extended = new WeakMap<TSchema, TSchema | null>();

/** As it is when it takes no fields, or says of itself what it ignores. */
export function withWarnings(route: Route): Route {
  const { request, answer, alsoReads = [], formJson, handle } = route;
  const warned = request && answer ? extendedBy(answer) : null;
  if (!request || warned === null) return route;
  return {
    ...route,
    answer: warned,
    async handle(call) {
      const given = await handle(call);
      const misspelt = new Misspelt(alsoReads);
      misspelt.look(call.form ? namesOf(call.form) : call.body, request, "");
      if (call.form && formJson) lookThrough(call.form, formJson, misspelt);
      if (misspelt.warnings.length === 0 || typeof given.body !== "string") return given;
      return { ...given, body: JSON.stringify({ ...JSON.parse(given.body), warnings: misspelt.warnings }) };
    },
  };
}

/** The parts of a form are its fields. */
function namesOf(form: Form): Json {
  return Object.fromEntries([...form.keys()].map((name) => [name, null]));
}

function lookThrough(form: Form, { properties }: TObject, misspelt: Misspelt): void {
  for (const [name, schema] of Object.entries(properties)) {
    const read = parseJson(form.get(name) ?? Buffer.of());
    if (read.kind === "json") misspelt.look(read.value, schema, `${name}.`);
  }
}

function extendedBy(answer: TSchema): TSchema | null {
  const known = extended.get(answer);
  if (known !== undefined) return known;
  const schema = extend(answer);
  extended.set(answer, schema);
  return schema;
}

function extend(answer: TSchema): TSchema | null {
  const { properties, anyOf, $id } = answer as Answered;
  if (anyOf) {
    const each = anyOf.map(extendedBy).filter((one) => one !== null);
    return each.length === anyOf.length ? Type.Union(each) : null;
  }
  if (!properties || "warnings" in properties) return null;
  const named = $id !== undefined && { $id: `Written${$id}` };
  return Type.Object({ ...properties, warnings: Warnings }, { additionalProperties: false, ...named });
}
