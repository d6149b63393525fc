/** The way of bags from a commit to the queue. */
import type { BagQueue } from "../../queue/bagqueue.ts";
import type { Sql } from "../../record/db/connect.ts";
import { type Bag, firstRow, noteEpoch } from "../../record/mail/bags.ts";

/** Queues bags that were just committed; if this fails, the keeper finds them. */
export async function putInLine(line: BagQueue, sql: Sql, bags: readonly Bag[]): Promise<void> {
  await line.enqueue(bags.map(firstRow), async ({ epoch, queued }) => {
    if (queued.length > 0) await noteEpoch(sql, queued, epoch);
  });
}
