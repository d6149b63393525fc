/**
 * Stored text of tenants is printed by operators: no terminal obeys it, no row looks like another, no
 * spreadsheet runs it.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const HOSTILE = "\u001b]0;owned\u0007\u001b[2J\u009b31m\r\nok  all is well\u202e\u007f";
// biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal obeys
const OBEYED = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/;

let engine: Engine;
let ws: TestWorkspace;
let audienceId: string;
let folder: string;
beforeAll(async () => {
  engine = await startEngine();
  folder = mkdtempSync(join(tmpdir(), "postrider-export-"));
  ws = await engine.workspace();
  const { body } = await ws.client.post<{ id: string }>("/audiences", { name: "All" });
  audienceId = body.id;
  const contacts = `/audiences/${audienceId}/contacts`;
  await ws.client.post(contacts, { email: "ann@example.net", first_name: "=1+1", last_name: "\tcmd" });
  await ws.client.post(contacts, { email: "+1@example.net", first_name: "@SUM(A1)", last_name: "-2" });
  await ws.client.post(contacts, { email: "wide@example.net", first_name: "＝1+1", last_name: "a;=1+1;b" });
  await ws.client.post(contacts, { email: "tags@example.net", tags: ["a", "@SUM(A1)"] });
  // as a tenant may have stored it by any way
  await engine.sql`update contact set first_name = ${HOSTILE}, tags = array[${HOSTILE}],
    properties = ${engine.sql.json({ key: HOSTILE })} where workspace_id = ${ws.id} and email = 'ann@example.net'`;
  await engine.sql`update workspace set name = ${HOSTILE} where id = ${ws.id}`;
  await engine.sql`update api_key set name = ${HOSTILE} where workspace_id = ${ws.id}`;
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await engine.stop();
});

const { postrider } = commandLine();

test("whatever is stored, commands print text and JSON without control characters", async () => {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail());
  expect(status, JSON.stringify(body)).toBe(200);
  await engine.sql`update email set head = ${engine.sql.json({ from: HOSTILE, to: [HOSTILE], subject: HOSTILE })}
    where id = ${body.id}`;
  const commands = [
    ["workspace", "list"],
    ["key", "list", "--workspace", ws.id],
    ["contact", "show", "ann@example.net", "--audience", audienceId],
    ["email", "find", body.id],
  ];
  for (const command of commands) {
    const text = await postrider(...command);
    expect(text, text.err).toMatchObject({ status: 0 });
    expect(text.out, command.join(" ")).not.toMatch(OBEYED);
    expect(text.out).not.toMatch(/^ok {2}all is well/m);
    const json = await postrider(...command, "--json");
    expect(json.out).not.toMatch(OBEYED);
    expect(JSON.stringify(JSON.parse(json.out))).toContain("all is well");
    expect(JSON.stringify(JSON.parse(json.out))).toContain(JSON.stringify(HOSTILE).slice(1, -1));
  }
});

test("an export for a spreadsheet has no formulas; one that cannot be written says so in one line", async () => {
  const file = join(folder, "people.csv");
  const at = ["--audience", audienceId];
  expect(await postrider("contact", "export", file, ...at, "--excel-safe")).toMatchObject({ status: 0 });
  const lines = readFileSync(file, "utf8").split("\r\n");
  const lineOf = (email: string) => lines.find((one) => one.includes(email));
  expect(lineOf("+1@example.net")).toMatch(/^'\+1@example\.net,'@SUM\(A1\),'-2,/);
  expect(lineOf("wide@example.net")).toContain(",'＝1+1,a;'=1+1;b,");
  expect(lineOf("tags@example.net")).toMatch(/,a;'@SUM\(A1\)|,'@SUM\(A1\);a,/);
  const plain = await postrider("contact", "export", ...at);
  expect(plain.out).toContain("\r\n+1@example.net,@SUM(A1),-2,");
  const refused = await postrider("contact", "export", join(folder, "no", "such", "folder.csv"), ...at);
  expect(refused.status).toBe(1);
  expect(refused.err).toMatch(/^.*folder\.csv cannot be written: .*\n$/);
});
