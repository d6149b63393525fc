/** `postrider contact import | export | show`: files of contacts, with what is wrong in them. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { csvRecords } from "../../src/audience/csv.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import type { Client } from "../rig/workspace.ts";

let engine: Engine;
let client: Client;
let folder: string;
const { postrider, json } = commandLine();
beforeAll(async () => {
  engine = await startEngine(["api"]);
  client = (await engine.workspace()).client;
  folder = mkdtempSync(join(tmpdir(), "contacts-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await engine.stop();
});

type Contact = { email: string; first_name: string; tags: string[]; properties: object; status: string };

test("contacts are imported, what is none is put aside with its line, and all of them come out again", async () => {
  const audience = await newAudience();
  const file = join(folder, "people.csv");
  writeFileSync(
    file,
    Buffer.concat([
      Buffer.from(
        '\uFEFFemail,first_name,tags,city,unsubscribed\r\nanna@x.example,"Anna, the ""first""",a; b,Köln,\r\n',
      ),
      Buffer.from('"multi@x.example","Two\nlines",,,\nnobody,,,,\n\nbad"quote@x.example,,,,\n'),
      Buffer.from([0x80, 0x40, 0x78, 0x0a]),
      Buffer.from("too,many,fields,in,this,record\nout@x.example,,,,yes\nanna@X.example,,c,,false"),
    ]),
  );
  const ran = await postrider("contact", "import", file, "--audience", audience);
  expect(ran.status, ran.err).toBe(0);
  expect(ran.out).toBe(`4 imported, 4 skipped. What was skipped is in ${file}.skipped.csv.\n`);
  expect(ran.err).toContain("line 5: `nobody` is no address");
  expect(await contact(audience, "anna@x.example")).toMatchObject({
    email: "anna@x.example",
    first_name: 'Anna, the "first"',
    tags: ["a", "b", "c"],
    properties: { city: "Köln" },
    status: "subscribed",
  });
  expect(await contact(audience, "multi@x.example")).toMatchObject({ first_name: "Two\nlines" });
  expect(await contact(audience, "out@x.example")).toMatchObject({ status: "unsubscribed" });
  const skipped = await recordsOf(`${file}.skipped.csv`);
  expect(skipped.map(([line]) => line)).toEqual(["line", "5", "7", "8", "9"]);

  const out = join(folder, "out.csv");
  expect((await postrider("contact", "export", out, "--audience", audience)).status).toBe(0);
  const exported = await recordsOf(out);
  expect(exported).toHaveLength(4);
  expect(exported.slice(1).map(([email]) => email)).toEqual([
    "out@x.example",
    "multi@x.example",
    "anna@x.example",
  ]);
});

test("an import that was broken off goes on where it was", async () => {
  const audience = await newAudience();
  const file = join(folder, "half.csv");
  const rows = Array.from({ length: 100 }, (_, n) => `n${n}@x.example`);
  writeFileSync(file, `email\n${rows.join("\n")}\n`);
  const end = "email\n".length + rows.slice(0, 50).join("\n").length + 1;
  const size = readFileSync(file).byteLength;
  writeFileSync(
    `${file}.progress`,
    JSON.stringify({ audienceId: audience, size, imported: 50, skipped: 0, end, line: 52 }),
  );
  const ran = await postrider("contact", "import", file, "--audience", audience);
  expect(ran.out).toBe("50 imported, 0 skipped (begun again at line 52).\n");
  expect((await client.get(`/audiences/${audience}/contacts/n49@x.example`)).status).toBe(404);
  expect((await client.get(`/audiences/${audience}/contacts/n50@x.example`)).status).toBe(200);
  const again = await postrider("contact", "import", file, "--audience", audience);
  expect(again.out).toBe("100 imported, 0 skipped.\n");
});

test("in an audience with double opt-in contacts are pending, unless it is said where they agreed", async () => {
  const audience = await newAudience(true);
  const file = join(folder, "opt-in.csv");
  writeFileSync(file, "email\nasked@x.example\n");
  await postrider("contact", "import", file, "--audience", audience);
  expect(await contact(audience, "asked@x.example")).toMatchObject({ status: "pending" });
  await postrider("contact", "import", file, "--audience", audience, "--consent", "the old shop");
  expect(await contact(audience, "asked@x.example")).toMatchObject({ status: "subscribed" });
  const shown = await json<{ consents: object[] }>(
    "contact",
    "show",
    "asked@x.example",
    "--audience",
    audience,
  );
  expect(shown.consents).toMatchObject([{ kind: "given", source: "the old shop" }]);
});

test("what somebody agreed to is shown in its words, also when the contact is archived", async () => {
  const audience = await newAudience();
  const who = "agreed@x.example";
  await client.post(`/audiences/${audience}/contacts`, {
    email: who,
    consent: {
      source: "form",
      captured_at: "2026-01-05T10:00:00Z",
      text: "Yes, write to me.\nTwice a week.",
      text_version: "7b",
    },
  });
  const shown = await postrider("contact", "show", who, "--audience", audience);
  expect(shown.out).toContain("is subscribed since");
  expect(shown.out).toContain(
    "text, given 2026-01-05T10:00:00.000Z, version 7b:\n  Yes, write to me.\n  Twice a week.\n",
  );
  await client.call("DELETE", `/audiences/${audience}/contacts/${who}`);
  const archived = await postrider("contact", "show", who, "--audience", audience);
  expect(archived.out).toMatch(/is archived since .*, and was subscribed\n/);
  expect(archived.out).toContain("Yes, write to me.");
});

test.each([
  ["nothing.csv", null, "There is no file"],
  ["empty.csv", "", "is empty"],
  ["columns.csv", "name\nx\n", "one of them `email`"],
])("%s is refused in a line", async (name, text, message) => {
  const file = join(folder, name);
  if (text !== null) writeFileSync(file, text);
  const ran = await postrider("contact", "import", file, "--audience", await newAudience());
  expect(ran.status).toBe(1);
  expect(ran.err).toContain(message);
});

async function newAudience(doubleOptIn = false): Promise<string> {
  return (await client.post<{ id: string }>("/audiences", { name: "People", double_opt_in: doubleOptIn }))
    .body.id;
}

async function contact(audience: string, email: string): Promise<Contact> {
  return (await client.get<Contact>(`/audiences/${audience}/contacts/${email}`)).body;
}

async function recordsOf(file: string): Promise<string[][]> {
  const records: string[][] = [];
  const chunks = (async function* () {
    yield readFileSync(file);
  })();
  for await (const { fields } of csvRecords(chunks)) records.push(fields ?? []);
  return records;
}
