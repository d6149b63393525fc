/**
 * `sslmode` and `sslrootcert` of DATABASE_URL, with a pooler that speaks TLS in front of the Postgres of the
 * run.
 */
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Postgres, startPostgres } from "../../src/embedded/postgres.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { openAuthority } from "../rig/authority.ts";
import { commandLine } from "../rig/command.ts";
import { outsideTransactions } from "../rig/outside.ts";
import { missingPgBouncer, type PgBouncer, startPgBouncer } from "../rig/pgbouncer.ts";
import { services } from "../rig/services.ts";

/** One in some was not caught. */
const LOGINS = 25;

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

/** A start, and a command. */
async function ended(databaseUrl: string, status: number, said: string): Promise<void> {
  const { postrider } = commandLine({ databaseUrl, redisUrl: services().redisUrl });
  for (const command of [
    ["serve", "--role", "api"],
    ["workspace", "list"],
  ]) {
    const ran = await postrider(...command);
    expect(ran.err.startsWith(said), ran.err).toBe(true);
    expect([ran.status, ran.err.trimEnd().split("\n").length]).toEqual([status, 1]);
  }
}

test("a server without TLS is named", async () => {
  const url = new URL(services().databaseUrl);
  url.search = "sslmode=require";
  await ended(
    url.href,
    69,
    `Postgres at ${url.host} (DATABASE_URL) offers no TLS. Check sslmode and sslrootcert of`,
  );
});

test("a parameter that Postgres does not know is named", async () => {
  const url = new URL(services().databaseUrl);
  url.search = "channel_binding=require";
  const said = 'refuses a parameter of DATABASE_URL: unrecognized configuration parameter "channel_binding"';
  await ended(url.href, 69, `Postgres at ${url.host} (DATABASE_URL) ${said}`);
});

test("a login that is refused fails the statement, and nothing besides", async () => {
  const own = mkdtempSync(join(tmpdir(), "postrider-tls-postgres-"));
  const server = await startPostgres({ folder: own, durable: false, log: () => {} });
  await speakTls(server);
  const uncaught: string[] = [];
  const note = (error: Error) => uncaught.push(error.message);
  process.on("uncaughtExceptionMonitor", note);
  const wrong = new URL(server.tcpUrl);
  [wrong.password, wrong.search] = ["wrong", "sslmode=require"];
  for (let n = 0; n < LOGINS; n++) {
    const sql = connectRecord(wrong.href, "setup", 5_000);
    await expect(sql`select 1`).rejects.toThrow("authentication failed");
    await sql.end({ timeout: 0 });
  }
  process.off("uncaughtExceptionMonitor", note);
  await server.stop();
  rmSync(own, { recursive: true, force: true });
  expect(uncaught).toEqual([]);
});

/** With a certificate of nobody's. */
async function speakTls({ folder, tcpUrl }: Postgres): Promise<void> {
  const data = join(folder, "data");
  const { uid, gid } = statSync(data);
  const { key, cert } = openAuthority().certify("localhost");
  for (const [name, text] of [
    ["server.key", key],
    ["server.crt", cert],
  ] as const) {
    writeFileSync(join(data, name), text, { mode: 0o600 });
    chownSync(join(data, name), uid, gid);
  }
  const sql = connectRecord(tcpUrl, "setup", 5_000);
  await outsideTransactions(sql, "alter system set ssl = on");
  await sql`select pg_reload_conf()`;
  const answers = async () => {
    const secured = connectRecord(`${tcpUrl}?sslmode=require`, "setup", 5_000);
    const isSecure = await secured`select 1`.then(
      () => true,
      () => false,
    );
    await secured.end({ timeout: 0 });
    return isSecure;
  };
  await expect.poll(answers).toBe(true);
  await sql.end({ timeout: 1 });
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

  test.each([
    [
      "another authority",
      "localhost",
      "sslrootcert=FOLDER/other.pem",
      "a certificate that is not accepted: unable to verify the first certificate",
    ],
    [
      "another name",
      "127.0.0.1",
      "sslrootcert=FOLDER/ours.pem",
      "a certificate that is not accepted: Hostname",
    ],
  ])("a start and a command end at once with what is wrong: %s", async (_, host, query, said) => {
    const url = new URL(pooler.through(services().databaseUrl));
    url.hostname = host;
    url.search = query.replace("FOLDER", folder);
    await ended(url.href, 69, `Postgres at ${host}:${url.port} (DATABASE_URL) has ${said}`);
  });

  test("a mode that is none is refused in words", async () => {
    await expect(answer("localhost", { sslmode: "prefer" })).rejects.toThrow(
      "DATABASE_URL: sslmode must be require, verify-ca, verify-full or disable, but is prefer.",
    );
  });
});
