/**
 * An event is held against the filters of all automations of its name, each with as many conditions as may
 * be. What they search is searched in one pass, in turns, and up to a bound for each event.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ComparingBudget, type Filter, holdsAll, type Value } from "../../src/rules/filters.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { costOf, workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { freshWorkspace, type Refusal, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const CONDITIONS = 150;
const AUTOMATIONS = 30;
/** Of events as long as they may be. */
const SHAPES: Record<string, { value: Value; wanted: string }> = {
  "a text that repeats itself": { value: "ab".repeat(8_000), wanted: `a${"ab".repeat(60)}` },
  "a text of one letter": { value: "a".repeat(16_000), wanted: `b${"a".repeat(120)}` },
  "a list": { value: Array(4_000).fill("a"), wanted: "b" },
};

function neverMet(wanted: string): Filter[] {
  return [
    { or: Array.from({ length: CONDITIONS }, () => ({ field: "event.properties.v", contains: wanted })) },
  ];
}

const nobody = { id: "", email: "", first_name: null, last_name: null, tags: [], properties: {} };
test.each(Object.entries(SHAPES))("the filters of one automation search %s", (_, { value, wanted }) => {
  const contact = { ...nobody, status: "subscribed" } as const;
  const filters = neverMet(wanted);
  const event = { name: "a", properties: { v: value } };
  const work = () => holdsAll(filters, contact, event, new ComparingBudget(Number.POSITIVE_INFINITY));
  expect(work()).toBe(false);
  expect(costOf(work, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("to find out the order of long texts is counted", () => {
  const contact = { ...nobody, status: "subscribed" } as const;
  const event = { name: "a", properties: { v: "a".repeat(16_000) } };
  const usedFor = (gt: string) => {
    const budget = new ComparingBudget();
    expect(holdsAll([{ field: "event.properties.v", gt }], contact, event, budget)).toBe(false);
    return budget.used;
  };
  expect(usedFor(`${"a".repeat(15_999)}b`)).toBeGreaterThan(10 * usedFor("b"));
});

test.each([
  ["aaab", true],
  ["abab".repeat(30), true],
  [`${"abab".repeat(30)}c`, false],
  [`b${"ab".repeat(400)}`, true],
])("what is searched in one pass is found as ever: %#", (wanted, isFound) => {
  const text = `${"aab".repeat(1_000)}${"ab".repeat(3_000)}aaab`;
  const [first] = neverMet(wanted);
  const contact = { ...nobody, status: "subscribed" } as const;
  expect(text.includes(wanted)).toBe(isFound);
  const event = { name: "a", properties: { v: text } };
  const budget = new ComparingBudget(Number.POSITIVE_INFINITY);
  expect(holdsAll([first as Filter], contact, event, budget)).toBe(isFound);
});

let database: OwnDatabase;
let engine: Engine;
let api: EngineProcess;
let hostile: TestWorkspace;
let audience: string;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine([], { databaseUrl: database.url });
  api = await startProcess(["api"], { databaseUrl: database.url, watchesLoop: true });
  hostile = await freshWorkspace(engine.keyring, `http://127.0.0.1:${api.port}`, "pro", {
    requests_per_second: 1_000,
  });
  audience = (await hostile.client.post<{ id: string }>("/audiences", { name: "A" })).body.id;
  await hostile.client.post(`/audiences/${audience}/contacts`, { email: "a@example.net" });
});
afterAll(async () => {
  await api?.stop();
  await engine?.stop();
  await database.drop();
});

test.each(Object.entries(SHAPES))("those of many automations search %s", async (event, { value, wanted }) => {
  const name = event.replaceAll(" ", "-");
  const steps = [{ wait: "1h" }];
  for (let n = 0; n < AUTOMATIONS; n++) {
    const automation = { name: `${event} ${n}`, audience_id: audience, event: name, steps };
    const { status, body } = await hostile.client.post("/automations", {
      ...automation,
      filters: neverMet(wanted),
    });
    expect(status, JSON.stringify(body)).toBe(201);
  }
  const track = (v: Value) =>
    hostile.client.post<Refusal>("/events", {
      audience_id: audience,
      email: "a@example.net",
      name,
      properties: { v },
    });
  expect((await track("short")).status).toBe(202);
  const ask = async () => {
    const { status, body } = await track(value);
    expect(status).toBe(422);
    expect(body.message).toContain("compare too much");
  };
  expect(await workedBy(api, ask, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
