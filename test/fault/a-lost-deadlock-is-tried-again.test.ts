/**
 * Somebody else locks two rows in the other order: whoever of the engine loses that deadlock goes again,
 * unheard.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { connectRecord, type Sql, type Tx } from "../../src/record/db/connect.ts";
import { GroupCommit, settled } from "../../src/record/db/groupcommit.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const TIMEOUT_MS = 30_000;

let database: OwnDatabase;
let sql: Sql;
let other: Sql;
beforeAll(async () => {
  database = await ownDatabase();
  sql = connectRecord(database.url, "reads", TIMEOUT_MS);
  other = connectRecord(database.url, "reads", 60_000);
  await other`create table held (name text primary key, n int not null)`;
});
beforeEach(async () => {
  await other`truncate held`;
  await other`insert into held values ('first', 0), ('middle', 0), ('second', 0)`;
});
afterAll(async () => {
  await Promise.all([sql.end(), other.end()]);
  await database.drop();
});

let deadlocksMade = 0;

const add = (tx: Tx, name: string) => tx`update held set n = n + 1 where name = ${name}`;
const sums = async () => [...(await other`select name, n from held where name <> 'middle' order by name`)];
/** Others use the same Postgres. */
const waiting = () => other`
  select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
const deadlocks = async () => {
  const [row] = await other<{ n: number }[]>`
    select deadlocks::int as n from pg_stat_database where datname = current_database()`;
  return row?.n ?? 0;
};

/**
 * Holds the second row, and waits for the first when `working` wants the second. It is never the victim.
 * Postgres looks for a ring once, a second after a wait has begun: `working` is held up at the middle row
 * until its wait for the second closes the ring.
 */
async function inTheWayOf(working: () => Promise<unknown>): Promise<unknown> {
  let work: Promise<unknown> | undefined;
  await other.begin(async (tx) => {
    await tx`set local deadlock_timeout = '1min'`;
    await add(tx, "second");
    let adding: Promise<unknown> | undefined;
    await other.begin(async (gate) => {
      await gate`select from held where name = 'middle' for update`;
      work = working();
      work.catch(() => {});
      await expect.poll(waiting).toHaveLength(1);
      adding = add(tx, "first").execute();
      adding.catch(() => {});
      await expect.poll(waiting).toHaveLength(2);
    });
    await adding;
  });
  const result = await work;
  // Postgres counts them some time after
  await expect.poll(deadlocks, { timeout: 15_000 }).toBe(++deadlocksMade);
  expect(await sums()).toEqual([
    { name: "first", n: 2 },
    { name: "second", n: 2 },
  ]);
  return result;
}

test("a transaction", async () => {
  const work = () =>
    sql.begin(async (tx) => {
      await add(tx, "first");
      await add(tx, "middle");
      await add(tx, "second");
      return "done";
    });
  expect(await inTheWayOf(work)).toBe("done");
});

test("a transaction that is an array of statements", async () => {
  const work = () => sql.begin((tx) => ["first", "middle", "second"].map((name) => add(tx, name)));
  expect(await inTheWayOf(work)).toMatchObject([{ count: 1 }, { count: 1 }, { count: 1 }]);
});

test("a statement by itself", async () => {
  const rows = await inTheWayOf(async () => {
    const locked = sql`select name from held order by name for update`;
    return sql`update held set n = n + 1 from (${locked}) as l where held.name = l.name`;
  });
  expect(rows).toMatchObject({ count: 3 });
});

test("a group of a group commit", async () => {
  const commit = new GroupCommit<string, "written">(
    {
      what: "tests",
      open: () => ({
        read: async (tx) => {
          await settled([add(tx, "first").execute(), add(tx, "middle").execute()]);
        },
        write: (tx) => [add(tx, "second")],
        verdictOf: () => "written",
        committed: () => {},
      }),
      rowsOf: () => 1,
      bytesOf: () => 1,
    },
    { connect: () => connectRecord(database.url, "commits", TIMEOUT_MS), timeoutMs: TIMEOUT_MS },
  );
  const verdicts = await inTheWayOf(() => Promise.all(["a", "b", "c"].map((entry) => commit.submit(entry))));
  // one was alone in the first group or all were in one: either way nobody was refused
  expect(verdicts).toEqual(["written", "written", "written"]);
  await commit.close();
});
