/**
 * Rows with long JSON that come all at once: contacts, events and automations are as long as tenants make
 * them. They are parsed in turns, whether TLS stands between or not.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { openAuthority } from "../rig/authority.ts";
import { heldBy } from "../rig/held.ts";
import { missingPgBouncer, type PgBouncer, startPgBouncer } from "../rig/pgbouncer.ts";
import { services } from "../rig/services.ts";

const CONNECTIONS = 6;
const ROWS = 500;
const LISTS = 5_000;
const HELD_MS_MAX = 50;
const TIMEOUT_MS = 30_000;

let pooler: PgBouncer;
let folder: string;
beforeAll(async () => {
  if (missingPgBouncer !== null) return;
  folder = mkdtempSync(join(tmpdir(), "postrider-long-"));
  const { key, cert } = openAuthority().certify("localhost");
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  pooler = await startPgBouncer(services().databaseUrl, [
    "pool_mode = session",
    "client_tls_sslmode = require",
    `client_tls_key_file = ${file("key.pem", key)}`,
    `client_tls_cert_file = ${file("cert.pem", cert)}`,
  ]);
});
afterAll(async () => {
  await pooler?.stop();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

type Row = { n: number; properties: { a: unknown[] }; tags: string[] };

function longRows(sql: Sql): Promise<Row[]> {
  return sql<Row[]>`
    select n, ('{"a":[' || repeat('[],', ${LISTS - 1}) || '[]]}')::json as properties,
      (select array_agg('tag ' || m) from generate_series(1, 50) m) as tags
    from generate_series(1, ${ROWS}) n`;
}

async function heldByAnswers(url: string): Promise<void> {
  const sqls = Array.from({ length: CONNECTIONS }, () => connectRecord(url, "setup", TIMEOUT_MS));
  let answers: Row[][] = [];
  const read = async () => {
    answers = await Promise.all(sqls.map(longRows));
  };
  try {
    expect(await heldBy(read, HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
  } finally {
    await Promise.all(sqls.map((sql) => sql.end()));
  }
  expect(answers).toHaveLength(CONNECTIONS);
  for (const rows of answers) {
    expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: ROWS }, (_, n) => n + 1));
    expect(rows.at(-1)?.properties.a).toHaveLength(LISTS);
    expect(rows.at(-1)?.tags).toHaveLength(50);
  }
}

test("answers of 7 MB on several connections", async () => {
  await heldByAnswers(services().databaseUrl);
});

test.skipIf(missingPgBouncer !== null)("the same over TLS", async () => {
  const url = new URL(pooler.through(services().databaseUrl));
  url.search = "sslmode=require";
  await heldByAnswers(url.href);
});
