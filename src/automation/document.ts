/**
 * The document of an automation: who enters it, and the steps a run takes. Checked level by level, each by a
 * schema of its own, so that what is wrong is said with its path: `steps[2].split[0].then[1].wait`.
 *
 * Refuses fields it does not know, since a misspelt `filters` would let everybody in.
 */

import Type, { type Static, type TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { hasDirectionMark, headerValueOk, parseMailbox, reordersText } from "../address.ts";
import { DAY_MS } from "../clock.ts";
import { isOneOf } from "../names.ts";
import { EVENT_NAME, EVENT_NAME_WORDS } from "../rules/eventname.ts";
import { CONTACT_FIELDS, type Filter, OPERATORS, type Operator } from "../rules/filters.ts";
import { isJsonbOver } from "../rules/jsonb.ts";
import { isTimeZone, momentKind, parseSpan } from "../rules/spans.ts";
import { errorsIn, faultWords, patterned, type SchemaError } from "../schemafault.ts";

const DOCUMENT_BYTES_MAX = 512 * 1024;
/** Of one object, of which none here knows a tenth. To look through 40,000 takes 50 ms. */
const FIELDS_MAX = 1_000;
/** Read with every event of the name. */
const FILTERS_BYTES_MAX = 32 * 1024;
export const STEPS_MAX = 150;
const STEP_DEPTH_MAX = 10;
const FILTER_DEPTH_MAX = 10;
const CONDITIONS_MAX = 200;
const BRANCHES_MAX = 20;
export const TAGS_MAX = 50;
export const RUN_AGE_DAYS_MAX = 365;

const RUN_AGE_MS_MAX = RUN_AGE_DAYS_MAX * DAY_MS;
const UUID = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$";
const FIELD =
  /^(event\.name|event\.properties(\.[^.]{1,100})+|contact\.properties(\.[^.]{1,100})+|contact\.[a-z_]+)$/;

export type EntryRule = "once" | "one_active" | "every" | { cooldown: string };
export type Wait = string | { until: string; timezone?: string };
export type SendStep = {
  template?: string;
  from?: string;
  subject?: string;
  reply_to?: string[];
  html?: string;
  text?: string;
};
export type TagChange = { add: string[]; remove: string[] };
/** Filters of null hold for everybody: the branch for the rest. */
export type Branch = { label: string; filters: Filter[] | null; steps: AutomationStep[] };
export type Share = { label: string; percent: number; steps: AutomationStep[] };
export type AutomationStep =
  | { kind: "wait"; wait: Wait }
  | { kind: "send"; send: SendStep }
  | { kind: "tag"; tag: TagChange }
  | { kind: "split"; branches: Branch[] }
  | { kind: "share"; branches: Share[] };

export type Automation = {
  name: string;
  audience_id: string;
  event: string;
  entry: EntryRule;
  filters: Filter[];
  steps: AutomationStep[];
};

/** What is wrong with a document, in words that begin with the path. */
export class DocumentError extends Error {}

const strict = { additionalProperties: false } as const;
const Anything = Type.Unknown();
const TagName = Type.String({ minLength: 1, maxLength: 100 });
const TagNames = Type.Optional(Type.Array(TagName, { maxItems: TAGS_MAX }));
const ScalarValue = Type.Union([
  Type.String({ maxLength: 1_000 }),
  Type.Number(),
  Type.Boolean(),
  Type.Null(),
]);

const checkHead = level(
  Type.Object(
    {
      name: Type.String({ minLength: 1, maxLength: 200 }),
      audience_id: patterned(UUID, "a UUID"),
      event: patterned(EVENT_NAME, EVENT_NAME_WORDS),
      entry: Anything,
      filters: Type.Optional(Anything),
      steps: Anything,
    },
    strict,
  ),
);
const checkCooldown = level(Type.Object({ cooldown: Type.String() }, strict));
const checkUntil = level(
  Type.Object({ until: Type.String(), timezone: Type.Optional(Type.String({ maxLength: 100 })) }, strict),
);
const checkSendShape = level(
  Type.Object(
    {
      template: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
      from: Type.Optional(Type.String()),
      subject: Type.Optional(Type.String({ minLength: 1, maxLength: 998 })),
      reply_to: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 10 })])),
      html: Type.Optional(Type.String()),
      text: Type.Optional(Type.String()),
    },
    strict,
  ),
);
const checkTagShape = level(Type.Object({ add: TagNames, remove: TagNames }, strict));
const checkConditionShape = level(
  Type.Object(
    {
      field: Type.String({ maxLength: 1_000 }),
      eq: Type.Optional(ScalarValue),
      neq: Type.Optional(ScalarValue),
      in: Type.Optional(Type.Array(ScalarValue, { minItems: 1, maxItems: 100 })),
      contains: Type.Optional(ScalarValue),
      exists: Type.Optional(Type.Boolean()),
      gt: Type.Optional(Type.Union([Type.Number(), Type.String()])),
      gte: Type.Optional(Type.Union([Type.Number(), Type.String()])),
      lt: Type.Optional(Type.Union([Type.Number(), Type.String()])),
      lte: Type.Optional(Type.Union([Type.Number(), Type.String()])),
    },
    strict,
  ),
);

