/** What postgres.js gets wrong around lost connections and failed statements must reach no caller. */
import { createServer, type Server } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { eventually } from "../rig/eventually.ts";
import { listenOn } from "../rig/port.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { terminateBackends, ticks } from "../rig/terminate.ts";

/** No statement may run into it, also where the machine stands still for some seconds. */
const TIMEOUT_MS = 10_000;
const CALLERS = 40;
const DISTURBANCES = 30;

let database: OwnDatabase;
let proxy: TcpProxy;
let other: Sql;
let sql: Sql;
const uncaught: unknown[] = [];
const note = (error: unknown) => uncaught.push(error);
beforeAll(async () => {
  database = await ownDatabase();
  other = connectRecord(database.url, "setup", 30_000);
  await other`create table noted (n int primary key)`;
  process.on("uncaughtException", note);
  process.on("unhandledRejection", note);
});
afterAll(async () => {
  process.off("uncaughtException", note);
  process.off("unhandledRejection", note);
  await other.end();
  await database.drop();
});
beforeEach(async () => {
  const { port } = new URL(database.url);
  proxy = await openProxy({ port: Number(port) });
  sql = connectRecord(through(proxy.port), "reads", TIMEOUT_MS);
});
afterEach(async () => {
  await sql.end({ timeout: 1 });
  await proxy.down();
  expect(uncaught.splice(0)).toEqual([]);
});

function through(port: number): string {
  const { username, password, pathname } = new URL(database.url);
  return `postgres://${username}:${password}@127.0.0.1:${port}${pathname}`;
}

/** Callers that ask what only they can be answered, until `disturbing` is over; with every wrong answer. */
async function wrongAnswers(disturbing: Promise<unknown>): Promise<{ wrong: unknown[]; right: number }> {
  let isOver = false;
  let asked = 0;
  let right = 0;
  const wrong: unknown[] = [];
  const rows = async (n: number) => {
    const found =
      await sql`select ${n}::int as n, repeat('x', 2000) from generate_series(1, ${1 + (n % 50)})`;
    if (found.length !== 1 + (n % 50) || found.some((row) => row?.n !== n)) wrong.push({ n, found });
  };
  const breaksOff = async (n: number) => {
    const breaking = sql`select 10 / (${3 + (n % 5)} - x), repeat('x', 9000) from generate_series(1, 9) x`;
    await expect(breaking).rejects.toThrow();
  };
  const transaction = async (n: number) => {
    const [kept] = await sql.begin(async (tx) => {
      const [{ backend }] = (await tx`select pg_backend_pid() as backend`) as unknown as [
        { backend: number },
      ];
      await tx`insert into noted values (${n})`;
      return tx`select count(*)::int as n from noted where n = ${n} and pg_backend_pid() = ${backend}`;
    });
    if (kept?.n !== 1) wrong.push({ n, kept });
  };
  const kinds = [rows, breaksOff, transaction];
  const call = async () => {
    while (!isOver) {
      const n = asked++;
      try {
        await kinds[n % kinds.length]?.(n);
        right++;
      } catch {
        await new Promise(setImmediate); // the connection was lost: somebody else's turn
      }
    }
  };
  const calling = Promise.all(Array.from({ length: CALLERS }, call));
  await disturbing;
  isOver = true;
  await calling;
  return { wrong, right };
}

async function cutting(): Promise<void> {
  for await (const _ of ticks(100, DISTURBANCES)) proxy.cut();
}

test.each([
  ["ended by Postgres", () => terminateBackends(other, 100, DISTURBANCES)],
  ["reset", cutting],
])("connections are %s: every answer belongs to its question, and the pool recovers", async (_, disturb) => {
  const { wrong, right } = await wrongAnswers(disturb());
  expect(wrong).toEqual([]);
  expect(right).toBeGreaterThan(CALLERS);
  // a backend that was told to end may do so only now
  const all = await eventually(() =>
    Promise.all(Array.from({ length: 200 }, (_, n) => sql`select ${n}::int as n`)),
  );
  expect(all.map(([row]) => row?.n)).toEqual(Array.from({ length: 200 }, (_, n) => n));
});

test("a result that breaks off leaves nothing in the next", async () => {
  const one = connectRecord(database.url, "setup", TIMEOUT_MS);
  const breaking = one`select 10 / (5 - x), repeat('x', 9000) from generate_series(1, 9) x`;
  await expect(breaking).rejects.toThrow("division by zero");
  expect([...(await one`select 1 as n`)]).toEqual([{ n: 1 }]);
  await one.end();
});

