import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { arrayTypes } from "../../src/record/db/arraytypes.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { services } from "../rig/services.ts";

const RECORD = fileURLToPath(new URL("../../src/record/", import.meta.url));

const sql = connectRecord(services().databaseUrl, "reads", 20_000);
afterAll(() => sql.end());

const oids = Object.values(arrayTypes()).map(({ to }) => to);

test("every array type of the schema and of the statements is known to the client", async () => {
  const written = readdirSync(RECORD, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .flatMap((name) => [...readFileSync(RECORD + name, "utf8").matchAll(/::(\w+\[\])/g)])
    .map(([, type]) => type as string);
  expect(written).toContain("uuid[]");
  const used = await sql<{ oid: number; name: string }[]>`
    select t.oid::int, t.typname as name from pg_type t
    where t.oid = any(select name::regtype from unnest(${[...new Set(written)]}::text[]) as name)
       or t.oid in (select a.atttypid from pg_attribute a join pg_class c on c.oid = a.attrelid
                    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and a.attndims > 0)`;
  expect(used.map(({ name }) => name)).toEqual(expect.arrayContaining(["_uuid", "_int4", "_text"]));
  expect(used.filter(({ oid }) => !oids.includes(oid))).toEqual([]);
});

const ID = "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b";

test.each<[string, (string | number | boolean | null)[]]>([
  [
    "text",
    ["a", "", "null", "NULL", null, 'say "hi"', "back\\slash", "comma, brace } {", "line\nbreak", "ü€😀"],
  ],
  ["varchar", ["a b", null]],
  ["uuid", [ID, null]],
  ["int2", [-1, null]],
  ["int4", [1, null, -2_147_483_648]],
  ["float4", [0.5, null]],
  ["float8", [1.5, null, -1e300]],
  ["int8", ["9007199254740993", null]],
  ["numeric", ["0.10", null]],
])("%s[]", async (type, elements) => {
  const [row] = await sql`
    select ${elements}::${sql.unsafe(type)}[] as all, ${[]}::${sql.unsafe(type)}[] as none,
           ${elements.slice(0, 1)}::${sql.unsafe(type)}[] as one`;
  expect(row).toEqual({ all: elements, none: [], one: elements.slice(0, 1) });
});

test("booleans and times: written as texts, read as themselves", async () => {
  const at = new Date("2026-11-20T12:00:00.123Z");
  const [row] = await sql`
    select ${"{t,f,null}"}::bool[] as facts, ${[at.toISOString(), null]}::timestamptz[] as times`;
  expect(row).toEqual({ facts: [true, false, null], times: [at, null] });
});

test("an undefined element is refused, and its neighbours are not disturbed", async () => {
  const ask = (elements: unknown[]) => sql`select ${elements as string[]}::text[] as all`;
  await ask(["a"]);
  const [before, broken, after] = await Promise.allSettled([ask(["b"]), ask(["c", undefined]), ask(["d"])]);
  expect(before).toMatchObject({ status: "fulfilled", value: [{ all: ["b"] }] });
  expect(broken).toMatchObject({ status: "rejected", reason: { code: "22P02" } });
  expect(after).toMatchObject({ status: "fulfilled", value: [{ all: ["d"] }] });
});
