/** What was learnt by asking: kept, asked for once, outlasting failures, and bounded. */
import { expect, test } from "vitest";
import { type Learnt, LookupCache } from "../../src/delivery/cache.ts";

const KEEP_MS = 1_000;
const STALE_MS = 3_600_000;

function memoryOf(answers: Record<string, () => Partial<Learnt<string>>>, entriesMax = 100) {
  const asked: string[] = [];
  const clock = { now: 0 };
  const ask = async (name: string): Promise<Learnt<string>> => {
    asked.push(name);
    return { value: `about ${name}`, keepMs: KEEP_MS, isFailure: false, ...answers[name]?.() };
  };
  return { asked, clock, memory: new LookupCache(ask, () => clock.now, entriesMax) };
}

test("is asked for once, and again when it no longer holds", async () => {
  const { memory, asked, clock } = memoryOf({});
  expect(memory.known("a")).toBeNull();
  expect(await Promise.all([memory.learn("a"), memory.learn("a")])).toEqual(["about a", "about a"]);
  clock.now = KEEP_MS - 1;
  expect(memory.known("a")).toBe("about a");
  clock.now = KEEP_MS;
  expect(memory.known("a")).toBeNull();
  await memory.learn("a");
  expect(asked).toEqual(["a", "a"]);
});

test("what was known outlasts a failure for an hour; a failure outlasts nothing", async () => {
  let isFailure = false;
  const { memory, clock } = memoryOf({ a: () => (isFailure ? { value: "no answer", isFailure } : {}) });
  await memory.learn("a");
  isFailure = true;
  clock.now = STALE_MS;
  expect(await memory.learn("a")).toBe("about a");
  clock.now = STALE_MS + KEEP_MS;
  expect(memory.known("a")).toBeNull();
  expect(await memory.learn("a")).toBe("no answer");
  isFailure = false;
  clock.now += KEEP_MS;
  expect(await memory.learn("a")).toBe("about a");
});

test("the oldest is forgotten when it is too much", async () => {
  const { memory } = memoryOf({}, 2);
  for (const name of ["a", "b", "c"]) await memory.learn(name);
  expect(["a", "b", "c"].map((name) => memory.known(name))).toEqual([null, "about b", "about c"]);
});
