import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { readPolicy } from "../../src/capacity/policyfile.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "policy-"));
  mkdirSync(join(folder, "caps"));
  writeFileSync(join(folder, "caps", "policy.json"), JSON.stringify({ ...DEFAULT_POLICY, growth: 1.5 }));
});
afterAll(() => rmSync(folder, { recursive: true }));

test("a setting that names policy.json beside package.json finds it in caps/", () => {
  expect(readPolicy(join(folder, "policy.json")).growth).toBe(1.5);
});

test("another file is not looked for elsewhere", () => {
  expect(() => readPolicy(join(folder, "mine.json"))).toThrow("mine.json");
});
