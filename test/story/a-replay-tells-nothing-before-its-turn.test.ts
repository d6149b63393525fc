/**
 * An owner asks for a range that reaches beyond what their endpoint has been sent: what follows there is sent
 * once, in its turn.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { replayRange } from "../../src/record/outbox/replay.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";

/** More than are read for an endpoint at once. */
const EVENTS = 100;
const FIRST = 50;
const SECOND = 80;

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
beforeAll(async () => {
  stage = await openStage();
  receiver = await openReceiver();
  engine = await startEngine(["api", "webhooks"], { ...stage, settings: TO_LOOPBACK });
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
});

test("of one e-mail the events come in order, and those of the range that were told come again", async () => {
  const { id: workspaceId, client } = await engine.workspace();
  const { body: webhook } = await client.post<{ id: string }>("/webhooks", { endpoint: receiver.url() });
  const key = { workspaceId, id: webhook.id };
  await client.call("PATCH", `/webhooks/${webhook.id}`, { status: "disabled" });
  const subject = newId(Date.now());
  const subjects = Array.from({ length: EVENTS }, (_, n) =>
    [FIRST, SECOND].includes(n + 1) ? subject : newId(Date.now()),
  );
  await engine.sql`
    insert into outbox (workspace_id, sequence, at, type, subject_id)
    select ${workspaceId}, n, now(), 'email.sent', s from unnest(${subjects}::uuid[]) with ordinality as t(s, n)`;
  await engine.sql`
    insert into event_sequence (workspace_id, last) values (${workspaceId}, ${EVENTS})`;
  const replay = (from: number) =>
    replayRange(engine.sql, key, { id: newId(Date.now()), from, to: EVENTS }, new Date());
  const isOver = async () => {
    const [row] = await engine.sql<{ isOver: boolean }[]>`
      select cursor = ${EVENTS} and not exists (select from webhook_replay where webhook_id = ${webhook.id})
        as "isOver" from webhook where id = ${webhook.id}`;
    return row?.isOver;
  };
  const ofSubject = () =>
    receiver.heard
      .map(({ headers }) => String(headers["webhook-id"]))
      .filter((id) => id.startsWith(subject))
      .map((id) => Number(id.split("_")[1]));

  expect(await replay(SECOND - 10)).toBe("begun");
  await client.call("PATCH", `/webhooks/${webhook.id}`, { status: "enabled" });
  await expect.poll(isOver, { timeout: 20_000 }).toBe(true);
  expect(ofSubject()).toEqual([FIRST, SECOND]);
  expect(receiver.heard).toHaveLength(EVENTS);

  expect(await replay(SECOND)).toBe("begun");
  await expect.poll(isOver, { timeout: 20_000 }).toBe(true);
  expect(receiver.heard).toHaveLength(EVENTS + EVENTS - SECOND + 1);
});
