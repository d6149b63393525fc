/**
 * A worker that holds a bag and cannot read its e-mails lets go of it, and does not keep everybody from it.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const PATIENCE_MS = 30_000;
let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  // the next worker may take it at once, so each return is written down
  await engine.sql.unsafe(`
    create table given_back (generation int, claims int);
    create function note() returns trigger language plpgsql as
    $$ begin insert into given_back values (new.generation, new.claims); return null; end $$;
    create trigger given_back after update on bag for each row
    when (old.token is not null and new.token is null) execute function note()`);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("it is given back, without a mark against it, and goes when it can be read", async () => {
  const ws = await engine.workspace("pro");
  await ws.client.post("/emails", mail());
  const other = connectRecord(stage.databaseUrl, "setup", PATIENCE_MS);
  let delivery: Engine | undefined;
  await other.begin(async (tx) => {
    await tx`lock table body in access exclusive mode`;
    delivery = await startEngine(["deliver"], stage);
    const keeper = startEngine(["keeper"], stage);
    await expect
      .poll(() => engine.sql`select generation, claims from given_back`, { timeout: PATIENCE_MS })
      .toContainEqual({ generation: expect.toSatisfy((n: number) => n > 1), claims: 0 });
    await (await keeper).stop();
  });
  const keeper = await startEngine(["keeper"], stage);
  expect(await settled(engine.sql, ws.id, PATIENCE_MS)).toEqual({ delivered: 1 });
  await Promise.all([delivery?.stop(), keeper.stop(), other.end()]);
});
