/** A bound on time is judged after what has arrived by then was read. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { atMost, inTime } from "../../src/clock.ts";

const never = new Promise<never>(() => {});

/** Answers a message, and says where this thread can see it that the answer has been sent. */
const OTHER = `
  const { parentPort, workerData: sent } = require("node:worker_threads");
  parentPort.once("message", () => {
    parentPort.postMessage("answer");
    Atomics.store(sent, 0, 1);
    Atomics.notify(sent, 0);
  });`;

test("an answer that came during a hold-up counts, though the time is over", async () => {
  const sent = new Int32Array(new SharedArrayBuffer(4));
  const other = new Worker(OTHER, { eval: true, workerData: sent });
  await once(other, "online");
  // what follows has its turn before the timers, and they before what arrives
  await new Promise((resolve) => setImmediate(resolve));
  other.postMessage("question");
  const first = inTime(1, once(other, "message"), () => "late");
  // nothing else runs on this thread meanwhile
  Atomics.wait(sent, 0, 0);
  const until = performance.now() + 5;
  while (performance.now() < until);
  expect(await first).toEqual(["answer"]);
  await other.terminate();
});

test("who may have stood still with this process gets as long once more", async () => {
  const answer = once(AbortSignal.timeout(450), "abort").then(() => "answer");
  const first = inTime(200, answer, () => "late");
  const until = performance.now() + 400;
  while (performance.now() < until);
  expect(await first).toBe("answer");
});

test("and no longer", async () => {
  const first = inTime(100, never, () => "late");
  const until = performance.now() + 2_000;
  while (performance.now() < until);
  expect(await first).toBe("late");
  expect(performance.now() - until).toBeLessThan(1_500);
});

test("what takes longer is what `late` gives", async () => {
  expect(await inTime(1, never, () => "late")).toBe("late");
});

test("or throws", async () => {
  const late = () => {
    throw new Error("too late");
  };
  await expect(inTime(1, never, late)).rejects.toThrow("too late");
});

test("what fails in time fails", async () => {
  await expect(inTime(60_000, Promise.reject(new Error("refused")), () => "late")).rejects.toThrow("refused");
});

test("what fails later harms nobody", async () => {
  let fail = (_: Error) => {};
  const work = new Promise<never>((_, reject) => {
    fail = reject;
  });
  expect(await inTime(1, work, () => "late")).toBe("late");
  fail(new Error("nobody waits for this"));
  await new Promise((resolve) => setImmediate(resolve));
});

test("whoever waits at most so long hears of no failure", async () => {
  await atMost(60_000, Promise.reject(new Error("refused")));
  await atMost(1, never);
});
