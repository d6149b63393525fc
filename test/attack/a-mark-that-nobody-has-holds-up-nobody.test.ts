/**
 * A complaint shows the mark of the workspace that sent the mail. Marks are calculated, so whoever writes one
 * that nobody has makes all of them be calculated anew.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { addressHasher } from "../../src/audience/links.ts";
import { newId, workspaceMarker } from "../../src/ids.ts";
import { ReportWorker } from "../../src/inbound/work.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { insertReports } from "../../src/record/mail/reports.ts";
import { ReturnPathKey } from "../../src/returnpath.ts";
import { heldBy } from "../rig/held.ts";
import { arf } from "../rig/reports.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { SECRET } from "../rig/workspace.ts";

const HELD_MS_MAX = 50;
const WORKSPACES = 50_000;
const TIMEOUT_MS = 20_000;

let database: OwnDatabase;
let sql: Sql;
beforeAll(async () => {
  database = await ownDatabase();
  sql = connectRecord(database.url, "reports", TIMEOUT_MS);
  await sql`
    insert into workspace (id, handle, name, plan, changed_at, created_at)
    select gen_random_uuid(), 'h' || n, 'one of many', 'free', now(), now()
    from generate_series(1, ${WORKSPACES}) n`;
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
  await database.drop();
});

async function workedOff(raw: Buffer): Promise<string[]> {
  const nobodys = { handle: null, workspaceId: null, emailId: null, place: null, network: null };
  await sql`truncate report`;
  await insertReports(sql, [{ id: newId(Date.now()), source: "feedback_address", raw, ...nobodys }]);
  const faults: unknown[] = [];
  const worker = new ReportWorker({
    sql,
    paths: new ReturnPathKey(SECRET),
    markOf: workspaceMarker(SECRET),
    clock: { now: Date.now, given: () => 0 },
    worker: "of the test",
    otherGroup: "other",
    bounceDomain: null,
    hashOf: addressHasher(SECRET),
    series: null,
    timeoutMs: TIMEOUT_MS,
    onFault: (error) => faults.push(error),
  });
  worker.wake();
  await worker.stop(TIMEOUT_MS);
  expect(faults).toEqual([]);
  return (await sql<{ result: string }[]>`select result from report`).map(({ result }) => result);
}

const complaint = (mark: string) =>
  Buffer.from(
    arf({ header: [`Message-ID: <${newId(Date.now())}@example.com>`, `X-Postrider-Mark: ${mark}`] }),
  );

test("among thousands of workspaces a mark is looked for in turns", async () => {
  const look = () => workedOff(complaint("nobody"));
  expect(await look()).toEqual(["ignored: it shows no mail of ours"]);
  expect(await heldBy(look, HELD_MS_MAX, 5)).toBeLessThan(HELD_MS_MAX);
});

test("one that a workspace has is found among them", async () => {
  const [last] = await sql<{ id: string }[]>`select id from workspace order by id desc limit 1`;
  const [result] = await workedOff(complaint(workspaceMarker(SECRET)((last as { id: string }).id)));
  expect(result).toBe("ignored: there is no such e-mail");
});