/** The document as it is used, or a DocumentError. */
export function checkDocument(json: unknown): Automation {
  // counted up to there: what branches repeat may be a hundred times as long
  if (isJsonbOver(json, DOCUMENT_BYTES_MAX, FIELDS_MAX))
    throw new DocumentError(
      `The document has more than ${DOCUMENT_BYTES_MAX} bytes as JSON, or an object of more than ${FIELDS_MAX} fields.`,
    );
  const head = checkHead(json, "");
  if (isJsonbOver(head.filters, FILTERS_BYTES_MAX))
    throw new DocumentError(`\`filters\` must have at most ${FILTERS_BYTES_MAX} bytes as JSON.`);
  const budget = { steps: STEPS_MAX, conditions: CONDITIONS_MAX };
  return {
    name: head.name,
    audience_id: head.audience_id.toLowerCase(),
    event: head.event,
    entry: checkEntry(head.entry),
    filters: head.filters === undefined ? [] : checkFilters(head.filters, "filters", budget),
    steps: checkSteps(head.steps, "steps", 1, budget),
  };
}

/** What may still be used of the limits that hold for the document as a whole. */
type Budget = { steps: number; conditions: number };

function checkEntry(json: unknown): EntryRule {
  if (json === "once" || json === "one_active" || json === "every") return json;
  if (typeof json !== "object")
    throw new DocumentError('`entry` must be "once", "one_active", "every" or {"cooldown": "7d"}.');
  const { cooldown } = checkCooldown(json, "entry");
  span(cooldown, "entry.cooldown");
  return { cooldown };
}

function checkSteps(json: unknown, path: string, depth: number, budget: Budget): AutomationStep[] {
  const steps = list(json, path);
  if (depth > STEP_DEPTH_MAX)
    throw new DocumentError(`\`${path}\` is nested deeper than ${STEP_DEPTH_MAX} levels of steps.`);
  return steps.map((step, n) => {
    if (--budget.steps < 0)
      throw new DocumentError(`\`${path}[${n}]\` is more than ${STEPS_MAX} steps in all.`);
    return checkStep(step, `${path}[${n}]`, depth, budget);
  });
}

function checkStep(json: unknown, path: string, depth: number, budget: Budget): AutomationStep {
  const [kind, value] = only(json, path, ["wait", "send", "tag", "split"]);
  const at = `${path}.${kind}`;
  switch (kind) {
    case "wait":
      return { kind, wait: checkWait(value, at) };
    case "send":
      return { kind, send: checkSend(value, at) };
    case "tag":
      return { kind, tag: checkTag(value, at) };
    case "split":
      return Array.isArray(value)
        ? { kind, branches: checkBranches(value, at, depth, budget) }
        : { kind: "share", branches: checkShares(value, at, depth, budget) };
  }
}

function checkWait(json: unknown, path: string): Wait {
  if (typeof json === "string") {
    span(json, path);
    return json;
  }
  const { until, timezone } = checkUntil(json, path);
  const kind = momentKind(until);
  if (kind === null)
    throw new DocumentError(`\`${path}.until\` must be an ISO time, or a time of day like "09:00".`);
  if (kind === "local time" && timezone === undefined)
    throw new DocumentError(`\`${path}.until\` must have an offset, or a \`timezone\` beside it.`);
  if (timezone !== undefined && !isTimeZone(timezone))
    throw new DocumentError(`\`${path}.timezone\` must be the name of a time zone, such as "Europe/Berlin".`);
  return timezone === undefined ? { until } : { until, timezone };
}

