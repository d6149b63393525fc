/**
 * Members of any workspace import files in the process of the console. What is odd in them costs no more than
 * it is long.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { csvRecords } from "../../src/audience/csv.ts";
import { columnsOf } from "../../src/audience/import.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { heldBy } from "../rig/held.ts";
import { type Browser, signedIn } from "../rig/people.ts";

const HELD_MS_MAX = 50;

let engine: Engine;
let browser: Browser;
let audience: string;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
  const workspace = await engine.workspace();
  browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "member");
  audience = (await browser.post<{ id: string }>("v1/audiences", { name: "A" })).body.id;
});
afterAll(() => engine.stop());

test.each([
  [15_000, "the first line names 15001 columns; there can be up to 500"],
  [150_000, "the first line cannot be read: it is over 64 KB"],
])("a line that names %i columns is refused at once", async (columns, reason) => {
  const names = ["email", ...Array.from({ length: columns }, (_, n) => n.toString(36))];
  const file = Buffer.from(`${names.join(",")}\n`);
  const read = async () => {
    const { value } = await csvRecords(oneChunk(file)).next();
    expect(() => columnsOf(value)).toThrow(reason);
  };
  expect(await heldBy(read, HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
});

test.each([
  ["quotes", `"${'""'.repeat(512 * 1024)}"`],
  ["commas", ",".repeat(1024 * 1024)],
  ["quoted fields", '"",'.repeat(350_000)],
])("a row of 1 MB of %s is no contact, and holds up nobody", async (_, row) => {
  const file = Buffer.from(`email\n${row}\na@example.net\n`);
  const read = async () => {
    const rows: (string[] | null)[] = [];
    for await (const { fields } of csvRecords(oneChunk(file))) rows.push(fields);
    expect(rows).toEqual([["email"], null, ["a@example.net"]]);
  };
  expect(await heldBy(read, HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
});

test("many short lines in another charset are told from contacts at once", async () => {
  const lines = 6_000;
  const file = Buffer.from("\u00e9\n".repeat(lines), "latin1");
  const read = async () => {
    let unread = 0;
    for await (const { fields } of csvRecords(oneChunk(file))) if (fields === null) unread++;
    expect(unread).toBe(lines);
  };
  expect(await heldBy(read, HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
});

test.each([
  ["LF", "\n".repeat(1024 * 1024)],
  ["CRLF", "\r\n".repeat(512 * 1024)],
])("1 MB of empty lines with %s holds up nobody", async (_, lines) => {
  const file = Buffer.from(`${lines}email\n${lines}a@example.net\n`);
  const read = async () => {
    const found: number[] = [];
    for await (const { line } of csvRecords(oneChunk(file))) found.push(line);
    const empty = lines.length / (lines.startsWith("\r") ? 2 : 1);
    expect(found).toEqual([empty + 1, 2 * empty + 2]);
  };
  expect(await heldBy(read, HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
});

test.each([
  ["email,a,a\n", "the column `a` appears twice"],
  ["name\nx\n", "the first line must name the columns, one of them `email`"],
  ["\n", "the file is empty"],
])("what is wrong in a file is told to its owner, and is no fault of the engine", async (csv, reason) => {
  const { body } = await browser.post<{ id: string }>("contacts/import", { audience_id: audience, csv });
  const ended = () => browser.get<{ state: string; reason: string }>(`contacts/import/${body.id}`);
  await expect.poll(async () => (await ended()).body.state).toBe("failed");
  expect((await ended()).body.reason).toBe(reason);
  expect(engine.complaints).toEqual([]);
});

async function* oneChunk(file: Buffer): AsyncGenerator<Buffer> {
  yield file;
}
