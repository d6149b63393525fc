import type { Sql } from "../../src/record/db/connect.ts";

/** What Postgres refuses to do in a transaction, as `vacuum` and `create database`. */
export async function outsideTransactions(sql: Sql, statement: string): Promise<void> {
  const connection = await sql.reserve();
  try {
    await connection.unsafe(statement);
  } finally {
    connection.release();
  }
}
