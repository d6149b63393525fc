/** Whether a worker may send more, while what became of its mail is being written. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Note, Settler } from "../../src/outcome/settler.ts";
import type { Sql } from "../../src/record/db/connect.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const TWO_GROUPS = 1_500;
const SLOW_MS = 600;

test("nothing more is sent while a note is old, also when the groups before it get through", async () => {
  const groups: (() => void)[] = [];
  const settler = settlerOf(() => new Promise((resolve) => groups.push(() => resolve([]))));
  for (let n = 0; n < TWO_GROUPS; n++) settler.note(noteOf(n));
  await vi.advanceTimersByTimeAsync(1_100);
  let isHealthy = false;
  const healthy = settler.healthy().then(() => {
    isHealthy = true;
  });

  groups[0]?.();
  await vi.advanceTimersByTimeAsync(100);
  expect(groups).toHaveLength(2);
  expect(isHealthy).toBe(false);
  groups[1]?.();
  await healthy;
});

test("storage that is slow whatever it is given gets no less than a bag at once", async () => {
  const open: (() => void)[] = [];
  const settler = settlerOf(() => new Promise((resolve) => open.push(() => resolve([]))));
  for (let n = 0; n < 3_000; n++) settler.note(noteOf(n));
  let isWritten = false;
  settler.written().then(() => {
    isWritten = true;
  });
  const groups = [1_000, 500, 250, 125, ...Array(12).fill(100)];
  for (const _ of groups) {
    expect(isWritten).toBe(false);
    await vi.advanceTimersByTimeAsync(SLOW_MS);
    open.shift()?.();
    await vi.advanceTimersByTimeAsync(1);
  }
  expect(isWritten).toBe(true);
});

function settlerOf(begin: () => Promise<unknown>): Settler {
  return new Settler({ begin } as unknown as Sql, "worker", () => {});
}

function noteOf(n: number): Note {
  return {
    bag: { workspaceId: "w", id: "b", generation: 0, token: "t" },
    emailId: String(n).padStart(8, "0"),
    status: "delivered",
    marks: "d",
    attemptedAt: 0,
    at: 0,
    events: [],
    places: [],
    nextAt: null,
    domain: null,
    reply: null,
    counts: {},
  };
}
