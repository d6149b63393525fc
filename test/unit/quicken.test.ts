import { setFlagsFromString } from "node:v8";
import { expect, test } from "vitest";
import { quicken } from "../../src/record/db/quicken.ts";

setFlagsFromString("--allow-natives-syntax");
const isFast = new Function("object", "return %HasFastProperties(object)") as (object: unknown) => boolean;

/** As the client's classes are. */
class Answer extends Array {
  static override get [Symbol.species]() {
    return Array;
  }
}

test("a constructor that V8 keeps as a dictionary is kept fast afterwards", () => {
  expect(isFast(Answer)).toBe(false);
  quicken(new Answer());
  expect(isFast(Answer)).toBe(true);
  quicken(new Answer());
  expect(isFast(Answer)).toBe(true);
});
