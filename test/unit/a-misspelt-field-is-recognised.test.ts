/** Which unknown fields of a send are taken for misspelt ones, and how little that costs. */
import Type from "typebox";
import { describe, expect, test } from "vitest";
import { READ_TO_REFUSE, SendEmail } from "../../src/api/draft.ts";
import { Misspelt, Spelling } from "../../src/api/misspelt.ts";
import { costOf } from "../rig/held.ts";

const HELD_MS_MAX = 50;
const KNOWN = Object.keys(SendEmail.properties);

describe("a name is like the field it was meant to be", () => {
  test.each([
    ["reply_too", "reply_to"],
    ["replyTo", "reply_to"],
    ["Reply-To", "reply_to"],
    ["form", "from"],
    ["subjetc", "subject"],
    ["atachments", "attachments"],
    ["schedule_at", "scheduled_at"],
    ["HTML", "html"],
    ["bccc", "bcc"],
  ])("%s: %s", (name, meant) => {
    expect(new Spelling(KNOWN).nearest(name)).toBe(meant);
  });
});

test.each([
  "metadata",
  "react",
  "campaign",
  "x",
  "priority",
  "",
  "__proto__",
  "constructor",
  "from\u202e",
  "to\n",
])("%j is like none", (name) => {
  expect(new Spelling(KNOWN).nearest(name)).toBeNull();
});

test("a name of the caller's own that is long is not repeated", () => {
  const fields = Type.Object({ column: Type.String() });
  const schema = Type.Object({ properties: Type.Record(Type.String(), fields) });
  const misspelt = new Misspelt([]);
  const colum = { colum: "x" };
  misspelt.look({ properties: { "Year of birth": colum, ["x".repeat(1_000)]: colum } }, schema, "");
  expect(misspelt.warnings.map(({ path }) => path)).toEqual(["properties.Year of birth.colum"]);
});

test("fields below others are looked at, and those of the caller's own making are not", () => {
  const misspelt = new Misspelt(READ_TO_REFUSE);
  const email = {
    to: "one@example.net",
    headers: { repli_to: "x" },
    template: { id: "t", variabels: {}, variables: { form: "x" } },
    attachments: [
      { filename: "a", content: "" },
      { filname: "b", content: "" },
    ],
    topic_id: null,
  };
  misspelt.look(email, SendEmail, "[7].");
  expect(misspelt.warnings).toEqual([
    {
      path: "[7].template.variabels",
      message: "The `[7].template.variabels` field is not known and is ignored. Did you mean `variables`?",
    },
    {
      path: "[7].attachments[1].filname",
      message: "The `[7].attachments[1].filname` field is not known and is ignored. Did you mean `filename`?",
    },
  ]);
});

test("there are at most ten warnings, and each is short", () => {
  const misspelt = new Misspelt([]);
  for (let n = 0; n < 100; n++) misspelt.look({ reply_too: 1, form: 2 }, SendEmail, `[${n}].`);
  expect(misspelt.warnings).toHaveLength(10);
  misspelt.look({ [`form${"m".repeat(100_000)}`]: 1 }, SendEmail, "");
  for (const { message } of misspelt.warnings) expect(message.length).toBeLessThan(200);
});

/** The main thread parses up to 128 KB itself, which hold no more names than this. */
test("fifteen thousand unknown names cost less than 50 ms", () => {
  const names = Array.from({ length: 15_000 }, (_, n) => [`reply_${n.toString(36)}`, n]);
  const email = Object.fromEntries(names);
  const look = () => new Misspelt([]).look(email, SendEmail, "");
  expect(costOf(look, HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
});