test("a parameter that cannot be written rejects its own statement and mixes up no answers", async () => {
  const one = connectRecord(database.url, "setup", TIMEOUT_MS);
  const ask = (at: Date | undefined) => one`select ${at as Date}::timestamptz as at`;
  const now = new Date();
  await ask(now);
  const invalid = await Promise.allSettled([now, new Date(Number.NaN), now, undefined, now].map(ask));
  expect(invalid[1]?.status).toBe("rejected");
  expect(invalid[3]?.status).toBe("rejected");
  for (const answer of [invalid[0], invalid[2], invalid[4]])
    if (answer?.status === "fulfilled") expect([...answer.value]).toEqual([{ at: now }]);
  const [row] = await one`select 7 as n`;
  expect(row?.n).toBe(7);
  await one.end();
});

test("a transaction whose connection is lost says nothing more, on no connection", async () => {
  let lost = () => {};
  const isLost = new Promise<void>((resolve) => {
    lost = resolve;
  });
  const writing = sql.begin(async (tx) => {
    await tx`insert into noted values (-1)`;
    await isLost;
    await tx`insert into noted values (-2)`;
  });
  writing.catch(() => {});
  await expect.poll(() => terminateBackends(other, 0, 1)).toBeGreaterThan(0);
  await sql`select 1`; // a new connection is there for others
  lost();
  await expect(writing).rejects.toThrow();
  expect([...(await other`select n from noted where n < 0`)]).toEqual([]);
});

test("what a transaction left behind is not sent after its end", async () => {
  let late: Promise<unknown> = Promise.resolve();
  await sql.begin(async (tx) => {
    await tx`select 1`;
    late = new Promise(setImmediate).then(() => new Promise(setImmediate)).then(() => tx`select 2`);
    late.catch(() => {});
  });
  await sql`select 1`;
  await expect(late).rejects.toThrow("over");
});

test("a server that hangs up without a word is an error, not a loop", async () => {
  let asked = 0;
  const mute: Server = createServer((socket) => {
    asked++;
    socket.on("error", () => {}).resume();
    socket.end();
  });
  const deaf = connectRecord(through(await listenOn(mute)), "keeper", TIMEOUT_MS);
  await expect(deaf`select 1`).rejects.toThrow();
  expect(asked).toBe(1);
  await deaf.end();
  await new Promise((resolve) => mute.close(resolve));
});

test("a peer that vanished without a word is given up, and its statement rejected", async () => {
  // given up after five timeouts; no statement that is answered runs into one
  const hasty = connectRecord(through(proxy.port), "reads", 1_000);
  await hasty`select 1`;
  proxy.halfOpen();
  await expect(hasty`select 2`).rejects.toMatchObject({
    cause: { message: "Postgres said nothing for too long" },
  });
  expect([...(await hasty`select 3 as n`)]).toEqual([{ n: 3 }]);
  await hasty.end();
});

test("an address without a route is an error of the statement, not of the process", async () => {
  const { username, password } = new URL(database.url);
  const nowhere = connectRecord(
    `postgres://${username}:${password}@255.255.255.255:1/x`,
    "reads",
    TIMEOUT_MS,
  );
  await expect(nowhere`select 1`).rejects.toThrow();
  await nowhere.end();
});

test("what waits for a connection is served when Postgres is back, and refused when the pool ends", async () => {
  await proxy.down();
  await expect(sql`select 1`).rejects.toThrow();
  const waiting = sql`select 1 as n`.execute();
  await proxy.up();
  expect((await waiting)[0]?.n).toBe(1);
  const held = await Promise.all(Array.from({ length: 6 }, () => sql.reserve()));
  const refused = sql`select 1`.execute();
  await Promise.all([expect(refused).rejects.toThrow("ended"), sql.end({ timeout: 0 })]);
  for (const one of held) one.release();
});

test("a transaction whose beginning was refused leaves nothing to the next", async () => {
  const name = new URL(database.url).pathname.slice(1);
  await other`create table refusing (n int)`;
  await other`create schema first`;
  await other`
    create function first.set_config(text, text, boolean) returns text language plpgsql as $$
    begin
      if exists (select from public.refusing) then raise 'refused'; end if;
      return pg_catalog.set_config($1, $2, $3);
    end $$`;
  await other`alter database ${other(name)} set search_path = first, pg_catalog, public`;
  const command = connectRecord(database.url, "setup", TIMEOUT_MS);
  const writer = connectRecord(database.url, "reads", TIMEOUT_MS);
  expect(await command`select 1 as n`).toEqual([{ n: 1 }]);
  await writer`insert into refusing values (1)`;
  await expect(command`select 1`).rejects.toThrow("refused");
  await writer`delete from refusing`;
  expect(await command`select 1 as n`).toEqual([{ n: 1 }]);
  await Promise.all([command.end(), writer.end()]);
  await other`alter database ${other(name)} reset search_path`;
});
