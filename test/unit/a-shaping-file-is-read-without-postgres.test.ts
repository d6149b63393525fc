/**
 * While Postgres does not answer, a shaping file that changes is in force; when it answers, the last one is
 * kept.
 */
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Sql } from "../../src/record/db/connect.ts";
import { RulesFile } from "../../src/shaping/rulesfile.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "postrider-shaping-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

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
  await vi.waitFor(() => expect(read).toHaveLength(2), { timeout: 5_000 });
  write(3);
  await vi.waitFor(() => expect(read).toHaveLength(3), { timeout: 5_000 });
  expect(waiting).toHaveLength(1);
  waiting.shift()?.();
  await opening;
  await vi.waitFor(() => expect(waiting).toHaveLength(1), { timeout: 5_000 });
  waiting.shift()?.();
  file.stop();
  expect(faults).toEqual([]);
});
