/** What is to be called when something is late: those of one length share a timer, and nothing else. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { whenLate } from "../../src/clock.ts";

const MS = 10_000;

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

/** What has arrived is read before anybody is late. */
const whatArrivedIsRead = () => new Promise((resolve) => setImmediate(resolve));

async function pass(ms: number): Promise<void> {
  vi.advanceTimersByTime(ms);
  await whatArrivedIsRead();
}

test("each is called when its own time is over, once, and none that has ended", async () => {
  const called: string[] = [];
  const later = (name: string, ms = MS) => whenLate(ms, () => void called.push(name));
  const first = later("first");
  await pass(MS / 2);
  later("second");
  later("short", MS / 4);
  const ended = later("ended");
  await pass(MS / 4);
  expect(called).toEqual(["short"]);
  ended();
  await pass(MS / 4);
  expect(called).toEqual(["short", "first"]);
  first();
  await pass(MS / 2);
  expect(called).toEqual(["short", "first", "second"]);
  await pass(2 * MS);
  expect(called).toHaveLength(3);
});

test("one that is late may end others, and begin one", async () => {
  const called: string[] = [];
  whenLate(MS, () => {
    called.push("first");
    endSecond();
    whenLate(MS, () => void called.push("begun"));
  });
  const endSecond = whenLate(MS, () => void called.push("second"));
  whenLate(MS, () => void called.push("third"));
  await pass(MS);
  expect(called).toEqual(["first", "third"]);
  await pass(MS);
  expect(called).toEqual(["first", "third", "begun"]);
});

test("what falls due while others are judged is read first, too", async () => {
  const called: string[] = [];
  whenLate(MS, () => void called.push("first"));
  vi.advanceTimersByTime(1);
  const answered = whenLate(MS, () => void called.push("second"));
  vi.advanceTimersByTime(MS - 1);
  setImmediate(answered);
  // what was read before the first is judged takes until the second is due
  await pass(1);
  expect(called).toEqual(["first"]);
});

test("none keeps a process or anything else that came after it", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const spent = whenLate(MS, () => {});
  let end = spent;
  const heldBy = Array.from({ length: 100 }, () => {
    const held = { bytes: Buffer.alloc(1_000) };
    const next = whenLate(MS, () => void held.bytes);
    end();
    end = next;
    return new WeakRef(held);
  });
  end();
  end = spent;
  await whatArrivedIsRead();
  collect();
  expect(heldBy.filter((one) => one.deref() !== undefined)).toHaveLength(0);
  expect(vi.getTimerCount()).toBe(0);
  spent();
});
