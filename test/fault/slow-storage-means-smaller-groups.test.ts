/** Storage on which a full group can never be written in time, and a smaller one can. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { GroupCommit, type Uncommitted } from "../../src/record/db/groupcommit.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const TIMEOUT_MS = 2_000;
const CALLERS = 6_000;
const ROWS = 12_000;
const GROUPS_MAX = 15;
/** A larger group takes longer than it may. A smaller one takes no time: a busy machine would add to it. */
const QUICK_ROWS_MAX = 2_500;

let database: OwnDatabase;
beforeAll(async () => {
  database = await ownDatabase();
});
afterAll(() => database.drop());

type Verdict = "written";

/** Each entry is one row; `slowness` says how long the storage takes for a group, or what it waits for. */
function groupCommit(slowness: (rows: number) => string, onGroup: (rows: number) => void) {
  return new GroupCommit<number, Verdict>(
    {
      what: "tests",
      open: (group) => ({
        read: async (tx) => {
          onGroup(group.length);
          await tx`select 1`;
        },
        write: (tx) => [tx.unsafe(slowness(group.length))],
        verdictOf: () => "written",
        committed: () => {},
      }),
      rowsOf: () => 1,
      bytesOf: () => 100,
    },
    { connect: () => connectRecord(database.url, "commits", TIMEOUT_MS), timeoutMs: TIMEOUT_MS },
  );
}

/**
 * Callers that come again when they were refused, until all rows are written or too many groups have failed.
 */
async function writeAll(commit: GroupCommit<number, Verdict>, groups: readonly number[]): Promise<number> {
  let done = 0;
  const isWritten = (verdict: Verdict | Uncommitted) => verdict === "written";
  const call = async () => {
    while (done < ROWS && groups.length < GROUPS_MAX) if (isWritten(await commit.submit(1))) done++;
  };
  await Promise.all(Array.from({ length: CALLERS }, call));
  return done;
}

test.each([
  ["the statement timeout", `select pg_sleep(${(2 * TIMEOUT_MS) / 1_000})`],
  ["the lock timeout", "do $$ begin raise lock_not_available; end $$"],
])("a group that runs into %s makes the next smaller, and success makes them grow", async (_, slow) => {
  const groups: number[] = [];
  const slowness = (rows: number) => (rows > QUICK_ROWS_MAX ? slow : "select 1");
  const commit = groupCommit(slowness, (rows) => groups.push(rows));
  expect(await writeAll(commit, groups)).toBeGreaterThanOrEqual(ROWS);
  await commit.close();
  const largest = groups.indexOf(4_000);
  const [halved, grown] = groups.slice(largest + 1);
  expect(halved).toBe(2_000);
  expect(grown).toBe(2_200);
});

test("groups that succeed are not made smaller, nor those that hold a broken row", async () => {
  const groups: number[] = [];
  let broken = 1;
  const commit = groupCommit(
    () => (broken-- > 0 ? "do $$ begin raise unique_violation; end $$" : "select 1"),
    (rows) => groups.push(rows),
  );
  const submitAll = () => Promise.all(Array.from({ length: 4_000 }, () => commit.submit(1)));
  await submitAll();
  groups.length = 0;
  expect(new Set(await submitAll())).toEqual(new Set(["written"]));
  expect(groups).toEqual([4_000]);
  await commit.close();
});