function checkSend(json: unknown, path: string): SendStep {
  const { reply_to, ...shape } = checkSendShape(json, path);
  const { template, from, subject, html, text } = shape;
  const hasBody = html !== undefined || text !== undefined;
  if (template === undefined && !hasBody)
    throw new DocumentError(`\`${path}\` must have a \`template\`, or \`html\` or \`text\`.`);
  if (template !== undefined && hasBody)
    throw new DocumentError(`\`${path}\` must have either a \`template\` or a body of its own.`);
  if (template === undefined && from === undefined) throw new DocumentError(`\`${path}.from\` is missing.`);
  if (template === undefined && subject === undefined)
    throw new DocumentError(`\`${path}.subject\` is missing.`);
  if (from !== undefined && !parseMailbox(from))
    throw new DocumentError(`\`${path}.from\` must be \`a@x.com\` or \`Name <a@x.com>\`.`);
  if (subject !== undefined && !headerValueOk(subject))
    throw new DocumentError(`\`${path}.subject\` must not contain line breaks or control characters.`);
  const replyTo = typeof reply_to === "string" ? [reply_to] : reply_to;
  if (replyTo?.some((address) => !parseMailbox(address)))
    throw new DocumentError(`\`${path}.reply_to\` must name addresses.`);
  if ([from ?? "", ...(replyTo ?? [])].some(hasDirectionMark) || reordersText(subject ?? ""))
    throw new DocumentError(
      `\`${path}\` must not have characters that change the direction of text, such as U+202E, in from, reply_to or subject.`,
    );
  return { ...shape, ...(replyTo && { reply_to: replyTo }) };
}

function checkTag(json: unknown, path: string): TagChange {
  const { add = [], remove = [] } = checkTagShape(json, path);
  if (add.length + remove.length === 0) throw new DocumentError(`\`${path}\` must add or remove a tag.`);
  const both = add.find((tag) => remove.includes(tag));
  if (both !== undefined) throw new DocumentError(`\`${path}\` adds and removes the tag \`${both}\`.`);
  return { add, remove };
}

function checkBranches(json: readonly unknown[], path: string, depth: number, budget: Budget): Branch[] {
  if (json.length === 0 || json.length > BRANCHES_MAX)
    throw new DocumentError(`\`${path}\` must have 1 to ${BRANCHES_MAX} branches.`);
  return json.map((branch, n) => {
    const at = `${path}[${n}]`;
    const fields = record(branch, at);
    const names = Object.keys(fields).sort().join(" ");
    if (names === "else") {
      if (n < json.length - 1) throw new DocumentError(`\`${at}.else\` must be the last branch.`);
      const steps = checkSteps(fields.else, `${at}.else`, depth + 1, budget);
      return { label: String(n), filters: null, steps };
    }
    if (names !== "if then")
      throw new DocumentError(`\`${at}\` must have \`if\` and \`then\`, or only \`else\`.`);
    return {
      label: String(n),
      filters: checkFilters(fields.if, `${at}.if`, budget),
      steps: checkSteps(fields.then, `${at}.then`, depth + 1, budget),
    };
  });
}

function checkShares(json: unknown, path: string, depth: number, budget: Budget): Share[] {
  const { percent, ...branches } = record(json, path);
  const shares = Object.entries(record(percent, `${path}.percent`));
  if (shares.length === 0 || shares.length > BRANCHES_MAX)
    throw new DocumentError(`\`${path}.percent\` must name 1 to ${BRANCHES_MAX} branches.`);
  let sum = 0;
  const checked = shares.map(([label, share]): Share => {
    if (!/^[A-Za-z0-9_-]{1,50}$/.test(label) || label === "percent" || label === "__proto__")
      throw new DocumentError(`\`${path}.percent\`: \`${label}\` is not a name for a branch.`);
    if (typeof share !== "number" || share < 0 || share > 100)
      throw new DocumentError(`\`${path}.percent.${label}\` must be a number from 0 to 100.`);
    if (!Object.hasOwn(branches, label)) throw new DocumentError(`\`${path}.${label}\` is missing.`);
    sum += share;
    return {
      label,
      percent: share,
      steps: checkSteps(branches[label], `${path}.${label}`, depth + 1, budget),
    };
  });
  if (Math.abs(sum - 100) > 0.001)
    throw new DocumentError(`\`${path}.percent\` must add up to 100, not ${sum}.`);
  const unknown = Object.keys(branches).find((name) => !checked.some(({ label }) => label === name));
  if (unknown !== undefined) throw new DocumentError(`\`${path}.${unknown}\` has no share in \`percent\`.`);
  return checked;
}

/** A list of filters, all of which must hold; one alone needs no list. */
function checkFilters(json: unknown, path: string, budget: Budget): Filter[] {
  if (Array.isArray(json)) return json.map((one, n) => checkFilter(one, `${path}[${n}]`, 1, budget));
  return [checkFilter(json, path, 1, budget)];
}

