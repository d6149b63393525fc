/** One line for the first fault of a kind, then one a second that counts the others. */
import type { Logger } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { faultLog } from "../../src/process/faultlog.ts";

type Line = { err: Error; request_id?: string; repeated?: number };

let lines: Line[];
const log = { error: (line: Line) => lines.push(line) } as unknown as Logger;
const away = () => new Error("Redis did not answer", { cause: new Error("Command timed out") });

beforeEach(() => {
  lines = [];
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("a fault that comes once is told at once, with its request", () => {
  const tell = faultLog(log);
  tell(away(), { request_id: "r-1" });
  expect(lines).toMatchObject([{ request_id: "r-1", err: { message: "Redis did not answer" } }]);
  vi.advanceTimersByTime(10_000);
  expect(lines).toHaveLength(1);
});

test("a thousand of them within three seconds are four lines, which say how many there were", () => {
  const tell = faultLog(log);
  for (let n = 0; n < 1_000; n++) {
    tell(away(), { request_id: `r-${n}` });
    vi.advanceTimersByTime(3);
  }
  vi.advanceTimersByTime(10_000);
  expect(lines).toHaveLength(4);
  expect(1 + lines.reduce((sum, { repeated = 0 }) => sum + repeated, 0)).toBe(1_000);
  expect(lines.at(-1)).toMatchObject({ request_id: "r-999" });
});

test("faults of other kinds are told besides, also of the same words with another cause", () => {
  const tell = faultLog(log);
  for (let n = 0; n < 5; n++) {
    tell(away());
    tell(new Error("Redis did not answer", { cause: new Error("write EPIPE") }));
    tell("not even an error");
  }
  expect(lines).toHaveLength(3);
});

test("words that are never the same do not flood it either", () => {
  const tell = faultLog(log);
  for (let n = 0; n < 10_000; n++) tell(new Error(`connect ECONNREFUSED 127.0.0.1:${n}`));
  vi.advanceTimersByTime(1_000);
  expect(lines.length).toBeLessThan(60);
  expect(lines.reduce((sum, { repeated = 0 }) => sum + repeated, 0)).toBe(10_000 - 51);
});

test("what comes after a quiet second is new", () => {
  const tell = faultLog(log);
  tell(away());
  vi.advanceTimersByTime(1_001);
  tell(away());
  expect(lines).toHaveLength(2);
  expect(lines.at(-1)?.repeated).toBeUndefined();
});
