/** What older clients send, however their JSON is spaced, is not counted as so many values. */
import { expect, test } from "vitest";
import { findExcess } from "../../src/api/json.ts";

const BYTES = 300_000;

test.each([
  ["none", ","],
  ["a blank", ", "],
  ["a line and its indent", ",\r\n\t      "],
])("with %s between the bytes", (_, comma) => {
  const bytes = Array(BYTES).fill("255").join(comma);
  expect(findExcess(Buffer.from(`{"attachments": [{"content": [${bytes}]}]}`))).toBeNull();
});

test.each(["[0 ,", "[ [],", "[ 1000,", "[ -1,", "[ 1.5,"])("%s is no byte", (element) => {
  const others = element.slice(1).repeat(BYTES);
  expect(findExcess(Buffer.from(`[${others}0]`))).toEqual({ kind: "too many" });
});
