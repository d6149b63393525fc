import { expect, test } from "vitest";
import {
  arrayOf,
  bigint,
  holdTo,
  integer,
  json,
  oneOf,
  orNull,
  type RowKinds,
  text,
  timestamp,
  WrongRow,
} from "../../src/record/db/rowshape.ts";

const [INT4, INT8, TEXT, TEXTS, TIMESTAMPTZ, JSONB] = [23, 20, 25, 1009, 1184, 3802];
const STATEMENT = "select something";

test("an answer of its shape is taken", () => {
  const shape = {
    version: integer,
    sequence: bigint,
    state: oneOf("open", "closed"),
    names: arrayOf(orNull(text)),
    at: orNull(timestamp),
    head: json<{ to: string }>(),
  };
  const columns = {
    version: INT4,
    sequence: INT8,
    state: TEXT,
    names: TEXTS,
    at: TIMESTAMPTZ,
    head: JSONB,
  };
  const row = { version: 1, sequence: "12", state: "open", names: ["a", null], at: null, head: { to: "" } };
  expect(() => hold(shape, columns, [row, { ...row, at: new Date(0) }])).not.toThrow();
});

test.each<[string, RowKinds, Record<string, number>, object[], string]>([
  ["a missing column", { a: text, b: text }, { a: TEXT }, [], 'column "b" is declared and does not come'],
  ["an unexpected column", {}, { a: TEXT }, [], 'column "a" comes and is not declared'],
  ["another type", { a: integer }, { a: INT8 }, [], 'column "a" is declared integer and comes as the type'],
  ["a null", { a: text }, { a: TEXT }, [{ a: null }], 'column "a" is declared text and comes as null'],
  [
    "an unknown word",
    { a: oneOf("open", "closed") },
    { a: TEXT },
    [{ a: "open" }, { a: "ajar" }],
    'column "a" is declared open | closed and comes as "ajar"',
  ],
  [
    "a null in an array",
    { a: arrayOf(text) },
    { a: TEXTS },
    [{ a: ["x", null] }],
    'column "a" is declared array of text and comes as an array with other elements',
  ],
  [
    "a JSON null",
    { a: json() },
    { a: JSONB },
    [{ a: null }],
    'column "a" is declared json and comes as null',
  ],
])("%s is refused, with its column and statement", (_, shape, columns, rows, words) => {
  expect(() => hold(shape, columns, rows)).toThrow(WrongRow);
  expect(() => hold(shape, columns, rows)).toThrow(words);
  expect(() => hold(shape, columns, rows)).toThrow(`in: ${STATEMENT}`);
});

test("contents are not repeated", () => {
  const rows = [{ a: "ada@example.com" }];
  expect(() => hold({ a: integer }, { a: INT4 }, rows)).toThrow("comes as another text");
});

function hold(shape: RowKinds, columns: Record<string, number>, rows: readonly object[]): void {
  const described = Object.entries(columns).map(([name, type]) => ({ name, type }));
  holdTo(shape, Object.assign([...rows], { columns: described, statement: { string: STATEMENT } }));
}
