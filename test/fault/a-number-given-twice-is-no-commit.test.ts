/**
 * After a crash Postgres gives numbers of transactions again that it had given to transactions which wrote
 * nothing to disk. Whoever asks for the fate of such a number must not be told that of somebody else's
 * transaction.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Postgres, startPostgres } from "../../src/embedded/postgres.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { GroupCommit } from "../../src/record/db/groupcommit.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";

const TIMEOUT_MS = 20_000;

let folder: string;
let postgres: Postgres;
let proxy: TcpProxy;
let direct: Sql;
let commit: GroupCommit<number, "written">;

const start = (port?: number) =>
  startPostgres({ folder, durable: false, log: () => {}, ...(port === undefined ? {} : { port }) });

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "postrider-crash-"));
  chmodSync(folder, 0o755);
  postgres = await start();
  const { port, username, password, pathname } = new URL(postgres.tcpUrl);
  proxy = await openProxy({ port: Number(port) });
  const through = `postgres://${username}:${password}@127.0.0.1:${proxy.port}${pathname}`;
  direct = connectRecord(postgres.tcpUrl, "reads", TIMEOUT_MS);
  await direct`create table noted (n int)`;
  commit = new GroupCommit<number, "written">(
    {
      what: "tests",
      open: (group) => ({
        read: async (tx) => void (await tx`select 1`),
        write: (tx) => group.map((n) => tx.unsafe(`insert into noted values (${n})`)),
        verdictOf: () => "written",
        committed: () => {},
      }),
      rowsOf: () => 1,
      bytesOf: () => 1,
    },
    { connect: () => connectRecord(through, "commits", TIMEOUT_MS), timeoutMs: TIMEOUT_MS },
  );
  await commit.submit(0);
});
afterEach(async () => {
  await commit.close();
  await direct.end({ timeout: 1 });
  await proxy.down();
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
});

const isCommit = (request: Buffer) => request.includes("insert into noted values (1)");

async function crash(): Promise<void> {
  const port = Number(new URL(postgres.tcpUrl).port);
  process.kill(postgres.pid, "SIGKILL");
  await postgres.ended;
  postgres = await start(port);
}

/** Its number is the next that is free. */
const otherTransaction = () =>
  direct.begin((tx) => [tx`select pg_current_xact_id()`, tx`insert into noted values (-1)`]);
const isBack = (ask: () => Promise<unknown>) =>
  expect
    .poll(
      () =>
        ask().then(
          () => true,
          () => false,
        ),
      { timeout: 10_000 },
    )
    .toBe(true);
const kept = async () => (await direct`select n from noted where n = 1`).length;

test("the commit never arrived, Postgres crashed, and another transaction has its number: nobody can say", async () => {
  const isStalled = proxy.stallRequest(isCommit);
  const verdict = commit.submit(1);
  await isStalled;
  await crash();
  await isBack(otherTransaction);
  proxy.cut();
  proxy.flow();
  expect(await verdict).toMatchObject({ kind: "unknown" });
  expect(await kept()).toBe(0);
});

test("the commit never arrived, Postgres crashed, and nobody has its number: not written", async () => {
  const isStalled = proxy.stallRequest(isCommit);
  const verdict = commit.submit(1);
  await isStalled;
  await crash();
  await isBack(() => direct`select 1`);
  proxy.cut();
  proxy.flow();
  expect(await verdict).toMatchObject({ kind: "failed", isBroken: false });
  expect(await kept()).toBe(0);
});

test("the commit was done, its answer was lost, and Postgres goes on: written", async () => {
  const isCut = proxy.cutReply(isCommit);
  const verdict = commit.submit(1);
  await isCut;
  expect(await verdict).toBe("written");
  expect(await kept()).toBe(1);
});
