/** An object of very many fields is dear to look through, wherever in an automation's document it stands. */
import { expect, test } from "vitest";
import { checkDocument, DocumentError } from "../../src/automation/document.ts";
import { costOf } from "../rig/held.ts";

const WORKED_MS_MAX = 50;
const FIELDS = 45_000;
const wide = () => Object.fromEntries(Array.from({ length: FIELDS }, (_, n) => [`z${n}`, 0]));
const document = {
  name: "Wide",
  audience_id: "01890000-0000-7000-8000-000000000000",
  event: "wide",
  entry: "every",
  steps: [{ tag: { add: ["seen"] } }],
};

test("a document as it should be is taken", () => {
  expect(checkDocument(document).name).toBe("Wide");
});

test.each([
  ["the document", () => ({ ...document, ...wide() })],
  ["its entry", () => ({ ...document, entry: wide() })],
  ["a filter", () => ({ ...document, filters: [wide()] })],
  ["a step", () => ({ ...document, steps: [wide()] })],
  ["a wait", () => ({ ...document, steps: [{ wait: wide() }] })],
  ["a mail", () => ({ ...document, steps: [{ send: wide() }] })],
  ["a tag", () => ({ ...document, steps: [{ tag: wide() }] })],
  ["a branch", () => ({ ...document, steps: [{ split: [wide()] }] })],
  ["the condition of a branch", () => ({ ...document, steps: [{ split: [{ if: wide(), steps: [] }] }] })],
])("very many fields in %s are refused before they are looked through", (_, made) => {
  const json = made();
  const work = () => expect(() => checkDocument(json)).toThrow(DocumentError);
  expect(costOf(work, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
