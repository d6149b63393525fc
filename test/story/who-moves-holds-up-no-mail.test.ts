/**
 * Rows of a workspace on its way to another cell are fenced: what is done for all workspaces is done for the
 * others.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { type Note, Settler } from "../../src/outcome/settler.ts";
import type { Looks } from "../../src/record/db/looks.ts";
import { makePartitions } from "../../src/record/db/partitions.ts";
import { egressRules } from "../../src/webhooks/endpoint.ts";
import { newSecret, SecretSealer } from "../../src/webhooks/secret.ts";
import { WebhookWorker } from "../../src/webhooks/work.ts";
import { openCells, type TestCell, type TwoCells } from "../rig/cells.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { beginToLeave } from "../rig/moves.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 10_000, interval: 20 };
const HOUR_MS = 3_600_000;
const HELD_BY = "held.example";

let cells: TwoCells;
beforeAll(async () => {
  cells = await openCells();
  for (const { sql } of [cells.home, cells.other]) await makePartitions(sql, Date.now());
});
afterAll(() => cells.close());

type Keeping = HandKeeper & { faults: unknown[] };

function keeperOf(cell: TestCell): Keeping {
  const faults: unknown[] = [];
  const clock = { now: Date.now, given: () => 0 };
  const hand = handKeeper(cell, clock, undefined, { onFault: (error) => void faults.push(error) });
  return { ...hand, faults };
}

async function deferred({ sql }: TestCell, workspaceId: string): Promise<string> {
  const id = newId(Date.now());
  const head = sql.json({ from: "a@shop.example", to: [`b@${HELD_BY}`], cc: [], bcc: [], subject: "s" });
  await sql`
    insert into email (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at)
    values (${workspaceId}, ${id}, false, 'deferred', ${head}, 1, 100, now(), now())`;
  return id;
}

/** An e-mail that waits for a destination that is not suspended any more. */
async function heldBack(cell: TestCell, workspaceId: string): Promise<string> {
  const id = await deferred(cell, workspaceId);
  await cell.sql`
    insert into due (workspace_id, email_id, at, why, bulk, weight, bytes, domain, held_by)
    values (${workspaceId}, ${id}, now() + interval '1 day', 'deferred', false, 1, 100, ${HELD_BY}, ${HELD_BY})`;
  return id;
}

async function isHeld({ sql }: TestCell, id: string): Promise<boolean> {
  return (await sql`select from due where email_id = ${id} and held_by is not null`).length > 0;
}

test("what waited for a destination of others is due, and of the one that moves when it has arrived", async () => {
  const { home, other } = cells;
  const leaves = await home.workspace("");
  const [ofHome, ofOther] = [await home.workspace(""), await other.workspace("")];
  const moved = await heldBack(home, leaves.id);
  const leaving = await beginToLeave(cells, leaves);
  const [atHome, there] = [keeperOf(home), keeperOf(other)];

  const first = await heldBack(other, ofOther.id);
  await there.keeper.holds();
  expect([await isHeld(other, first), await isHeld(other, moved)]).toEqual([false, true]);

  await leaving.letGo();
  const second = await heldBack(home, ofHome.id);
  await atHome.keeper.holds();
  expect([await isHeld(home, second), await isHeld(home, moved)]).toEqual([false, true]);

  await leaving.arrive();
  await there.keeper.holds();
  expect(await isHeld(other, moved)).toBe(false);
  await Promise.all([atHome.close(), there.close()]);
});

/** Of a bag whose lease was lost. */
function delivered({ id: workspaceId }: TestWorkspace, emailId: string): Note {
  return {
    bag: { workspaceId, id: randomUUID(), generation: 0, token: randomUUID() },
    ...{ emailId, status: "delivered", marks: "d", attemptedAt: Date.now(), at: Date.now() },
    ...{ events: [], places: [], nextAt: null, domain: HELD_BY, reply: null, counts: {} },
  };
}

test("a late answer about mail that has left is given up, and those behind it are written", async () => {
  const { home } = cells;
  const [leaves, stays] = [await home.workspace(""), await home.workspace("")];
  const [left, stayed] = [await deferred(home, leaves.id), await deferred(home, stays.id)];
  const leaving = await beginToLeave(cells, leaves);
  await leaving.letGo();

  const settler = new Settler(home.sql, "worker", () => {});
  settler.note(delivered(leaves, left));
  settler.note(delivered(stays, stayed));
  await settler.written();
  const rows = await home.sql<{ id: string; status: string }[]>`
    select id, status from email where id = any(${[left, stayed]}::uuid[]) order by id`;
  expect(rows.map(({ status }) => status)).toEqual(["deferred", "delivered"]);
  await leaving.arrive();
});

test("caps that met a pause are judged soon after it, not with the next turn of minutes", async () => {
  const { home } = cells;
  const [leaves, stays] = [await home.workspace(""), await home.workspace("")];
  const leaving = await beginToLeave(cells, leaves);
  await leaving.pause(HOUR_MS);
  const { keeper, faults, close } = keeperOf(home);
  keeper.start({ ask: () => () => {} } as unknown as Looks);
  await expect.poll(() => String(faults[0]), POLL).toContain("is moving to another cell");
  await leaving.pause(0);
  const judged = () => home.sql`select from capacity where workspace_id = ${stays.id} and state is not null`;
  await expect.poll(judged, POLL).toHaveLength(1);
  await keeper.stop(5_000);
  await close();
});

const SEALER = new SecretSealer("a secret of this test, long enough");
const NO_DNS = { resolve4: () => Promise.reject(), resolve6: () => Promise.reject() } as never;

function webhookWorker({ sql }: TestCell): WebhookWorker {
  return new WebhookWorker({
    ...{ sql, sealer: SEALER, dns: NO_DNS, rules: egressRules([]) },
    ...{
      now: Date.now,
      given: () => 0,
      random: () => 0,
      crowding: () => 0,
      tellOwners: async () => {},
      onFault: () => {},
    },
  });
}

/** An endpoint to which nothing is to be told but that its log begins later. */
async function endpointOf({ sql }: TestCell, { id: workspaceId }: TestWorkspace): Promise<void> {
  const key = { workspaceId, id: randomUUID() };
  const secrets = SEALER.seal(key, [{ secret: newSecret(), until: null }]);
  await sql`update workspace set has_webhooks = true, logs_events = logs_events where id = ${workspaceId}`;
  await sql`insert into event_sequence (workspace_id, last) values (${workspaceId}, 1)`;
  await sql`
    insert into webhook (workspace_id, id, endpoint, secrets, status, cursor, created_at, updated_at)
    values (${workspaceId}, ${key.id}, 'https://hooks.example', ${secrets}, 'enabled', 0, now(), now())`;
}

test("endpoints that are let go of in a pause are free for others", async () => {
  const { home } = cells;
  const [leaves, stays] = [await home.workspace(""), await home.workspace("")];
  await endpointOf(home, leaves);
  await endpointOf(home, stays);
  const leaving = await beginToLeave(cells, leaves);
  const worker = webhookWorker(home);
  const ids = [leaves.id, stays.id];
  const told = () => home.sql`select from webhook where workspace_id = any(${ids}::uuid[]) and cursor = 1`;
  const inTurns = <T>(look: () => Promise<T>) => expect.poll(() => worker.turn().then(look, look), POLL);
  await inTurns(told).toHaveLength(2);

  await leaving.pause(HOUR_MS);
  const leased = async () =>
    (
      await home.sql<{ id: string }[]>`select workspace_id as id from webhook where lease_token is not null`
    ).map(({ id }) => id);
  await inTurns(leased).toEqual([leaves.id]);
});
