/** Members of any workspace import files in the process of the console. What is odd in them costs no more than it is long. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { csvRecords } from "../../src/audience/csv.ts";
import { columnsOf } from "../../src/audience/import.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { heldBy } from "../rig/held.ts";
import { type Browser, signedIn } from "../rig/people.ts";

const HELD_MS_MAX = 150; // reading 1 MB of one line, on a busy machine

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

test("a line that names 150,000 columns is refused at once", async () => {
  const names = ["email", ...Array.from({ length: 150_000 }, (_, n) => n.toString(36))];
  const file = Buffer.from(`${names.join(",")}\n`);
  const read = async () => {
    const { value } = await csvRecords(oneChunk(file)).next();
    expect(() => columnsOf(value)).toThrow("the first line names 150001 columns; there can be up to 500");
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
