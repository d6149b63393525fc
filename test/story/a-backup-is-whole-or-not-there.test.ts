/**
 * Under the name that a backup was given there is a whole one or what was there before, whoever else writes
 * to it and however the command ends; and a file whose checksum is wrong is not restored.
 */
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import { restore } from "../../src/record/db/dump.ts";
import { commandLine } from "../rig/command.ts";
import { dropDatabase } from "../rig/database.ts";
import { startEngine } from "../rig/engine.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const isCopying = (request: Buffer) => request.includes("copy (select");

let stage: Stage;
let toPostgres: TcpProxy;
let slowUrl: string;
let folder: string;
beforeAll(async () => {
  stage = await openStage();
  await (await startEngine(["api"], stage)).stop(); // a row of the secret
  const url = new URL(stage.databaseUrl);
  toPostgres = await openProxy({ port: Number(url.port) });
  slowUrl = `postgres://${url.username}:${url.password}@127.0.0.1:${toPostgres.port}${url.pathname}`;
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "postrider-backup-"));
  return () => rmSync(folder, { recursive: true, force: true });
});
afterAll(async () => {
  await toPostgres.close();
  await stage.close();
});

/** One that has begun to write, and waits for its rows. */
async function begun(file: string) {
  const stalled = toPostgres.stallReply(isCopying);
  const child = commandLine({ ...stage, databaseUrl: slowUrl }).begin("backup", file);
  const said = text(child.stderr);
  const ended = once(child, "close");
  await stalled;
  return { child, said, ended };
}

test("a folder is refused before anything is read", async () => {
  mkdirSync(join(folder, "backups"));
  const nowhere = commandLine({ ...stage, databaseUrl: "postgres://postgres@127.0.0.1:1/none" });
  const { status, err } = await nowhere.postrider("backup", join(folder, "backups"));
  expect([status, err]).toEqual([
    1,
    `${join(folder, "backups")} is a folder. Name a file in it, such as ${join(folder, "backups", "postrider.backup.gz")}.\n`,
  ]);
  expect(readdirSync(folder, { recursive: true })).toEqual(["backups"]);
});

test("what is no file is not replaced", async () => {
  const socket = join(folder, "socket");
  const server = createServer().listen(socket);
  await once(server, "listening");
  const { status, err } = await commandLine(stage).postrider("backup", socket);
  server.close();
  expect([status, err]).toEqual([1, expect.stringContaining("socket is not a file that a backup could")]);
});

test("two at once write a whole one each", async () => {
  const file = join(folder, "postrider.gz");
  const slow = await begun(file);
  await commandLine(stage).json("backup", file);
  const first = gunzipSync(readFileSync(file)).toString();
  expect(first).toMatch(/\{"end":true,"rows":\d+\}\n$/);
  toPostgres.flow();
  expect([await slow.ended, await slow.said]).toEqual([[0, null], ""]);
  expect(gunzipSync(readFileSync(file)).toString()).toMatch(/\{"end":true,"rows":\d+\}\n$/);
  expect(readdirSync(folder)).toEqual(["postrider.gz"]);
});

test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("%s leaves what was there before", async (signal) => {
  const file = join(folder, "postrider.gz");
  writeFileSync(file, "yesterday's");
  const slow = await begun(file);
  slow.child.kill(signal);
  expect(await slow.ended).toEqual([null, signal]);
  toPostgres.cut();
  toPostgres.flow();
  expect([readdirSync(folder), readFileSync(file, "utf8")]).toEqual([["postrider.gz"], "yesterday's"]);
});

test("what is wrong behind the last row undoes the restore", async () => {
  const file = join(folder, "postrider.gz");
  await commandLine(stage).json("backup", file);
  const url = new URL(stage.databaseUrl);
  url.pathname = `${url.pathname}_wrong`;
  await createDatabase(stage.databaseUrl, url.pathname.slice(1), "template0");
  const sql = connectRecord(url.href, "setup", 20_000);
  async function* pieces() {
    yield gunzipSync(readFileSync(file));
    throw new Error("incorrect data check");
  }
  try {
    const restoring = restore(url.href, sql, Readable.from(pieces()), Date.now());
    await expect(restoring).rejects.toThrow("incorrect data check");
    expect(await sql`select from secret_check`).toHaveLength(0);
  } finally {
    await sql.end({ timeout: 1 });
    await dropDatabase(url.href);
  }
});
