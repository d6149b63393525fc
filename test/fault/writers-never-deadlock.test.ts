/**
 * Every two writers of the record may work on the same rows at the same time, and nobody waits for anybody in
 * a ring: each of them locks tables and rows in the one order of record/db/lockorder.ts. The pairs are made
 * from a list of all writers, and the list is held against the text of src/record.
 */
import { expect, test } from "vitest";
import { Lane } from "../rig/lane.ts";
import { RecordScan } from "../rig/recordscan.ts";
import { ownDatabase } from "../rig/services.ts";
import type { Plans } from "../rig/sharedrows.ts";
import { WRITERS, type Writer } from "../rig/writers.ts";

/** For all pairs together, however many there are. */
const MEETING_MS = 35_000;

/** What failed can be run again: with its seed, and only pairs of a writer whose name has these words. */
const SEED = Number(process.env.FUZZ_SEED ?? Date.now() % 1_000_000);
const ASKED = process.env.WRITERS ?? "";

/** Writers that never meet others. */
const ALONE: Record<string, string> = {
  "db/migrate.ts migrate": "runs under an advisory lock of its own, before anybody is served",
  "db/dump.ts restore": "fills a database that nobody else uses yet",
  "cells/moves.ts handOver":
    "gives up after 250 ms of waiting, before a deadlock would be found, and lets everybody go on",
  ...Object.fromEntries(
    ["noteLeaving", "takeOver", "drain", "endDrain"].map((name) => [
      `cells/moves.ts ${name}`,
      "one row of workspace_move, alone, whose writers hold it for key share",
    ]),
  ),
  ...Object.fromEntries(
    ["noteArriving", "forgetCopied", "copyStep", "catchUp", "arrive", "removeStep", "forgetMove"].map(
      (name) => [
        `cells/moves.ts ${name}`,
        "rows of a workspace that is not in that record, which its fence keeps from everybody else",
      ],
    ),
  ),
  ...Object.fromEntries(
    ["fence.ts raiseFence", "fence.ts dropFence", "moves.ts expectOursStill"].map((name) => [
      `cells/${name}`,
      "one row of workspace_move for share, which writers hold for key share; for tables it waits with a timeout",
    ]),
  ),
  "db/migrate.ts tryToWrite": "asks whether a migration could be deleted, and deletes none",
  "db/cancommit.ts canCommit": "asks whether a claim could be deleted, and deletes none",
  "cells/moves.ts beginToTell": "changes no row: it runs the triggers of 0028_definitions.sql",
  "cells/rows.ts replaceRows": "of a workspace that is not in that record",
};

const scan = new RecordScan();

test("every writer of the record is in the list", () => {
  const covered = scan.reachedFrom(WRITERS.flatMap(({ calls }) => calls));
  const missing = scan.writers.filter((name) => !covered.has(name) && !(name in ALONE));
  const advice =
    "Add what locks rows to WRITERS in test/rig/writers.ts, with arguments drawn from shared rows.";
  expect(missing, `${advice}\n  ${missing.join("\n  ")}\n`).toEqual([]);
});

test("every writer keeps the order of the locks, and no two deadlock", async () => {
  const found = await Promise.all(
    (["small tables", "large tables"] as const).map((plans) => meetings(plans)),
  );
  const advice =
    "Lock tables in the order of src/record/db/lockorder.ts, and rows in the order of their keys.";
  expect(found.flat(), `${advice} Seed ${SEED}:\n  ${found.flat().join("\n  ")}\n`).toEqual([]);
}, 600_000); // each pair meets once at least, however busy the machine is

/** Lets every pair meet; hands back what went wrong. */
async function meetings(plans: Plans): Promise<string[]> {
  const pairs = pairsOf(WRITERS).filter(({ a, b }) => [a, b].some(({ name }) => name.includes(ASKED)));
  const database = await ownDatabase();
  const lane = await Lane.open(database.url, SEED, plans);
  const found: string[] = [];
  try {
    for (const { a, b, tables } of pairs)
      for (const problem of await lane.meet(a, b, tables, MEETING_MS / pairs.length))
        found.push(`${problem} (${plans})`);
  } finally {
    await lane.close();
    await database.drop();
  }
  return found;
}

type Pair = { a: Writer; b: Writer; tables: ReadonlySet<string> };

/** Every two that lock rows of one table, also a writer and itself. */
function pairsOf(writers: readonly Writer[]): Pair[] {
  const tables = new Map(writers.map((writer) => [writer, scan.tablesOf(writer.calls)]));
  const of = (writer: Writer) => tables.get(writer) ?? new Set();
  return writers.flatMap((a, n) =>
    writers
      .slice(n)
      .filter((b) => [...of(a)].some((table) => of(b).has(table)))
      .map((b) => ({ a, b, tables: new Set([...of(a), ...of(b)]) })),
  );
}
