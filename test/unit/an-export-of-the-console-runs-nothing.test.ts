import { expect, test } from "vitest";
import { csvOf } from "../../console/csv.ts";

test.each([
  ["=1+1", "'=1+1"],
  ["+1", "'+1"],
  ["-1", "'-1"],
  ["@SUM(A1)", "'@SUM(A1)"],
  ["\t=1", "'\t'=1"],
  ["\n=1", `"'\n'=1"`],
  ["x\n=1", `"x\n'=1"`],
  ["\uff1d1+1", "'\uff1d1+1"],
  ["\uff20SUM(A1)", "'\uff20SUM(A1)"],
  // where a comma is a decimal point, a semicolon ends the cell
  ["x;=cmd|' /C calc'!A0;y", "x;'=cmd|' /C calc'!A0;y"],
  // and quotes that are written twice are an empty text before the rest of the next
  ['x;"=cmd', `"x;'""=cmd"`],
  ['x\n""@SUM(A1)', `"x\n'""""@SUM(A1)"`],
  ['x;"y"', '"x;""y"""'],
  ["a@example.com", "a@example.com"],
  ["2 - 1 = 1", "2 - 1 = 1"],
])("%j is text in every spreadsheet", (cell, written) => {
  expect(csvOf([[cell]])).toBe(`${written}\r\n`);
});

test("numbers stay numbers", () => {
  expect(csvOf([[-1, 2, null, undefined]])).toBe("-1,2,,\r\n");
});
