/**
 * What fails in a tick for one workspace, or for one of the things it looks at, does not keep it from the
 * others.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const HOURS_LATER_MS = 2 * 3_600_000;

let stage: Stage;
let engine: Engine;
let hand: HandKeeper;
const faults: string[] = [];
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  const later = () => Date.now() + HOURS_LATER_MS;
  hand = handKeeper(stage, { now: later, given: later }, undefined, {
    overload: { backlogMax: 1_000_000, diskFreeMinBytes: 1, dataFolder: "/does/not/exist" },
    onFault: (error) => faults.push((error as Error).message),
  });
});
beforeEach(() => void faults.splice(0));
afterAll(async () => {
  await hand.close();
  await engine.stop();
  await stage.close();
});

test("mail of one workspace that Postgres does not let move keeps no other workspace's", async () => {
  const workspaces = await Promise.all([1, 2, 3].map(() => engine.workspace("pro", { cap_hour: 1 })));
  for (const { client } of workspaces) await client.post("/emails/batch", [mail(), mail()]);
  const ids = workspaces.map(({ id }) => id).sort();
  const [stuck] = await engine.sql<{ id: string }[]>`
    select workspace_id as id from due group by 1 order by 1 limit 1`;
  await engine.sql.unsafe(`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'not this one'; end $$;
    create trigger refuse before update or delete on due for each row
      when (old.workspace_id = '${stuck?.id}') execute function refuse()`);
  await hand.keeper.release();
  const waiting = await engine.sql<{ id: string }[]>`select distinct workspace_id as id from due`;
  expect(ids).toContain(stuck?.id);
  expect(waiting).toEqual([{ id: stuck?.id }]);
  expect(faults).toEqual(["not this one"]);
});

test("a folder that is gone does not keep the keeper from looking at the backlog", async () => {
  await engine.sql`insert into brake (name, reason, since) values ('backlog', 'it was long', now())`;
  await hand.keeper.overload();
  expect(await engine.sql`select name from brake`).toEqual([]);
  expect(faults).toEqual([expect.stringContaining("/does/not/exist")]);
});
