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

/** More than an event or a step may ask for; nothing is known of what is left. */
export class TooMuchCompared extends Error {}

/**
 * Of the filters of all automations with one event, and of those of one step with its contact: some 10 ms,
 * when even 200 automations that search a text of 5,000 characters are below it.
 */
const COMPARING_UNITS_MAX = 5_000_000;

/** What comparing may cost: a unit is about 2 ns. */
export class ComparingBudget {
  readonly #most: number;
  #used = 0;

  constructor(most = COMPARING_UNITS_MAX) {
    this.#most = most;
  }

  get used(): number {
    return this.#used;
  }

  use(units: number): void {
    this.#used += units;
    if (this.#used > this.#most) throw new TooMuchCompared();
  }
}

const CONDITION_UNITS = 50;
const NAME_UNITS = 5;

/** Throws `TooMuchCompared`. */
export function holdsAll(
  filters: readonly Filter[],
  contact: Person,
  event: Happening,
  budget: ComparingBudget,
): boolean {
  return filters.every((filter) => holds(filter, contact, event, budget));
}

function holds(filter: Filter, contact: Person, event: Happening, budget: ComparingBudget): boolean {
  if ("and" in filter) return filter.and.every((one) => holds(one, contact, event, budget));
  if ("or" in filter) return filter.or.some((one) => holds(one, contact, event, budget));
  if ("not" in filter) return !holds(filter.not, contact, event, budget);
  budget.use(CONDITION_UNITS + filter.field.length * NAME_UNITS);
  return meets(fieldOf(filter.field, contact, event), filter, budget);
}

function meets(value: Value | undefined, condition: Condition, budget: ComparingBudget): boolean {
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
      budget.use((wanted as readonly Value[]).length * (1 + charsOf(value)));
      return value !== undefined && (wanted as readonly Value[]).includes(value);
    case "contains":
      return contains(value, wanted as Scalar, budget);
    case "gt":
      return inOrder(value, wanted, budget, (a, b) => a > b);
    case "gte":
      return inOrder(value, wanted, budget, (a, b) => a >= b);
    case "lt":
      return inOrder(value, wanted, budget, (a, b) => a < b);
    case "lte":
      return inOrder(value, wanted, budget, (a, b) => a <= b);
  }
}

function contains(value: Value | undefined, wanted: Scalar, budget: ComparingBudget): boolean {
  if (typeof value === "string") {
    if (typeof wanted !== "string") return false;
    budget.use(4 * value.length + wanted.length);
    return includes(value, wanted);
  }
  if (!Array.isArray(value)) return false;
  budget.use(value.length * (1 + charsOf(wanted)));
  return value.includes(wanted);
}

/** To compare texts costs little, and numbers less. */
function charsOf(value: Value | undefined): number {
  return typeof value === "string" ? value.length / 8 : 0;
}

/** Below this the search of the platform takes some us, whatever the texts. */
const STEPS_AT_WORST_MAX = 10_000;

/**
 * As `text.includes(wanted)`, which may read the text again from each of its characters: a long one that
 * repeats itself takes 1.5 ms. This reads it once (Knuth, Morris and Pratt).
 */
function includes(text: string, wanted: string): boolean {
  if (text.length * wanted.length <= STEPS_AT_WORST_MAX) return text.includes(wanted);
  if (wanted.length > text.length) return false;
  const units = unitsOf(wanted);
  const back = fallbacksOf(units);
  const all = unitsOf(text);
  for (let n = 0, matched = 0; n < all.length; n++) {
    while (matched >= 0 && units[matched] !== all[n]) matched = back[matched] as number;
    if (++matched === units.length) return true;
  }
  return false;
}

function unitsOf(text: string): Uint16Array {
  const units = new Uint16Array(text.length);
  Buffer.from(units.buffer).write(text, "utf16le");
  return units;
}

/** Of each place in `units`, where to go on when what comes differs from it; -1: with what comes next. */
function fallbacksOf(units: Uint16Array): Int32Array {
  const back = new Int32Array(units.length).fill(-1);
  for (let n = 1, matched = 0; n < units.length; n++) {
    back[n] = units[n] === units[matched] ? (back[matched] as number) : matched;
    while (matched >= 0 && units[n] !== units[matched]) matched = back[matched] as number;
    matched++;
  }
  return back;
}

function inOrder<T extends string | number>(
  value: Value | undefined,
  wanted: Value,
  budget: ComparingBudget,
  is: (a: T, b: T) => boolean,
): boolean {
  if (typeof value !== "string" && typeof value !== "number") return false;
  if (typeof value !== typeof wanted) return false;
  // long texts may differ in their last character only
  budget.use(Math.min(charsOf(value), charsOf(wanted)));
  return is(value as T, wanted as T);
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
