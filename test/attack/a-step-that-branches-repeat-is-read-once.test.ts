/**
 * Steps of an automation that many branches reach are in the document once for each branch. However large
 * they are, they are read once, and a document that is too long for it is found to be so at once.
 */
import { expect, test } from "vitest";
import { documentOf, type Graph, type GraphStep } from "../../src/api/automationgraph.ts";
import { checkDocument } from "../../src/automation/document.ts";
import { costOf } from "../rig/held.ts";

const WORKED_MS_MAX = 50;
/** Each leads to the next one by both of its branches: the last is reached 64 times. */
const CONDITIONS = 6;
const REACHED = 2 ** CONDITIONS;

/** All branches end in this step. */
function leadingTo(last: Omit<GraphStep, "key">): Graph {
  const steps: GraphStep[] = [{ key: "start", type: "trigger", config: { event_name: "a" } }];
  const connections = [{ from: "start", to: "0", type: "default" }];
  for (let n = 0; n < CONDITIONS; n++) {
    steps.push({ key: `${n}`, type: "condition", config: { field: "event.name", operator: "exists" } });
    for (const type of ["condition_met", "condition_not_met"])
      connections.push({ from: `${n}`, to: `${n + 1}`, type });
  }
  steps.push({ key: `${CONDITIONS}`, ...last });
  return { steps, connections };
}

function applied(graph: Graph): unknown {
  return checkDocument({ name: "a", audience_id: crypto.randomUUID(), entry: "every", ...documentOf(graph) });
}

const rules = Array.from({ length: 3_000 }, () => ({ field: "event.name", operator: "exists" }));
const template = { id: "welcome" };
test.each([
  [
    "a condition of as many rules as a request may hold",
    { type: "condition", config: { type: "or", rules } },
  ],
  ["a long text", { type: "send_email", config: { template, subject: "a".repeat(900_000) } }],
  [
    "a text that JSON writes longer",
    { type: "send_email", config: { template, subject: "\0".repeat(150_000) } },
  ],
  ["many texts", { type: "send_email", config: { template, reply_to: Array(9_000).fill("a@example.com") } }],
])("%s", (_, last) => {
  const graph = leadingTo(last);
  const work = () => expect(() => applied(graph)).toThrow("The document has more than 524288 bytes");
  expect(costOf(work, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("a step that all branches end in is in each of them", () => {
  const graph = leadingTo({ type: "delay", config: { duration: "2h" } });
  expect(JSON.stringify(documentOf(graph).steps).split('{"wait":"2h"}')).toHaveLength(REACHED + 1);
  expect(() => applied(graph)).not.toThrow();
});