function checkFilter(json: unknown, path: string, depth: number, budget: Budget): Filter {
  if (depth > FILTER_DEPTH_MAX)
    throw new DocumentError(`\`${path}\` is nested deeper than ${FILTER_DEPTH_MAX} levels of filters.`);
  if (--budget.conditions < 0)
    throw new DocumentError(`\`${path}\` is more than ${CONDITIONS_MAX} filters in all.`);
  const fields = record(json, path);
  const inside = (name: string) =>
    list(fields[name], `${path}.${name}`).map((one, n) =>
      checkFilter(one, `${path}.${name}[${n}]`, depth + 1, budget),
    );
  if ("and" in fields || "or" in fields || "not" in fields) {
    const [name] = only(json, path, ["and", "or", "not"]);
    if (name === "and") return { and: inside("and") };
    if (name === "or") return { or: inside("or") };
    return { not: checkFilter(fields.not, `${path}.not`, depth + 1, budget) };
  }
  return checkCondition(json, path);
}

function checkCondition(json: unknown, path: string): Filter {
  const condition = checkConditionShape(json, path);
  const { field } = condition;
  const isKnown =
    FIELD.test(field) &&
    (!field.startsWith("contact.") ||
      field.startsWith("contact.properties.") ||
      isOneOf(CONTACT_FIELDS, field.slice("contact.".length)));
  if (!isKnown)
    throw new DocumentError(
      `\`${path}.field\` must be event.name, event.properties.<key>, contact.properties.<key> or one of ${CONTACT_FIELDS.map((name) => `contact.${name}`).join(", ")}.`,
    );
  const operators = OPERATORS.filter((name: Operator) => condition[name] !== undefined);
  if (operators.length !== 1)
    throw new DocumentError(`\`${path}\` must have exactly one of ${OPERATORS.join(", ")}.`);
  return condition as Filter;
}

function span(text: string, path: string): number {
  const ms = parseSpan(text);
  if (ms === null) throw new DocumentError(`\`${path}\` must be a span like "30m", "2h" or "7d".`);
  if (ms > RUN_AGE_MS_MAX) throw new DocumentError(`\`${path}\` must be at most ${RUN_AGE_DAYS_MAX} days.`);
  return ms;
}

function list(json: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(json)) throw new DocumentError(`\`${path}\` must be a list.`);
  return json;
}

function record(json: unknown, path: string): Record<string, unknown> {
  if (json === null || typeof json !== "object" || Array.isArray(json))
    throw new DocumentError(`\`${path}\` must be an object.`);
  return json as Record<string, unknown>;
}

/** The one field of an object that must have exactly one, of these names. */
function only<Name extends string>(json: unknown, path: string, names: readonly Name[]): [Name, unknown] {
  const fields = Object.entries(record(json, path));
  const [name, value] = fields[0] ?? ["", undefined];
  if (fields.length !== 1 || !isOneOf(names, name))
    throw new DocumentError(`\`${path}\` must have exactly one of ${names.join(", ")}.`);
  return [name, value];
}

function level<S extends TSchema>(schema: S): (json: unknown, path: string) => Static<S> {
  const compiled = Compile(schema);
  return (json, path) => {
    if (compiled.Check(json)) return json as Static<S>;
    throw new DocumentError(explain(errorsIn(compiled, json), path, schema));
  };
}

function explain(errors: readonly SchemaError[], path: string, schema: TSchema): string {
  // beside what it says of a field that is not known, the schema says the same of its object
  const first = errors.find(({ keyword }) => keyword === "additionalProperties") ?? errors[0];
  const below = (first?.instancePath ?? "").split("/").slice(1);
  const names = [path, ...below.map((name) => (/^\d+$/.test(name) ? `[${name}]` : `.${name}`))].join("");
  const at = names.replace(/^\./, "");
  const subject = at === "" ? "The document" : `\`${at}\``;
  if (first?.keyword === "required") {
    const missing = first.params.requiredProperties[0];
    return `\`${at === "" ? missing : `${at}.${missing}`}\` is missing.`;
  }
  if (first?.keyword === "additionalProperties")
    return `${subject} has a field that is not known: ${first.params.additionalProperties.join(", ")}.`;
  const ofValue = errors.filter(({ instancePath }) => instancePath === first?.instancePath);
  return `${subject} ${faultWords(ofValue, schema)}.`;
}
