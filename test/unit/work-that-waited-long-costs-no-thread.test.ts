/** A thread that workspaces share is replaced when the work that it is at takes too long, and for no wait. */
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, expect, type MockInstance, test, vi } from "vitest";
import { FairThread } from "../../src/fairthread.ts";

/** Each piece of work takes until it is let go. */
const THREAD = new URL(`data:text/javascript,
  import { parentPort } from "node:worker_threads";
  parentPort.on("message", ({ name, gate }) => {
    Atomics.wait(gate, 0, 0);
    parentPort.postMessage(name);
  });`);
const MS_MAX = 10_000;

type Held = { name: string; gate: Int32Array };

let thread: FairThread<Held, string>;
let terminated: MockInstance<Worker["terminate"]>;
beforeEach(() => {
  thread = new FairThread(THREAD);
  terminated = vi.spyOn(Worker.prototype, "terminate");
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});
afterEach(async () => {
  vi.useRealTimers();
  terminated.mockRestore();
  await thread.close();
});

function begin(workspaceId: string, name: string) {
  const gate = new Int32Array(new SharedArrayBuffer(4));
  const done = thread.run({
    workspaceId,
    work: { name, gate },
    waitMsMax: MS_MAX,
    runMsMax: MS_MAX,
    late: () => new Error(`${name} is late`),
  });
  const letGo = () => {
    Atomics.store(gate, 0, 1);
    Atomics.notify(gate, 0);
  };
  return { done, letGo };
}

test("what begins late has its own time, and what waited for too long is refused", async () => {
  const first = begin("one", "first");
  const second = begin("one", "second");
  const neighbour = begin("two", "neighbour");
  vi.advanceTimersByTime(MS_MAX - 1);
  first.letGo();
  expect(await first.done).toBe("first");
  vi.advanceTimersByTime(MS_MAX - 1);
  await expect(neighbour.done).rejects.toThrow("neighbour is late");
  second.letGo();
  expect(await second.done).toBe("second");
  expect(terminated).not.toHaveBeenCalled();
});

test("what takes too long costs the thread, and what is in line is done by the next one", async () => {
  const first = begin("one", "first");
  vi.advanceTimersByTime(MS_MAX / 2);
  const neighbour = begin("two", "neighbour");
  vi.advanceTimersByTime(MS_MAX / 2);
  await expect(first.done).rejects.toThrow("first is late");
  expect(terminated).toHaveBeenCalledOnce();
  vi.advanceTimersByTime(MS_MAX - 1);
  neighbour.letGo();
  expect(await neighbour.done).toBe("neighbour");
  expect(terminated).toHaveBeenCalledOnce();
});
