/**
 * Filters of an automation: who may enter, and which branch is taken. Pure.
 *
 * A field is `event.name`, `event.properties.<key>...`, `contact.tags`, `contact.properties.<key>...` or
 * another field of the contact. What is absent equals nothing: every test of it fails but `neq` and
 * `exists: false`. Values of different types are never equal and never in order; text is ordered by code
 * units, so that ISO times compare as times.
 *
 * Refuses to see what is inherited: `__proto__` and `constructor` are keys like any other.
 */
export type Scalar = string | number | boolean | null;
export type Value = Scalar | readonly Value[] | { readonly [key: string]: Value };

export const OPERATORS = ["eq", "neq", "in", "contains", "exists", "gt", "gte", "lt", "lte"] as const;
export type Operator = (typeof OPERATORS)[number];

export type Condition = { field: string } & {
  [Name in Operator]?: Name extends "in" ? Scalar[] : Name extends "exists" ? boolean : Scalar;
};
export type Filter = { and: Filter[] } | { or: Filter[] } | { not: Filter } | Condition;

/** A contact as filters and templates see it. */
export type Person = {
  id: string;
  email: string;
  first_name: string | null;
  last_name: string | null;
  status: "pending" | "subscribed" | "unsubscribed";
  tags: readonly string[];
  properties: { readonly [key: string]: Value };
};

/** What happened to the contact. */
export type Happening = { name: string; properties: { readonly [key: string]: Value } };

export const CONTACT_FIELDS = ["id", "email", "first_name", "last_name", "status", "tags"] as const;

export function holdsAll(filters: readonly Filter[], contact: Person, event: Happening): boolean {
  return filters.every((filter) => holds(filter, contact, event));
}

export function holds(filter: Filter, contact: Person, event: Happening): boolean {
  if ("and" in filter) return filter.and.every((one) => holds(one, contact, event));
  if ("or" in filter) return filter.or.some((one) => holds(one, contact, event));
  if ("not" in filter) return !holds(filter.not, contact, event);
  return meets(fieldOf(filter.field, contact, event), filter);
}

function meets(value: Value | undefined, condition: Condition): boolean {
  const operator = OPERATORS.find((name) => condition[name] !== undefined) as Operator;
  const wanted = condition[operator] as Value;
  switch (operator) {
    case "exists":
      return (value !== undefined && value !== null) === wanted;
    case "eq":
      return value === wanted;
    case "neq":
      return value !== wanted;
    case "in":
      return value !== undefined && (wanted as readonly Value[]).includes(value);
    case "contains":
      return contains(value, wanted as Scalar);
    case "gt":
      return inOrder(value, wanted, (a, b) => a > b);
    case "gte":
      return inOrder(value, wanted, (a, b) => a >= b);
    case "lt":
      return inOrder(value, wanted, (a, b) => a < b);
    case "lte":
      return inOrder(value, wanted, (a, b) => a <= b);
  }
}

function contains(value: Value | undefined, wanted: Scalar): boolean {
  if (typeof value === "string") return typeof wanted === "string" && value.includes(wanted);
  return Array.isArray(value) && value.includes(wanted);
}

function inOrder<T extends string | number>(
  value: Value | undefined,
  wanted: Value,
  is: (a: T, b: T) => boolean,
): boolean {
  if (typeof value !== "string" && typeof value !== "number") return false;
  return typeof value === typeof wanted && is(value as T, wanted as T);
}

function fieldOf(field: string, contact: Person, event: Happening): Value | undefined {
  const [subject, first = "", ...path] = field.split(".");
  let value: Value | undefined =
    subject === "event" ? own({ ...event }, first) : own(contact as unknown as Value, first);
  for (const key of path) value = value === undefined ? undefined : own(value, key);
  return value;
}

function own(value: Value, key: string): Value | undefined {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return undefined;
  return Object.hasOwn(value, key) ? (value as { [key: string]: Value })[key] : undefined;
}
