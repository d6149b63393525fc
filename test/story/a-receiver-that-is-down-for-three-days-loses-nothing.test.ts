import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { MovableClock } from "../rig/clock.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;

type Shown = {
  status: string;
  failures: number;
  failing_since: string | null;
  disabled_for: string | null;
  events_behind: number;
  events_missed: number;
};

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
const clock = new MovableClock(Date.now());
beforeAll(async () => {
  stage = await openStage();
  receiver = await openReceiver();
  engine = await startEngine(["api", "webhooks"], {
    ...stage,
    clock,
    settings: TO_LOOPBACK,
  });
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

/** A workspace with one endpoint, at a path of its own. */
async function listening(): Promise<{ workspace: TestWorkspace; id: string; path: string }> {
  const workspace = await engine.workspace();
  const path = `/${randomUUID()}`;
  const { status, body } = await workspace.client.post<{ id: string }>("/webhooks", {
    endpoint: receiver.url(path),
  });
  expect(status).toBe(201);
  return { workspace, id: body.id, path };
}

/** Events as triggers write them, of e-mails that nobody has any more. */
async function tell(
  workspace: TestWorkspace,
  subjects: readonly string[],
  type = "email.sent",
): Promise<void> {
  await engine.sql`
    insert into outbox (workspace_id, at, type, subject_id)
    select ${workspace.id}, now(), ${type}, id from unnest(${[...subjects]}::uuid[]) as s(id)`;
}

const freshIds = (count: number) => Array.from({ length: count }, () => newId(Date.now()));
const heardAt = (path: string) => receiver.heard.filter((one) => one.path === path);

async function shown({ client }: TestWorkspace, id: string): Promise<Shown> {
  return (await client.get<Shown>(`/webhooks/${id}`)).body;
}

test("300 events of three days arrive, and there was a try now and then", async () => {
  const { workspace, id, path } = await listening();
  const subjects = freshIds(300);
  receiver.answerWith = (_, response) => response.writeHead(503).end();
  const began = clock.now();
  while (clock.now() < began + 72 * HOUR_MS) {
    await tell(workspace, subjects.splice(0, 4));
    const before = heardAt(path).length;
    clock.advance(HOUR_MS);
    await receiver.until(() => {
      // a try whose failure was noted after that hour waits for minutes more
      clock.advance(5 * SECOND_MS);
      return heardAt(path).length > before;
    });
  }
  await tell(workspace, subjects.splice(0));
  await expect.poll(async () => (await shown(workspace, id)).failures).toBeGreaterThan(10);
  const knocks = heardAt(path).length;
  expect(knocks).toBeLessThan(72 * 12 * 2);
  receiver.answerWith = (_, response) => response.end();
  const taken = () =>
    new Set(
      heardAt(path)
        .slice(knocks)
        .map(({ headers }) => headers["webhook-id"]),
    );
  await expect
    .poll(
      () => {
        clock.advance(30 * SECOND_MS);
        return taken().size;
      },
      { timeout: 40_000, interval: 200 },
    )
    .toBe(300);
  await expect
    .poll(() => shown(workspace, id))
    .toMatchObject({ failures: 0, failing_since: null, events_behind: 0, events_missed: 0 });
  expect(await engine.sql`select from webhook_delivery where webhook_id = ${id}`).toHaveLength(0);
});
