/** What a document may say, and how it is told what is wrong. */
import { describe, expect, test } from "vitest";
import { checkDocument, STEPS_MAX } from "../../src/automation/document.ts";
import { momentAfter, momentKind, parseSpan } from "../../src/rules/spans.ts";

const SEND = { from: "a@example.com", subject: "s", text: "t" };
const document = (more: object = {}) => ({
  name: "Welcome",
  audience_id: "01890000-0000-7000-8000-000000000000",
  event: "signup",
  entry: "once",
  steps: [{ send: SEND }],
  ...more,
});
const steps = (...some: object[]) => document({ steps: some });
const nested = (depth: number): object => {
  let inner: object = { wait: "1h" };
  for (let n = 1; n < depth; n++) inner = { split: [{ else: [inner] }] };
  return steps(inner);
};
const deepFilter = (depth: number): object => {
  let filter: object = { field: "event.name", eq: "a" };
  for (let n = 1; n < depth; n++) filter = { not: filter };
  return document({ filters: [filter] });
};

describe("what is wrong is said with its path", () => {
  test.each([
    [[], "The document must be an object."],
    [document({ filter: [] }), "The document has a field that is not known: filter."],
    [document({ entry: undefined }), "`entry` is missing."],
    [document({ entry: "twice" }), '`entry` must be "once", "one_active", "every" or {"cooldown": "7d"}.'],
    [document({ entry: { cooldown: "soon" } }), '`entry.cooldown` must be a span like "30m", "2h" or "7d".'],
    [document({ event: "sign up" }), "`event` must be 1 to 100 ASCII letters, digits, `.`, `:`, `_` or `-`."],
    [steps({ wait: "400d" }), "`steps[0].wait` must be at most 365 days."],
    [steps({ wait: { until: "25:00" } }), /^`steps\[0\]\.wait\.until` must be an ISO time/],
    [steps({ wait: { until: "2026-02-30T10:00:00Z" } }), /^`steps\[0\]\.wait\.until` must be an ISO time/],
    [steps({ wait: { until: "0000-01-01T00:00:00Z" } }), /^`steps\[0\]\.wait\.until` must be an ISO time/],
    [
      steps({ wait: { until: "9999-12-31T23:59:59-01:00" } }),
      /^`steps\[0\]\.wait\.until` must be an ISO time/,
    ],
    [
      steps({ wait: { until: "9999-12-31T23:00", timezone: "America/Lima" } }),
      /^`steps\[0\]\.wait\.until` must be an ISO time/,
    ],
    [
      steps({ wait: { until: "0000-06-01T23:00", timezone: "Europe/Berlin" } }),
      /^`steps\[0\]\.wait\.until` must be an ISO time/,
    ],
    [steps({ wait: { until: "2026-12-01T10:00" } }), /^`steps\[0\]\.wait\.until` must have an offset/],
    [steps({ wait: { until: "09:00", timezone: "Mars/Dome" } }), /^`steps\[0\]\.wait\.timezone` must be/],
    [steps({ wait: "1h", send: SEND }), "`steps[0]` must have exactly one of wait, send, tag, split."],
    [steps({ send: { ...SEND, subject: undefined } }), "`steps[0].send.subject` is missing."],
    [steps({ send: { ...SEND, template: "t" } }), /^`steps\[0\]\.send` must have either a `template`/],
    [steps({ send: { ...SEND, from: "nobody" } }), /^`steps\[0\]\.send\.from` must be/],
    [steps({ tag: { add: ["a"], remove: ["a"] } }), "`steps[0].tag` adds and removes the tag `a`."],
    [steps({ tag: {} }), "`steps[0].tag` must add or remove a tag."],
    [steps({ split: [{ else: [] }, { else: [] }] }), "`steps[0].split[0].else` must be the last branch."],
    [
      steps({ wait: "1h" }, { split: [{ else: [{ wait: "x" }] }] }),
      '`steps[1].split[0].else[0].wait` must be a span like "30m", "2h" or "7d".',
    ],
    [
      steps({ split: { percent: { a: 60, b: 50 }, a: [], b: [] } }),
      "`steps[0].split.percent` must add up to 100, not 110.",
    ],
    [steps({ split: { percent: { a: 100 } } }), "`steps[0].split.a` is missing."],
    [
      document({ filters: [{ field: "contact.password", eq: 1 }] }),
      /^`filters\[0\]\.field` must be event\.name/,
    ],
    [
      document({ filters: [{ field: "event.name", eq: 1, gt: 1 }] }),
      /^`filters\[0\]` must have exactly one of/,
    ],
    [
      document({ filters: [{ not: { and: [{ field: "event.name" }] } }] }),
      /^`filters\[0\]\.not\.and\[0\]` must/,
    ],
    [steps(...Array(STEPS_MAX + 1).fill({ wait: "1h" })), "`steps[150]` is more than 150 steps in all."],
    [nested(11), /is nested deeper than 10 levels of steps\.$/],
    [deepFilter(11), /is nested deeper than 10 levels of filters\.$/],
  ])("%j: %s", (json, message) => {
    const expected = typeof message === "string" ? new Error(message) : message;
    expect(() => checkDocument(JSON.parse(JSON.stringify(json)))).toThrow(expected);
  });
});

test("the limits themselves are allowed", () => {
  checkDocument(nested(10));
  checkDocument(deepFilter(10));
  expect(checkDocument(steps(...Array(STEPS_MAX).fill({ wait: "365d" }))).steps).toHaveLength(STEPS_MAX);
});

test("spans and moments", () => {
  expect(parseSpan("90s")).toBe(90_000);
  expect(parseSpan("2h")).toBe(7_200_000);
  expect(parseSpan("-2h")).toBeNull();
  expect(momentKind("2026-12-01T09:00:00+01:00")).toBe("instant");
  const at = (text: string, zone: string, now: string) =>
    new Date(momentAfter(text, zone, Date.parse(now))).toISOString();
  expect(at("09:00", "UTC", "2026-11-20T08:59:00Z")).toBe("2026-11-20T09:00:00.000Z");
  expect(at("09:00", "UTC", "2026-11-20T09:00:01Z")).toBe("2026-11-21T09:00:00.000Z");
  expect(at("09:00", "America/New_York", "2026-11-20T23:00:00Z")).toBe("2026-11-21T14:00:00.000Z");
  expect(at("09:00", "Asia/Kolkata", "2026-11-20T23:00:00Z")).toBe("2026-11-21T03:30:00.000Z");
  expect(at("2026-12-01T09:00", "Europe/Berlin", "2026-11-20T00:00:00Z")).toBe("2026-12-01T08:00:00.000Z");
  // a night that skips 02:30, and one that has it twice
  expect(at("02:30", "Europe/Berlin", "2026-03-28T23:30:00Z")).toBe("2026-03-29T01:30:00.000Z");
  expect(at("02:30", "Europe/Berlin", "2026-10-24T23:00:00Z")).toBe("2026-10-25T00:30:00.000Z");
});
