/**
 * Settling changes a thousand e-mails in one statement, and locks them in the order in which that finds them.
 * For the e-mails of a workspace this is the order of their ids, however they lie in their tables and however
 * many days are kept: else it would deadlock with whoever locks several of them in that order.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { floorId, newId } from "../../src/ids.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { type Settled, settle } from "../../src/record/mail/settle.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const DAY_MS = 86_400_000;
const EACH = 40;
const SETUP_MS_MAX = 30_000;

let database: OwnDatabase;
let setup: Sql;
beforeEach(async () => {
  database = await ownDatabase();
  setup = connectRecord(database.url, "setup", SETUP_MS_MAX);
  await setup.unsafe(`
    create table changed (n int generated always as identity, workspace_id uuid, id uuid);
    create function note() returns trigger language plpgsql as
      'begin insert into changed (workspace_id, id) values (new.workspace_id, new.id); return null; end';
    create trigger note after update on email for each row execute function note()`);
});
afterEach(async () => {
  await setup.end({ timeout: 1 });
  await database.drop();
});

test.each([0, 30])("with %i more days of e-mails", async (days) => {
  const now = Date.now();
  for (let day = 2; day < 2 + days; day++) await addDay(Math.floor(now / DAY_MS) - day);
  const notes = (await Promise.all([bagOf(now), bagOf(now), bagOf(now)])).flat();
  const settling = connectRecord(database.url, "settling", SETUP_MS_MAX);
  const refused = await settle(settling, "worker", shuffled(notes), []);
  await settling.end({ timeout: 1 });
  expect(refused).toEqual([]);
  const changed = await setup<{ workspaceId: string; id: string }[]>`
    select workspace_id as "workspaceId", id from changed order by n`;
  expect(changed).toHaveLength(notes.length);
  for (const workspaceId of new Set(changed.map((one) => one.workspaceId))) {
    const ids = changed.filter((one) => one.workspaceId === workspaceId).map(({ id }) => id);
    expect(ids).toEqual(ids.toSorted());
  }
});

async function addDay(day: number): Promise<void> {
  const name = new Date(day * DAY_MS).toISOString().slice(0, 10).replaceAll("-", "");
  await setup.unsafe(`create table if not exists email_${name} partition of email
    for values from ('${floorId(day * DAY_MS)}') to ('${floorId((day + 1) * DAY_MS)}')`);
}

/** A bag of one workspace, of yesterday and today, whose e-mails lie in their tables in no order. */
async function bagOf(now: number): Promise<Settled[]> {
  const workspaceId = newId(now);
  const bag = { workspaceId, id: newId(now), generation: 0, token: newId(now) };
  const yesterday = Array.from(
    { length: EACH },
    (_, n) => floorId(now - DAY_MS + n).slice(0, 24) + bag.id.slice(24),
  );
  const ids = shuffled([...yesterday, ...yesterday.map(() => newId(now))]);
  await setup`
    insert into bag (workspace_id, id, shard, email_ids, bytes, created_at, token, lease_until)
    values (${workspaceId}, ${bag.id}, 0, ${ids}::uuid[], 1, now(), ${bag.token}, now())`;
  await setup`
    insert into email (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at, bag_id)
    select ${workspaceId}, id, false, 'accepted', '{}', 1, 1, now(), now(), ${bag.id} from unnest(${ids}::uuid[]) as id`;
  return ids.map((emailId) => ({
    bag,
    emailId,
    status: "delivered",
    marks: "d",
    attemptedAt: now,
    at: now,
    events: [],
    places: [],
    nextAt: null,
    domain: null,
    reply: null,
    counts: {},
  }));
}

function shuffled<T>(all: readonly T[]): T[] {
  return all
    .map((one) => ({ one, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ one }) => one);
}
