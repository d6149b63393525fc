/** No refusal repeats a schema: types, limits and patterns are said in words, with the path of the field. */
import Type from "typebox";
import { describe, expect, test } from "vitest";
import { checker } from "../../src/api/check.ts";
import { AddContact, TagContact } from "../../src/api/contacts.ts";
import { SendEmail } from "../../src/api/draft.ts";
import { Refusal } from "../../src/api/problem.ts";
import { NewSuppressionBody } from "../../src/api/suppressions.ts";
import { checkPolicy } from "../../src/capacity/policy/check.ts";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { checkScenario } from "../../src/capacity/workload.ts";

const check = checker(SendEmail);
const checkContact = checker(AddContact, { keepsNull: true });
const checkSuppression = checker(NewSuppressionBody);
const checkTagging = checker(TagContact, { keepsNull: true });
const refusalOf = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    if (error instanceof Refusal) return error.problem.message;
    throw error;
  }
  throw new Error("it was taken");
};

describe("a send", () => {
  test.each([
    [{ to: 5 }, "The `to` field must be a string or an array of strings."],
    [{ to: ["a@x.com", 5] }, "The `to[1]` field must be a string."],
    [{ subject: [] }, "The `subject` field must be a string."],
    [{ headers: "X: y" }, "The `headers` field must be an object."],
    [{ tags: {} }, "The `tags` field must be an array of objects."],
    [
      { tags: [{ name: "a b", value: "c" }] },
      "The `tags[0].name` field must be 1 to 256 ASCII letters, digits, `_` or `-`.",
    ],
    [{ tags: Array(51).fill({ name: "a", value: "b" }) }, "The `tags` field must have at most 50 items."],
    [{ attachments: [{ filename: "" }] }, "Missing `attachments[0].content` field."],
    [
      { attachments: [{ filename: "", content: "" }] },
      "The `attachments[0].filename` field must have at least 1 character.",
    ],
    [
      { attachments: [{ content: { type: "Bufer", data: [] } }] },
      'The `attachments[0].content.type` field must be "Buffer".',
    ],
  ])("%j: %s", (body, message) => {
    expect(refusalOf(() => check(body))).toBe(message);
  });

  test("with a file as an array of bytes is told what else is wrong", () => {
    const content = { type: "Buffer", data: Array(20_000).fill(7) };
    const body = { attachments: [{ filename: "a.bin", content }], subject: 5 };
    expect(refusalOf(() => check(body))).toBe("The `subject` field must be a string.");
  });

  test("of a field that may be null says what is wrong with a value of the other type", () => {
    const content = "";
    const long = "x".repeat(256);
    expect(refusalOf(() => check({ attachments: [{ content, content_type: long }] }))).toBe(
      "The `attachments[0].content_type` field must have at most 255 characters.",
    );
    const given = { email: "ann@x.example", first_name: "x".repeat(201) };
    expect(refusalOf(() => checkContact(given))).toBe(
      "The `first_name` field must have at most 200 characters.",
    );
    expect(refusalOf(() => checkContact({ ...given, first_name: 5 }))).toBe(
      "The `first_name` field must be a string or null.",
    );
    expect(refusalOf(() => checkTagging({ add: Array(51).fill("a") }))).toBe(
      "The `add` field must have at most 50 items.",
    );
  });

  test("of a field with certain values names them", () => {
    expect(refusalOf(() => checkSuppression({ email: "ann@x.example", reason: "spam" }))).toBe(
      'The `reason` field must be "bounce", "complaint" or "manual".',
    );
  });

  test("of a field with certain values, or null, names them all", () => {
    const status = Type.Union([Type.Null(), Type.Enum(["enabled", "disabled"])]);
    const checkStatus = checker(Type.Object({ status: Type.Optional(status) }));
    expect(refusalOf(() => checkStatus({ status: "paused" }))).toBe(
      'The `status` field must be "enabled", "disabled" or null.',
    );
  });

  test("names the item of a batch that it stands in", () => {
    expect(refusalOf(() => check({ to: [5] }, "[3]."))).toBe("The `[3].to[0]` field must be a string.");
  });
});

test("alternatives, bounds and constants are words as well", () => {
  const checkOther = checker(
    Type.Object({
      count: Type.Optional(Type.Integer({ minimum: 1, maximum: 5 })),
      rate: Type.Optional(Type.Number({ exclusiveMinimum: 0 })),
      kind: Type.Optional(Type.Union([Type.Literal("a"), Type.Literal("b"), Type.Literal("c")])),
      is: Type.Optional(Type.Boolean()),
    }),
  );
  expect(refusalOf(() => checkOther({ count: 9 }))).toBe("The `count` field must be at most 5.");
  expect(refusalOf(() => checkOther({ count: 0 }))).toBe("The `count` field must be at least 1.");
  expect(refusalOf(() => checkOther({ count: "1" }))).toBe("The `count` field must be a whole number.");
  expect(refusalOf(() => checkOther({ rate: 0 }))).toBe("The `rate` field must be more than 0.");
  expect(refusalOf(() => checkOther({ kind: "d" }))).toBe('The `kind` field must be "a", "b" or "c".');
  expect(refusalOf(() => checkOther({ is: "yes" }))).toBe("The `is` field must be true or false.");
});

test("a policy and a scenario are told as plainly", () => {
  expect(() => checkPolicy({ ...DEFAULT_POLICY, growth: "2" })).toThrow("`growth` must be a number.");
  expect(() => checkPolicy({ ...DEFAULT_POLICY, growth: 20 })).toThrow("`growth` must be at most 10.");
  expect(() => checkScenario({})).toThrow(/^The scenario lacks `\w+`\.$/);
});
