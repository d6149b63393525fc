/**
 * `sslmode` and `sslrootcert` of DATABASE_URL, with a pooler that speaks TLS in front of the Postgres of the
 * run.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { openAuthority } from "../rig/authority.ts";
import { missingPgBouncer, type PgBouncer, startPgBouncer } from "../rig/pgbouncer.ts";
import { services } from "../rig/services.ts";

let pooler: PgBouncer;
let folder: string;
beforeAll(async () => {
  if (missingPgBouncer !== null) return;
  folder = mkdtempSync(join(tmpdir(), "postrider-tls-"));
  const ours = openAuthority();
  const { key, cert } = ours.certify("localhost");
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text, { mode: 0o644 });
    return join(folder, name);
  };
  file("ours.pem", ours.certificate);
  file("other.pem", openAuthority("other.test").certificate);
  chmodSync(folder, 0o755);
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

async function answer(host: string, query: Record<string, string>): Promise<string> {
  const url = new URL(pooler.through(services().databaseUrl));
  url.hostname = host;
  for (const [name, value] of Object.entries(query))
    url.searchParams.set(name, value.replace("FOLDER", folder));
  const sql = connectRecord(url.href, "setup", 5_000);
  try {
    await sql`select 1`;
    return "connected";
  } catch (error) {
    const { code, cause } = error as { code?: string; cause?: { code?: string } };
    return cause?.code ?? code ?? String(error);
  } finally {
    sql.end({ timeout: 0 }).catch(() => {});
  }
}

describe.skipIf(missingPgBouncer)(missingPgBouncer ?? "over TLS", () => {
  test.each([
    ["its own authority, and its name", "localhost", { sslrootcert: "FOLDER/ours.pem" }, "connected"],
    [
      "its own authority alone",
      "127.0.0.1",
      { sslmode: "verify-ca", sslrootcert: "FOLDER/ours.pem" },
      "connected",
    ],
    ["no authority at all", "127.0.0.1", { sslmode: "require" }, "connected"],
    [
      "another authority",
      "localhost",
      { sslrootcert: "FOLDER/other.pem" },
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    ],
    ["another name", "127.0.0.1", { sslrootcert: "FOLDER/ours.pem" }, "ERR_TLS_CERT_ALTNAME_INVALID"],
    ["the usual authorities", "localhost", { sslmode: "verify-full" }, "UNABLE_TO_VERIFY_LEAF_SIGNATURE"],
    ["nothing asked, where TLS is required", "localhost", {}, "08P01"],
  ])("%s", async (_, host, query, expected) => {
    expect(await answer(host, query as Record<string, string>)).toBe(expected);
  });

  test("a mode that is none is refused in words", async () => {
    await expect(answer("localhost", { sslmode: "prefer" })).rejects.toThrow(
      "DATABASE_URL: sslmode must be require, verify-ca, verify-full or disable, but is prefer.",
    );
  });
});
