/**
 * Automations as the official client writes them, steps with keys and connections between them, and as this
 * engine keeps them, a tree of steps. Where two branches meet again, what follows is in both. What the engine
 * has no step for is refused with its place.
 */
import type { Json } from "./json.ts";
import { type Refusal, refuse } from "./problem.ts";

type StepFields = { [name: string]: Json };
export type GraphStep = { key: string; type: string; config: StepFields };
export type GraphConnection = { from: string; to: string; type: string };
export type Graph = { steps: GraphStep[]; connections: GraphConnection[] };

const STEPS_MAX = 150;
const DURATION = /^(\d{1,9}) *(s|m|h|d|w|seconds?|minutes?|mins?|hours?|days?|weeks?)$/i;
const SAME_OPERATORS = ["eq", "neq", "gt", "gte", "lt", "lte", "contains"];
const CONTACT_FIELDS = ["id", "email", "first_name", "last_name", "status", "tags"];

/** The event that starts it and the steps of the document. */
export function documentOf({ steps, connections }: Graph): { event: string; steps: Json[] } {
  const byKey = new Map(steps.map((step, n) => [step.key, { step, at: `steps[${n}]` }]));
  if (byKey.size < steps.length) throw wrong("steps", "must have a different `key` each");
  const unknown = connections.findIndex(({ from, to }) => !byKey.has(from) || !byKey.has(to));
  if (unknown >= 0) throw wrong(`connections[${unknown}]`, "must lead from one of the steps to another");
  const trigger = steps.filter(({ type }) => type === "trigger");
  if (trigger.length !== 1) throw wrong("steps", "must have exactly one of the type `trigger`");
  const next = (key: string, type: string) =>
    connections.find((one) => one.from === key && one.type === type)?.to ?? null;
  let left = STEPS_MAX;
  /** Read once, however many branches reach them. */
  const read = new Map<string, Json>();
  const onceRead = (key: string, how: () => Json): Json => {
    const known = read.get(key) ?? how();
    read.set(key, known);
    return known;
  };

  const follow = (key: string | null, above: readonly string[]): Json[] => {
    if (key === null) return [];
    if (above.includes(key)) throw wrong("connections", `must not lead back to \`${key}\``);
    if (--left < 0)
      throw wrong(
        "steps",
        `must have at most ${STEPS_MAX} steps; a step that several branches reach counts once for each`,
      );
    const { step, at } = byKey.get(key) as { step: GraphStep; at: string };
    const below = [...above, key];
    if (step.type !== "condition")
      return [onceRead(key, () => stepOf(step, at)), ...follow(next(key, "default"), below)];
    const [met, otherwise] = ["condition_met", "condition_not_met"].map((type) =>
      follow(next(key, type), below),
    );
    const split = [
      // biome-ignore lint/suspicious/noThenProperty: the word of the document
      { if: [onceRead(key, () => filterOf(step.config, `${at}.config`))], then: met ?? [] },
      ...(otherwise && otherwise.length > 0 ? [{ else: otherwise }] : []),
    ];
    return [{ split }];
  };
  const [first] = trigger as [GraphStep];
  const event = first.config.event_name;
  if (typeof event !== "string")
    throw wrong(`${byKey.get(first.key)?.at}.config.event_name`, "must be a string");
  const document = { event, steps: follow(next(first.key, "default"), [first.key]) };
  refuseWhatIsNotFollowed({ steps, connections }, byKey, read);
  return document;
}

const CONDITION_TYPES = ["condition_met", "condition_not_met"];
const OTHER_TYPES = ["default"];

/** A branch or step that the document would lack is refused, not dropped. */
function refuseWhatIsNotFollowed(
  { steps, connections }: Graph,
  byKey: ReadonlyMap<string, { step: GraphStep }>,
  reached: ReadonlyMap<string, Json>,
): void {
  const taken = new Set<string>();
  for (const [n, { from, type }] of connections.entries()) {
    const types = byKey.get(from)?.step.type === "condition" ? CONDITION_TYPES : OTHER_TYPES;
    if (!types.includes(type))
      throw wrong(`connections[${n}].type`, `must be ${types.join(" or ")}: it leaves the step \`${from}\``);
    const way = JSON.stringify([from, type]);
    if (taken.has(way))
      throw wrong(`connections[${n}]`, `must be the only one of its type that leaves the step \`${from}\``);
    taken.add(way);
  }
  const loose = steps.findIndex(({ key, type }) => type !== "trigger" && !reached.has(key));
  if (loose >= 0) throw wrong(`steps[${loose}]`, "must be connected: no way leads to it from the trigger");
}

function stepOf({ type, config }: GraphStep, at: string): Json {
  switch (type) {
    case "delay":
      return { wait: spanOf(config.duration, `${at}.config.duration`) };
    case "send_email":
      return { send: sendOf(config, `${at}.config`) };
    case "trigger":
      throw wrong(at, "cannot come after another step");
    default:
      throw wrong(`${at}.type`, `cannot be \`${type.slice(0, 50)}\`: this engine has no such step`);
  }
}

