/** What a client that is generated from the document must know to make every request that there is. */
import { expect, test } from "vitest";
import { DOCUMENT, PATHS } from "../rig/document.ts";

const parametersOf = (method: string, path: string) =>
  new Map((PATHS[path]?.[method]?.parameters ?? []).map((one) => [one.name, one] as const));
type Described = Record<string, { content: object; headers: object }>;
const schemas = DOCUMENT.components.schemas as unknown as Record<string, { required?: string[] }>;

test("headers that change what a request does", () => {
  for (const path of ["/emails", "/emails/batch", "/events", "/events/send"])
    expect(parametersOf("post", path).get("Idempotency-Key")).toMatchObject({ in: "header" });
  expect(parametersOf("post", "/emails/batch").get("x-batch-validation")).toMatchObject({
    in: "header",
    schema: { enum: ["strict", "permissive"] },
  });
});

test("fields that must be there", () => {
  expect(schemas.SendEmail?.required).toEqual(["to"]);
  expect(JSON.stringify(schemas.SendEmail)).toContain('"required":["content","filename"]');
});

test("the limits of a list that has others", () => {
  expect(parametersOf("get", "/events/log").get("limit")?.schema).toMatchObject({
    maximum: 1_000,
    default: 100,
  });
  expect(parametersOf("get", "/emails").get("limit")?.schema).toMatchObject({ maximum: 100, default: 20 });
});

test("each status has its own answer, and headers that tell when to come back", () => {
  const answers = (PATHS["/events"]?.post?.responses ?? {}) as unknown as Described;
  expect(JSON.stringify(answers[202]?.content)).toContain("EventTracked");
  expect(JSON.stringify(answers[201]?.content)).not.toContain("EventTracked");
  expect(Object.keys(answers[202]?.headers ?? {})).toContain("X-RateLimit-Remaining");
  const { Refused429 } = DOCUMENT.components.responses as unknown as Described;
  expect(Object.keys(Refused429?.headers ?? {})).toContain("Retry-After");
});
