/**
 * Mail of a suspended workspace that comes due is set aside. However often more of it does, due mail of
 * others goes on at once, not at the next look.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { MovableClock } from "../rig/clock.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const HOUR_MS = 3_600_000;
const clock = new MovableClock(Date.now());
let stage: Stage;
let api: TestApi;
let hand: HandKeeper;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  hand = handKeeper(stage, clock);
});
afterAll(async () => {
  await api.stop();
  await hand.close();
  await stage.close();
});

async function schedule(ws: TestWorkspace): Promise<string> {
  const scheduled_at = new Date(clock.now() + HOUR_MS).toISOString();
  const { body } = await ws.client.post<{ id: string }>("/emails", mail({ scheduled_at }));
  return body.id;
}

test.each(["scheduled", "deferred"])("of %s mail", async (why) => {
  const [suspended, honest] = [await api.workspace(), await api.workspace()];
  const ids = [await schedule(suspended), await schedule(honest)];
  await api.sql`update workspace set suspended_at = now() where id = ${suspended.id}`;
  if (why === "deferred") {
    await api.sql`update email set status = 'deferred' where id = any(${ids}::uuid[])`;
    await api.sql`update due set why = 'deferred' where email_id = any(${ids}::uuid[])`;
  }
  clock.advance(HOUR_MS + 1);
  expect(await hand.keeper.pack()).toBe(true);
  await hand.keeper.pack();
  const due = await api.sql<{ email_id: string; is_held: boolean }[]>`
    select email_id, is_held from due where email_id = any(${ids}::uuid[])`;
  expect(due).toEqual([{ email_id: ids[0], is_held: true }]);
});