function spanOf(duration: Json | undefined, at: string): string {
  const found = typeof duration === "string" ? DURATION.exec(duration.trim()) : null;
  if (!found) throw wrong(at, 'must be a duration, such as "30 minutes" or "2h"');
  return `${found[1]}${(found[2] as string)[0]?.toLowerCase()}`;
}

function sendOf({ template, subject, from, reply_to }: StepFields, at: string): Json {
  const { id, variables } = isFields(template) ? template : {};
  if (typeof id !== "string") throw wrong(`${at}.template.id`, "must be the id of a template");
  if (isFields(variables) && Object.keys(variables).length > 0)
    throw wrong(
      `${at}.template.variables`,
      "must be empty: a template gets the properties of contact and event",
    );
  return {
    template: id,
    ...(subject != null && { subject }),
    ...(from != null && { from }),
    ...(reply_to != null && { reply_to }),
  };
}

function filterOf(rule: Json | undefined, at: string): Json {
  if (!isFields(rule)) throw wrong(at, "must be a rule");
  const { type, rules, field, operator, value } = rule;
  if (type === "and" || type === "or") {
    if (!Array.isArray(rules)) throw wrong(`${at}.rules`, "must be a list of rules");
    return { [type]: rules.map((one, n) => filterOf(one, `${at}.rules[${n}]`)) };
  }
  if (typeof field !== "string") throw wrong(`${at}.field`, "must be a string");
  const name = fieldOf(field);
  if (operator === "exists" || operator === "is_empty") return { field: name, exists: operator === "exists" };
  if (typeof operator !== "string" || !SAME_OPERATORS.includes(operator))
    throw wrong(`${at}.operator`, `must be one of ${SAME_OPERATORS.join(", ")}, exists and is_empty`);
  return { field: name, [operator]: value ?? null };
}

/** `event.plan` is a property of the event; what is no field of a contact is a property of it. */
function fieldOf(field: string): string {
  const [subject, ...rest] = field.split(".");
  const name = rest.join(".");
  if (name.startsWith("properties.")) return field;
  if (subject === "event" && name !== "name") return `event.properties.${name}`;
  if (subject === "contact" && !CONTACT_FIELDS.includes(name)) return `contact.properties.${name}`;
  return field;
}

/** The steps of a document with keys made of their places, and how they follow each other. */
export function graphOf(document: { event: string; steps: readonly Json[] }): Graph {
  const graph: Graph = { steps: [], connections: [] };
  graph.steps.push({ key: "trigger", type: "trigger", config: { event_name: document.event } });
  addSteps(graph, document.steps, "steps", [{ from: "trigger", type: "default" }]);
  return graph;
}

type LooseEnd = { from: string; type: string };

/** Hands back what leads on to whatever follows. */
function addSteps(graph: Graph, steps: readonly Json[], at: string, before: readonly LooseEnd[]): LooseEnd[] {
  let open = [...before];
  for (const [n, step] of steps.entries()) {
    const key = `${at}[${n}]`;
    const [[kind, value] = ["", null]] = Object.entries(isFields(step) ? step : {});
    graph.steps.push({ key, ...shown(kind, value) });
    for (const { from, type } of open) graph.connections.push({ from, to: key, type });
    open = kind === "split" ? addBranches(graph, value, key) : [{ from: key, type: "default" }];
  }
  return open;
}

function addBranches(graph: Graph, value: Json, key: string): LooseEnd[] {
  if (!Array.isArray(value)) {
    const { percent, ...branches } = isFields(value) ? value : {};
    return Object.entries(branches).flatMap(([label, steps]) =>
      addSteps(graph, Array.isArray(steps) ? steps : [], `${key}.${label}`, [{ from: key, type: label }]),
    );
  }
  const open = value.flatMap((branch, n): LooseEnd[] => {
    const { then, else: otherwise } = isFields(branch) ? branch : {};
    const type =
      otherwise === undefined ? (n === 0 ? "condition_met" : `condition_met_${n}`) : "condition_not_met";
    const steps = otherwise ?? then;
    return addSteps(graph, Array.isArray(steps) ? steps : [], `${key}[${n}]`, [{ from: key, type }]);
  });
  const hasElse = value.some((branch) => isFields(branch) && branch.else !== undefined);
  return hasElse ? open : [...open, { from: key, type: "condition_not_met" }];
}

function shown(kind: string, value: Json): { type: string; config: StepFields } {
  if (kind === "wait")
    return { type: "delay", config: typeof value === "string" ? { duration: value } : fields(value) };
  if (kind === "send") {
    const { template, ...rest } = fields(value);
    return {
      type: "send_email",
      config: { ...rest, ...(template !== undefined && { template: { id: template } }) },
    };
  }
  if (kind === "split" && Array.isArray(value))
    return { type: "condition", config: { branches: value.length } };
  if (kind === "split") return { type: "split", config: { percent: fields(value).percent ?? null } };
  return { type: kind, config: fields(value) };
}

function fields(value: Json): StepFields {
  return isFields(value) ? value : {};
}

function isFields(value: Json | undefined): value is StepFields {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function wrong(path: string, says: string): Refusal {
  return refuse("validation_error", `The \`${path}\` field ${says}.`);
}
