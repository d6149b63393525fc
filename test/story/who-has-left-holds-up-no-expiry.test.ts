/**
 * Until its old rows are removed, a workspace that has left for another cell has rows that are due: others'
 * rows expire.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { floorId } from "../../src/ids.ts";
import { openCells, type TwoCells } from "../rig/cells.ts";
import { handKeeper } from "../rig/keeping.ts";
import { beginToLeave } from "../rig/moves.ts";

const DAY_MS = 86_400_000;
/** Older than what is kept longest. */
const OLD_DAYS = 500;
/** One row each, of a workspace `w`, and of one thing `x` in it. */
const ROWS: Readonly<Record<string, string>> = {
  attachment: "(workspace_id, hash, content, last_used_at) select w, 'h', 'c', $at",
  cap_look: "(workspace_id, day, at, counts) select w, $day, $at, '{}'",
  cap_source: "(workspace_id, day, source, worker) select w, $day, 's', 'w'",
  cap_state: "(workspace_id, at, state) select w, $at, '{}'",
  cap_use: "(workspace_id, day, used, delayed) select w, $day, 1, 0",
  change: "(workspace_id, id, account_id, email, action, subject) select w, $id, x, 'a@b.example', 'a', 's'",
  claim: "(workspace_id, scope, key, digest, answer, created_at) select w, 's', 'k', 'd', '{}', $at",
  event: "(workspace_id, contact_id, id, audience_id, name, created_at) select w, x, 'e', x, 'n', $at",
  part_tally: "(workspace_id, day, worker, stream, provider, source) select w, $day, 'w', 's', 'p', 's'",
  postmaster_day: "(workspace_id, domain, day, imported_at) select w, 'd', $day, $at",
  report: "(id, source, workspace_id, raw, done_at, due_at) select x, 'api', w, 'r', $at, null",
  run: `(workspace_id, id, automation_id, version, audience_id, contact_id, event_id, position, created_at, ended_at, state)
    select w, x, x, 1, x, x, 'e', '0', $at, $at, 'finished'`,
  search_block: "(workspace_id, from_id, until_id) select w, $id, $id",
  soft_bounce: "(workspace_id, address_hash, at, email_id) select w, 'h', $at, x",
  tally: "(workspace_id, day, worker) select w, $day, 'w'",
  webhook_delivery: `(workspace_id, webhook_id, sequence, at, type, subject_id, failed_at)
    select w, x, 1, $at, 'email.sent', x, $at`,
};

let cells: TwoCells;
beforeAll(async () => {
  cells = await openCells();
});
afterAll(() => cells.close());

async function insertOld(workspaceId: string): Promise<void> {
  const at = Date.now() - OLD_DAYS * DAY_MS;
  for (const [table, row] of Object.entries(ROWS)) {
    const values = row
      .replaceAll("$at", `timestamptz '${new Date(at).toISOString()}'`)
      .replaceAll("$day", String(Math.floor(at / DAY_MS)))
      .replaceAll("$id", `uuid '${floorId(at)}'`);
    const ids = `(values (uuid '${workspaceId}', uuid '${randomUUID()}')) ids(w, x)`;
    await cells.home.sql.unsafe(`insert into ${table} ${values} from ${ids}`);
  }
}

/** Tables that have rows of it. */
async function tablesOf(workspaceId: string): Promise<string[]> {
  const { sql } = cells.home;
  const found = await Promise.all(
    Object.keys(ROWS).map(
      (table) => sql`select from ${sql(table)} where workspace_id = ${workspaceId} limit 1`,
    ),
  );
  return Object.keys(ROWS).filter((_, n) => found[n]?.length);
}

test("rows of a workspace that has left are passed over", async () => {
  const [leaves, stays] = [await cells.home.workspace(""), await cells.home.workspace("")];
  const { sql } = cells.home;
  for (const { id } of [leaves, stays]) {
    await insertOld(id);
    await sql`update workspace set has_webhooks = true, logs_events = logs_events where id = ${id}`;
  }
  expect(await tablesOf(stays.id)).toEqual(Object.keys(ROWS));
  const leaving = await beginToLeave(cells, leaves);
  await leaving.letGo();

  const faults: unknown[] = [];
  const clock = { now: Date.now, given: () => 0 };
  const hand = handKeeper(cells.home, clock, undefined, { onFault: (error) => void faults.push(error) });
  await hand.keeper.expiry().catch((error: unknown) => faults.push(error));
  await hand.close();

  expect(faults.map(String)).toEqual([]);
  expect(await tablesOf(stays.id)).toEqual([]);
  expect(await tablesOf(leaves.id)).toEqual(Object.keys(ROWS).filter((table) => table !== "search_block")); // no fence
  const [workspace] = await sql`select has_webhooks from workspace where id = ${stays.id}`;
  expect(workspace?.has_webhooks).toBe(false);
});
