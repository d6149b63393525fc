/** Whatever is thrown, something can be said of it. */
import { expect, test } from "vitest";
import { codeOf, messageOf, syscallOf } from "../../src/caught.ts";

test.each([
  [new Error("it broke"), "it broke"],
  [new AggregateError([new Error("one"), new Error("two")], "both broke"), "both broke"],
  // what Node makes of several addresses that all refuse
  [Object.assign(new AggregateError([]), { code: "ECONNREFUSED" }), "ECONNREFUSED"],
  [new TypeError(), "TypeError"],
  ["words", "words"],
  [null, "null"],
  [undefined, "undefined"],
  [{ message: 5 }, "[object Object]"],
])("%s is told as %s", (thrown, words) => {
  expect(messageOf(thrown)).toBe(words);
});

test("a code and what failed are read where they are words", () => {
  const error = Object.assign(new Error("in use"), { code: "EADDRINUSE", syscall: "listen" });
  expect([codeOf(error), syscallOf(error)]).toEqual(["EADDRINUSE", "listen"]);
  expect(codeOf(Object.assign(new Error(), { code: 20 }))).toBeUndefined();
  expect([null, undefined, "ENOENT", 3].map(codeOf)).toEqual([undefined, undefined, undefined, undefined]);
});
