/**
 * Postgres keeps each statement with its plan while a connection lives: what a sender mixes must not make new
 * ones for ever.
 */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { columns } from "../../src/record/db/arrays.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { services } from "../rig/services.ts";

const COLUMNS = 8;
const STATEMENTS_MAX = 30;

test("rows that differ in any of eight columns are read as they are, by few statements", async () => {
  const sql = connectRecord(services().databaseUrl, "reads", 20_000);
  const connection = await sql.reserve();
  try {
    for (let differing = 0; differing < 2 ** COLUMNS; differing++) {
      const row = (n: number) => Array.from({ length: COLUMNS }, (_, c) => n * ((differing >> c) & 1));
      const rows = [0, 1, 2].map((n) => ({ id: randomUUID(), cells: row(n) }));
      const cells = Array.from({ length: COLUMNS }, (_, c) => [
        `c${c}`,
        ["int", ({ cells }: (typeof rows)[number]) => cells[c] as number] as const,
      ]);
      const list = columns(connection, rows, { id: ["uuid", ({ id }) => id], ...Object.fromEntries(cells) });
      const read = await connection<Record<string, unknown>[]>`select * from (select ${list}) r`;
      expect(read.map(({ id, ...others }) => ({ id, cells: Object.values(others) }))).toEqual(rows);
    }
    const [kept] = await connection<{ count: number }[]>`select count(*)::int from pg_prepared_statements`;
    expect(kept?.count).toBeLessThan(STATEMENTS_MAX);
  } finally {
    connection.release();
    await sql.end();
  }
});
