/** Each mistake that the campaign has to find can be planted in the code as it is now. */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { expect, test } from "vitest";

const FOLDER = "test/fault/mutants";
const patches = readdirSync(FOLDER).filter((file) => file.endsWith(".patch"));

test("there are mistakes to plant", () => {
  expect(patches.length).toBeGreaterThan(20);
});

test.each(patches)("%s fits the code", (patch) => {
  expect(() =>
    execFileSync("git", ["apply", "--check", `${FOLDER}/${patch}`], { stdio: "pipe" }),
  ).not.toThrow();
});
