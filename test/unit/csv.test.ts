/** Comma-separated values as they come: in chunks cut anywhere, and with lines that nobody ended. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { type CsvRecord, csvRecords } from "../../src/audience/csv.ts";
import { columnsOf } from "../../src/audience/import.ts";

const MB = 1024 * 1024;
const RECORD_BYTES_MAX = 64 * 1024;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** What is still there when nothing is left to be collected. */
function bytesHeld(): number {
  for (let n = 0; n < 2; n++) collectGarbage(); // buffers are freed behind a collection, and before the next
  return process.memoryUsage().arrayBuffers;
}

test.each([1, 2, 3, 7, 1_000])("records are the same in chunks of %i bytes", async (bytes) => {
  const text = '\uFEFFemail,name\r\n"a@x","Two\nlines, ""quoted"""\n\nb@x,ö\nc@x,last';
  const records = await recordsOf(cut(Buffer.from(text), bytes));
  expect(records.map(({ fields }) => fields)).toEqual([
    ["email", "name"],
    ["a@x", 'Two\nlines, "quoted"'],
    ["b@x", "ö"],
    ["c@x", "last"],
  ]);
  expect(records.map(({ line, nextLine }) => [line, nextLine])).toEqual([
    [1, 2],
    [2, 4],
    [5, 6],
    [6, 6],
  ]);
  for (const [n, { end, nextLine }] of records.entries())
    expect(await recordsOf(cut(Buffer.from(text).subarray(end), bytes), end, nextLine)).toEqual(
      records.slice(n + 1),
    );
});

test("a line without an end is a record that cannot be read, and is not held", async () => {
  const before = bytesHeld();
  let heldAtItsEnd = 0;
  const atItsEnd = () => {
    heldAtItsEnd = bytesHeld() - before;
  };
  const records = await recordsOf(lineOf(128 * MB, "a@x\n", "\nb@x\n", atItsEnd));
  expect(heldAtItsEnd).toBeLessThan(16 * MB);
  expect(records.map(({ fields, line }) => [fields, line])).toEqual([
    [["a@x"], 1],
    [null, 2],
    [["b@x"], 3],
  ]);
  expect(records[1]?.raw).toHaveLength(RECORD_BYTES_MAX);
  expect(records[2]?.end).toBe(128 * MB + 9);
});

test("a quote that nobody closed ends with the line that is over 64 KB", async () => {
  const line = "c@x,a name\n";
  const lines = Math.ceil(RECORD_BYTES_MAX / line.length);
  const records = await recordsOf(cut(Buffer.from(`"open\n${line.repeat(lines)}last@x\n`), 65_536));
  expect(records.at(0)?.fields).toBeNull();
  expect(records.at(-1)).toMatchObject({ fields: ["last@x"], line: lines + 2 });
  expect(records.length).toBeLessThan(5);
});

test.each([
  ["carriage returns alone", "email,name\ra@x,Ann\rb@x,Bob\r", "the lines end with carriage returns alone"],
  ["such ends, the address last", "name,email\rAnn,a@x", "the lines end with carriage returns alone"],
  ["semicolons", "name;email\nAnn;a@x\n", "has semicolons between its cells"],
  ["tabs", "name\temail\nAnn\ta@x\n", "has tabs between its cells"],
])("a file with %s is refused in words, not taken for one without rows", async (_, text, reason) => {
  const [header] = await recordsOf(cut(Buffer.from(text), 1_000));
  expect(() => columnsOf(header as CsvRecord)).toThrow(reason);
});

test("a quoted name of a column may have line breaks", async () => {
  const [header] = await recordsOf(cut(Buffer.from('email,"home\r\ntown"\r\na@x,Rome\r\n'), 1_000));
  expect(columnsOf(header as CsvRecord)).toEqual(["email", "home\r\ntown"]);
});

async function recordsOf(chunks: AsyncIterable<Buffer>, from?: number, line?: number): Promise<CsvRecord[]> {
  const records: CsvRecord[] = [];
  for await (const record of csvRecords(chunks, from, line)) records.push(record);
  return records;
}

async function* cut(text: Buffer, bytes: number): AsyncGenerator<Buffer> {
  for (let n = 0; n < text.byteLength; n += bytes) yield text.subarray(n, n + bytes);
}

async function* lineOf(
  bytes: number,
  before: string,
  after: string,
  atItsEnd: () => void,
): AsyncGenerator<Buffer> {
  yield Buffer.from(before);
  for (let n = 0; n < bytes; n += MB) yield Buffer.alloc(MB, "x");
  atItsEnd();
  yield Buffer.from(after);
}
