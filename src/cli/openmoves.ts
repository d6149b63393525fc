/** Moves between cells that have not ended, for whoever asks how things are. */

import { inTime } from "../clock.ts";
import { listMoves, type UnfinishedMove, unfinishedMoves } from "../record/cells/unfinished.ts";
import { connectRecord } from "../record/db/connect.ts";
import { allCells } from "./context.ts";

const ASK_MS_MAX = 5_000;

/** A cell that is away, or not migrated yet, is left out. */
export async function findUnfinishedMoves(): Promise<UnfinishedMove[]> {
  const told = await Promise.all(
    allCells().map(async ({ name, config: { databaseUrl } }) => {
      if (databaseUrl === null) return [];
      const sql = connectRecord(databaseUrl, "setup", ASK_MS_MAX);
      const asked = listMoves(sql).then(
        (moves) => [{ name, moves }],
        () => [],
      );
      return inTime(ASK_MS_MAX, asked, () => []).finally(() => {
        sql.end({ timeout: 0 }).catch(() => {});
      });
    }),
  );
  return unfinishedMoves(told.flat());
}
