/** A graph of the official client becomes a document whole: what the document would lack is refused. */
import { expect, test } from "vitest";
import { documentOf } from "../../src/api/automationgraph.ts";
import { Refusal } from "../../src/api/problem.ts";

const delay = (key: string) => ({ key, type: "delay", config: { duration: "1h" } });
const rule = { field: "event.plan", operator: "exists" };
const steps = [
  { key: "start", type: "trigger", config: { event_name: "a" } },
  { key: "if", type: "condition", config: rule },
  delay("x"),
];
const connections = [
  { from: "start", to: "if", type: "default" },
  { from: "if", to: "x", type: "condition_met" },
];

test("a graph that is followed whole is taken", () => {
  expect(() => documentOf({ steps, connections })).not.toThrow();
});

test.each([
  [
    "of a type that a condition has not",
    { from: "if", to: "x", type: "default" },
    "connections[2].type",
    "`if`",
  ],
  [
    "of a type that a delay has not",
    { from: "x", to: "y", type: "condition_met" },
    "connections[2].type",
    "`x`",
  ],
  ["beside another", { from: "if", to: "y", type: "condition_met" }, "connections[2]", "`if`"],
  ["in a circle apart", { from: "y", to: "y", type: "default" }, "steps[3]", "trigger"],
])("a connection %s is refused with its place", (_, one, place, named) => {
  const graph = { steps: [...steps, delay("y")], connections: [...connections, one] };
  const said = messageOf(() => documentOf(graph));
  expect(said).toContain(`The \`${place}\` field`);
  expect(said).toContain(named);
});

function messageOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof Refusal) return error.problem.message;
    throw error;
  }
  return "nothing is refused";
}
