/** Columns that go to Postgres as one parameter come out as they went in. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { columns, plainArray, texts } from "../../src/record/db/arrays.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { services } from "../rig/services.ts";

const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom("", ",", "-", "null", "NULL", '"', "\\", "{}", "\u0001", "é\u{1f600}"),
);

test("any texts, and none", async () => {
  const sql = connectRecord(services().databaseUrl, "reads", 20_000);
  const wellFormed = text.filter((one) => one.isWellFormed() && !one.includes("\0"));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.option(wellFormed), { maxLength: 8 }), async (given) => {
      const rows = await sql<{ one: string | null }[]>`
        select one from unnest(${texts(sql, given)}) with ordinality as t(one, n) order by n`;
      expect(rows.map(({ one }) => one)).toEqual(given);
    }),
    { numRuns: 300 },
  );
  await sql.end();
});

test("any rows, alike or not, and none", async () => {
  const sql = connectRecord(services().databaseUrl, "reads", 20_000);
  const wellFormed = text.filter((one) => one.isWellFormed() && !one.includes("\0"));
  const row = fc.record({
    name: fc.option(wellFormed),
    word: fc.constantFrom("", "delivered", "{0,1}", "null", null),
    id: fc.option(fc.uuid()),
    isOne: fc.boolean(),
    count: fc.option(fc.integer({ min: -9, max: 9 })),
    at: fc.constantFrom("2026-11-20T10:00:00.123Z", null),
    ms: fc.constantFrom(0, 0.5, 1_795_368_499_502.25, null),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(row, { maxLength: 4 }), async (given) => {
      const rows = await sql<{ at: Date | null }[]>`
        select * from (select ${columns(sql, given, {
          name: ["text", ({ name }) => name],
          word: ["word", ({ word }) => word],
          id: ["uuid", ({ id }) => id],
          isOne: ["bool", ({ isOne }) => isOne],
          count: ["int", ({ count }) => count],
          at: ["timestamptz", ({ at }) => at],
          ms: ["float8", ({ ms }) => ms],
        })}) r`;
      expect(rows.map((one) => ({ ...one, at: one.at?.toISOString() ?? null }))).toEqual(given);
    }),
    { numRuns: 300 },
  );
  await sql.end();
});

test("numbers, booleans, times and ids, and none", async () => {
  const sql = connectRecord(services().databaseUrl, "reads", 20_000);
  const [row] = await sql`
    select ${plainArray([1, -2.5, null])}::float8[]::text as numbers, ${plainArray([true, null, false])}::bool[]::text as truths,
           ${plainArray(["2026-11-20T10:00:00.123Z", null])}::timestamp[]::text as times,
           ${plainArray([])}::uuid[]::text as ids`;
  expect(row).toEqual({
    numbers: "{1,-2.5,NULL}",
    truths: "{t,NULL,f}",
    times: '{"2026-11-20 10:00:00.123",NULL}',
    ids: "{}",
  });
  await sql.end();
});
