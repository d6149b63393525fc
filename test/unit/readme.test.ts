import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { settingsTable } from "../../src/config.ts";

test("the README's table of settings is that of the code", () => {
  expect(readFileSync(new URL("../../README.md", import.meta.url), "utf8")).toContain(settingsTable());
});
