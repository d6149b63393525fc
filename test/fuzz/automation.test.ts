/**
 * Random documents, walked step by step as runs are, against an interpreter that simply calls itself for each
 * branch; and random filters against one that reads the path with plain property access.
 */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { moveFrom, type RunState, START } from "../../src/automation/advance.ts";
import { checkDocument } from "../../src/automation/document.ts";
import { ComparingBudget } from "../../src/rules/filters.ts";

const DOCUMENTS = 3_000;
/** Written so, since an object literal with this name looks like a promise to the linter. */
const THEN = "then";
const NOW = Date.UTC(2026, 10, 20, 12);
const ID = "01890000-0000-7000-8000-000000000000";

/** mulberry32: the same documents for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}
type Random = ReturnType<typeof randomOf>;
type Doc = Record<string, unknown>;

const VALUES = [null, true, false, 0, 1, 2.5, "", "a", "ab", "b"];
const FIELDS = [
  "event.name",
  "event.properties.x",
  "event.properties.deep.y",
  "event.properties.__proto__",
  "contact.email",
  "contact.first_name",
  "contact.status",
  "contact.tags",
  "contact.properties.x",
  "contact.properties.list",
  "contact.properties.constructor",
];
const pick = <T>(random: Random, some: readonly T[]): T => some[random(some.length)] as T;
const many = <T>(random: Random, most: number, make: () => T): T[] =>
  Array.from({ length: random(most + 1) }, make);

function someFilter(random: Random, depth: number): Doc {
  const kind = depth > 3 ? 9 : random(10);
  if (kind === 0) return { and: many(random, 3, () => someFilter(random, depth + 1)) };
  if (kind === 1) return { or: many(random, 3, () => someFilter(random, depth + 1)) };
  if (kind === 2) return { not: someFilter(random, depth + 1) };
  const field = pick(random, FIELDS);
  const operator = pick(random, ["eq", "neq", "in", "contains", "exists", "gt", "gte", "lt", "lte"]);
  if (operator === "in") return { field, in: [pick(random, VALUES), pick(random, VALUES)] };
  if (operator === "exists") return { field, exists: random(2) === 0 };
  if (/^[gl]t/.test(operator)) return { field, [operator]: pick(random, [0, 1, 2, "a", "b"]) };
  return { field, [operator]: pick(random, VALUES) };
}

function someSteps(random: Random, depth: number, least = 0): Doc[] {
  const steps = many(random, 3, () => someStep(random, depth));
  return steps.length < least ? [...steps, someStep(random, depth)] : steps;
}

function someStep(random: Random, depth: number): Doc {
  const kind = random(depth > 3 ? 3 : 5);
  if (kind === 0) return { wait: pick(random, ["1s", "5m", "2h", "7d"]) };
  if (kind === 1) return { send: { from: "a@example.com", subject: `s${random(1_000)}`, text: "t" } };
  if (kind === 2) return { tag: { add: [`t${random(5)}`] } };
  if (kind === 3) {
    const branches: Doc[] = Array.from({ length: 1 + random(3) }, () => {
      const [filter, steps] = [someFilter(random, 0), someSteps(random, depth + 1)];
      return { if: filter, [THEN]: steps };
    });
    if (random(2) === 0) branches.push({ else: someSteps(random, depth + 1) });
    return { split: branches };
  }
  const share = random(101);
  return {
    split: {
      percent: { a: share, b: 100 - share },
      a: someSteps(random, depth + 1),
      b: someSteps(random, depth + 1),
    },
  };
}

function someTraveller(random: Random): RunState {
  const value = () => pick(random, VALUES);
  return {
    automationId: ID,
    startedAt: NOW,
    contact: {
      id: `01890000-0000-7000-8000-${String(random(1e6)).padStart(12, "0")}`,
      email: pick(random, ["a@example.com", "b@example.com"]),
      first_name: pick(random, [null, "a", "b"]),
      last_name: null,
      status: "subscribed",
      tags: pick(random, [[], ["a"], ["a", "b"]]),
      properties: { x: value(), list: pick(random, [["a"], [1], []]) },
      isArchived: false,
    },
    event: { name: pick(random, ["a", "b"]), properties: { x: value(), deep: { y: value() } } },
  };
}

// The plain interpreter.

function read(field: string, { contact, event }: RunState): unknown {
  const own = (value: unknown, key: string) =>
    Object.getOwnPropertyDescriptor(Object(value) as object, key)?.value as unknown;
  const [subject, ...path] = field.split(".");
  return path.reduce<unknown>(own, subject === "event" ? event : contact);
}

function isTrue(filter: Doc, who: RunState): boolean {
  if (filter.and) return (filter.and as Doc[]).filter((one) => !isTrue(one, who)).length === 0;
  if (filter.or) return (filter.or as Doc[]).filter((one) => isTrue(one, who)).length > 0;
  if (filter.not) return !isTrue(filter.not as Doc, who);
  const value = read(filter.field as string, who);
  const [operator, wanted] = Object.entries(filter).find(([name]) => name !== "field") as [string, unknown];
  const comparable = ["string", "number"].includes(typeof value) && typeof value === typeof wanted;
  const [a, b] = [value as number, wanted as number];
  const answers: Record<string, boolean> = {
    eq: Object.is(value, wanted),
    neq: !Object.is(value, wanted),
    in: Array.isArray(wanted) && wanted.indexOf(value) >= 0,
    exists: (value === undefined || value === null) !== wanted,
    contains: Array.isArray(value)
      ? value.indexOf(wanted) >= 0
      : typeof value === "string" && typeof wanted === "string" && value.indexOf(wanted) >= 0,
    gt: comparable && a > b,
    gte: comparable && (a > b || a === b),
    lt: comparable && a < b,
    lte: comparable && (a < b || a === b),
  };
  return answers[operator] as boolean;
}

function interpret(steps: Doc[], who: RunState, path: string, trace: string[]): void {
  steps.forEach((step, n) => {
    const here = path === "" ? String(n) : `${path}.${n}`;
    if (step.wait) trace.push(`wait ${step.wait}`);
    if (step.send) trace.push(`send ${(step.send as Doc).subject}`);
    if (step.tag) trace.push(`tag ${(step.tag as { add: string[] }).add}`);
    if (Array.isArray(step.split)) {
      const taken = (step.split as Doc[]).findIndex((one) => one.else || isTrue(one.if as Doc, who));
      if (taken < 0) return;
      const branch = step.split[taken] as Record<string, Doc[]>;
      interpret((branch.else ?? branch.then) as Doc[], who, `${here}.${taken}`, trace);
    } else if (step.split) {
      const split = step.split as { percent: { a: number }; a: Doc[]; b: Doc[] };
      const name = `${who.automationId} ${who.contact?.id} ${here}`;
      const drawn = (createHash("sha256").update(name).digest().readUInt32BE() / 2 ** 32) * 100;
      const label = drawn < split.percent.a ? "a" : "b";
      interpret(split[label], who, `${here}.${label}`, trace);
    }
  });
}

const SPANS: Record<number, string> = { 1000: "1s", 300000: "5m", 7200000: "2h", 604800000: "7d" };

function walk(json: Doc, who: RunState): string[] {
  const document = checkDocument(json);
  const trace: string[] = [];
  for (let position = START, moves = 0; ; moves++) {
    expect(moves).toBeLessThan(1_000);
    // a position survives being written down
    const move = moveFrom(
      document,
      JSON.parse(JSON.stringify(position)) as string,
      who,
      NOW,
      new ComparingBudget(),
    );
    if (move.kind === "finish") return trace;
    if (move.kind === "stop") throw new Error(`stopped: ${move.reason}`);
    if (move.kind === "wait") trace.push(`wait ${SPANS[move.until - NOW]}`);
    if (move.kind === "send") trace.push(`send ${move.send.subject}`);
    if (move.kind === "tag") trace.push(`tag ${move.tag.add}`);
    position = move.next;
  }
}

function someDocument(random: Random): Doc {
  let steps: Doc[];
  do steps = someSteps(random, 0, 1);
  while (JSON.stringify(steps).split(/"(?:wait|send|tag|split)":/).length > 150);
  return { name: "n", audience_id: ID, event: "e", entry: "every", steps };
}

test(`${DOCUMENTS} documents are walked as an interpreter runs them`, () => {
  let longest = 0;
  for (let seed = 1; seed <= DOCUMENTS; seed++) {
    const random = randomOf(seed);
    const json = someDocument(random);
    const who = someTraveller(random);
    const expected: string[] = [];
    interpret(json.steps as Doc[], who, "", expected);
    expect(walk(json, who), `seed ${seed}: ${JSON.stringify(json)}`).toEqual(expected);
    longest = Math.max(longest, expected.length);
  }
  expect(longest).toBeGreaterThan(10);
});

test("a percentage is drawn in its proportion, and the same for a contact that comes again", () => {
  const json = {
    name: "n",
    audience_id: ID,
    event: "e",
    entry: "every",
    steps: [
      {
        split: {
          percent: { most: 75, rest: 25, none: 0 },
          most: [{ tag: { add: ["most"] } }],
          rest: [{ tag: { add: ["rest"] } }],
          none: [{ tag: { add: ["none"] } }],
        },
      },
    ],
  };
  const counts: Record<string, number> = {};
  const random = randomOf(7);
  for (let n = 0; n < 4_000; n++) {
    const who = someTraveller(random);
    const [tag] = walk(json, who);
    expect(walk(json, who)).toEqual([tag]);
    counts[tag as string] = (counts[tag as string] ?? 0) + 1;
  }
  expect(counts["tag most"]).toBeGreaterThan(2_850);
  expect(counts["tag most"]).toBeLessThan(3_150);
  expect(counts["tag none"]).toBeUndefined();
});
