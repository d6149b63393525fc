/** `postrider contact import | export | show`: files of contacts, with what is wrong in them. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { csvRecords } from "../../src/audience/csv.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openProxy } from "../rig/proxy.ts";
import { services } from "../rig/services.ts";
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
  expect(ran.out).toBe(`4 imported, 4 skipped. The skipped rows are in ${file}.skipped.csv.\n`);
  expect(ran.err).toContain("line 5: `nobody` is not an address");
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

test("a name and a tag that the API takes come back from an export, whatever their characters", async () => {
  const audience = await newAudience();
  const [name, tag] = ["\u{1F600}".repeat(200), "\u{1F600}".repeat(100)];
  const wide = { email: "wide@x.example", first_name: name, tags: [tag] };
  expect((await client.post(`/audiences/${audience}/contacts`, wide)).status).toBe(201);
  const file = join(folder, "wide.csv");
  expect((await postrider("contact", "export", file, "--audience", audience)).status).toBe(0);
  const other = await newAudience();
  expect((await postrider("contact", "import", file, "--audience", other)).out).toBe(
    "1 imported, 0 skipped.\n",
  );
  expect(await contact(other, wide.email)).toMatchObject(wide);
  writeFileSync(file, `email,first_name\nlong@x.example,${name}x\n`);
  expect((await postrider("contact", "import", file, "--audience", other)).err).toContain(
    "first_name has more than 200 characters",
  );
});

test("an import that is killed goes on where it was, and everybody is there at the end", async () => {
  const audience = await newAudience();
  const file = join(folder, "killed.csv");
  const count = 20_000;
  const rows = Array.from({ length: count }, (_, n) => `n${n}@x.example`);
  writeFileSync(file, `email\n${rows.join("\n")}\n`);
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  const toPostgres = await openProxy({ port: Number(port) });
  const databaseUrl = `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`;
  const isMidway = toPostgres.stallRequest((request) => /n15\d{3}@/.test(request.toString("latin1")));
  const killed = commandLine({ databaseUrl }).begin("contact", "import", file, "--audience", audience);
  const ended = once(killed, "close");
  await isMidway;
  killed.kill("SIGKILL");
  expect(await ended).toEqual([null, "SIGKILL"]);
  await toPostgres.close();
  const mark = JSON.parse(readFileSync(`${file}.progress`, "utf8"));
  expect(mark.imported).toBeGreaterThan(0);
  expect(mark.imported).toBeLessThan(count);
  const ran = await postrider("contact", "import", file, "--audience", audience);
  const rest = (count - mark.imported).toLocaleString("en-US");
  expect(ran.out).toBe(`${rest} imported, 0 skipped (continued at line ${mark.line}).\n`);
  const [{ people } = { people: 0 }] = await engine.sql<{ people: number }[]>`
    select count(*)::int as people from contact where audience_id = ${audience}`;
  expect(people).toBe(count);
  expect(existsSync(`${file}.progress`)).toBe(false);
});

test("a mark counts for the file it was made of, and one that cannot be read counts for none", async () => {
  const audience = await newAudience();
  const file = join(folder, "marked.csv");
  const rows = (letter: string) => Array.from({ length: 4 }, (_, n) => `${letter}${n}@x.example\n`);
  const importing = () => postrider("contact", "import", file, "--audience", audience);
  writeFileSync(file, `email\n${rows("a").join("")}`);
  const text = readFileSync(file);
  const mark = {
    audienceId: audience,
    size: text.byteLength,
    head: createHash("sha256").update(text).digest("hex"),
    imported: 2,
    skipped: 0,
    end: "email\n".length + rows("a").slice(0, 2).join("").length,
    line: 4,
  };
  writeFileSync(`${file}.progress`, JSON.stringify(mark));
  expect((await importing()).out).toBe("2 imported, 0 skipped (continued at line 4).\n");
  writeFileSync(`${file}.progress`, JSON.stringify(mark));
  writeFileSync(file, `email\n${rows("b").join("")}`);
  expect((await importing()).out).toBe("4 imported, 0 skipped.\n");
  writeFileSync(`${file}.progress`, "");
  const ran = await importing();
  expect(ran.err).toContain("cannot be read");
  expect(ran.out).toBe("4 imported, 0 skipped.\n");
});

test("what one audience exports another takes in, and it stays the same", async () => {
  const [from, into] = [await newAudience(), await newAudience()];
  const people = [
    {
      email: "odd@x.example",
      first_name: " Ann,\n",
      last_name: '"O"',
      tags: ["a;b", " c", "[", "d"],
      properties: { visits: 3, deep: { list: [1, null, "x"] }, status: "gold" },
    },
    { email: "plain@x.example", tags: ["a", "b"] },
    { email: "listed@x.example", tags: ['["a"]'] },
    { email: "out@x.example", first_name: "Out", unsubscribed: true },
  ];
  for (const person of people) await client.post(`/audiences/${from}/contacts`, person);
  const file = join(folder, "moved.csv");
  expect((await postrider("contact", "export", file, "--audience", from)).status).toBe(0);
  expect((await recordsOf(file)).map((fields) => fields[5])).toContain("a;b");
  const ran = await postrider("contact", "import", file, "--audience", into);
  expect(ran.out).toBe("4 imported, 0 skipped.\n");
  const moved = { id: expect.any(String), created_at: expect.any(String), updated_at: expect.any(String) };
  for (const { email } of people)
    expect(await contact(into, email)).toEqual({ ...(await contact(from, email)), ...moved });
});

test("who never confirmed is not taken along as subscribed", async () => {
  const [from, into] = [await newAudience(true), await newAudience()];
  await client.post(`/audiences/${from}/contacts`, { email: "asked@x.example" });
  const file = join(folder, "pending.csv");
  await postrider("contact", "export", file, "--audience", from);
  const ran = await postrider("contact", "import", file, "--audience", into);
  expect(ran.out).toContain("0 imported, 1 skipped.");
  expect(ran.err).toContain("line 2: the contact has not confirmed");
  const agreed = await postrider(
    "contact",
    "import",
    file,
    "--audience",
    into,
    "--restart",
    "--consent",
    "the old shop",
  );
  expect(agreed.out).toContain("1 imported, 0 skipped.");
  expect(await contact(into, "asked@x.example")).toMatchObject({ status: "subscribed" });
});

test("properties of an export that cannot be kept put the record aside", async () => {
  const audience = await newAudience();
  const file = join(folder, "forged.csv");
  const head = "email,first_name,last_name,status,unsubscribed,tags,properties,id,created_at,updated_at\n";
  const record = (email: string, properties: string) =>
    `${email},,,,,,"${properties.replaceAll('"', '""')}",,,\n`;
  const deep = `${'{"a":'.repeat(40)}1${"}".repeat(40)}`;
  const bad = ["[1]", "none", '{"a":"\\u0000"}', '{"a":"\\ud800"}', deep];
  writeFileSync(
    file,
    head + record("good@x.example", "{}") + bad.map((p) => record("b@x.example", p)).join(""),
  );
  const ran = await postrider("contact", "import", file, "--audience", audience);
  expect(ran.out).toContain("1 imported, 5 skipped.");
  expect(ran.err).toContain("line 3: properties is not a JSON object");
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
