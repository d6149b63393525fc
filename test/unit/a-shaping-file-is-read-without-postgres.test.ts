/**
 * While Postgres does not answer, a shaping file that changes is in force; when it answers, the last one is
 * kept.
 */
import { mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Sql } from "../../src/record/db/connect.ts";
import { RulesFile } from "../../src/shaping/rulesfile.ts";

const LOOK_EVERY_MS = 1_000;

let folder: string;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  folder = mkdtempSync(join(tmpdir(), "postrider-shaping-"));
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

test("a changed file holds, and is asked to be kept one at a time", async () => {
  const path = join(folder, "shaping.json");
  let changes = 0;
  const write = (connections: number) => {
    writeFileSync(path, JSON.stringify({ rules: [{ match: {}, connections }] }));
    utimesSync(path, 1_000, 1_000 + ++changes);
  };
  const waiting: (() => void)[] = [];
  const sql = (() => new Promise<unknown[]>((resolve) => waiting.push(() => resolve([])))) as unknown as Sql;
  const read: unknown[] = [];
  const faults: unknown[] = [];
  write(1);
  const clock = { now: () => 0, given: () => 0 };
  const file = new RulesFile({
    ...{ path, sql, clock },
    onRules: (rules) => read.push(rules),
    onFault: (error) => faults.push(error),
  });
  const opening = file.open();
  write(2);
  await vi.advanceTimersByTimeAsync(LOOK_EVERY_MS);
  expect(read).toHaveLength(2);
  write(3);
  await vi.advanceTimersByTimeAsync(LOOK_EVERY_MS);
  expect(read).toHaveLength(3);
  expect(waiting).toHaveLength(1);
  waiting.shift()?.();
  await opening;
  await vi.advanceTimersByTimeAsync(LOOK_EVERY_MS);
  expect(waiting).toHaveLength(1);
  waiting.shift()?.();
  file.stop();
  expect(faults).toEqual([]);
});

test("a file that replaces another is read, also with the same time", async () => {
  const path = join(folder, "shaping.json");
  const write = (to: string, connections: number) => {
    writeFileSync(to, JSON.stringify({ rules: [{ match: {}, connections }] }));
    utimesSync(to, 1, 1);
  };
  const sql = (() => Promise.resolve([])) as unknown as Sql;
  const read: unknown[] = [];
  write(path, 1);
  const file = new RulesFile({
    ...{ path, sql, clock: { now: () => 0, given: () => 0 } },
    onRules: (rules) => read.push(rules),
    onFault: (error) => read.push(error),
  });
  await file.open();
  write(`${path}.new`, 2);
  renameSync(`${path}.new`, path);
  await vi.advanceTimersByTimeAsync(LOOK_EVERY_MS);
  write(path, 30);
  await vi.advanceTimersByTimeAsync(LOOK_EVERY_MS);
  await vi.advanceTimersByTimeAsync(LOOK_EVERY_MS);
  file.stop();
  expect(read).toEqual([1, 2, 30].map((connections) => ({ rules: [{ match: {}, connections }] })));
});
