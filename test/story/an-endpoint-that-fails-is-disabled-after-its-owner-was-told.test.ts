import { afterAll, beforeAll, expect, test } from "vitest";
import { hashPassword } from "../../src/admission/password.ts";
import { newId } from "../../src/ids.ts";
import { disableFailing } from "../../src/record/outbox/dispatch.ts";
import { resumeWorkspace, suspendWorkspace } from "../../src/record/workspaces/suspension.ts";
import { insertOwner } from "../../src/record/workspaces/workspaces.ts";
import { DISABLE_AFTER_MS, NOTICE_MS } from "../../src/rules/webhook.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

type Shown = { status: string; disabled_for: string | null; failing_since: string | null };

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
beforeAll(async () => {
  stage = await openStage({ keepRaw: true });
  receiver = await openReceiver();
  receiver.answerWith = (_, response) => response.writeHead(500).end();
  const settings = { ...TO_LOOPBACK, MAIL_FROM: "Operator <ops@mail.example>" };
  engine = await startEngine(["api", "deliver", "webhooks", "keeper"], { ...stage, settings });
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

async function failing(owner: string | null): Promise<{ workspace: TestWorkspace; id: string }> {
  const workspace = await engine.workspace();
  if (owner !== null) {
    const row = { id: newId(Date.now()), workspaceId: workspace.id, email: owner };
    await insertOwner(engine.sql, { ...row, passwordHash: await hashPassword("a password") }, new Date());
  }
  const endpoint = receiver.url(`/${workspace.id}`);
  const { body } = await workspace.client.post<{ id: string }>("/webhooks", { endpoint });
  return { workspace, id: body.id };
}

/** As if it had failed for so long, until now: the clock of the engine is Postgres' own. */
async function age(id: string, days: number): Promise<void> {
  await ageUntried(id, days);
  await tryNow(id);
}

async function ageUntried(id: string, days: number): Promise<void> {
  await engine.sql`
    update webhook set failures = 50, failing_since = now() - ${days} * interval '1 day',
      retry_at = now() + interval '1 hour' where id = ${id}`;
}

/** What is written of an attempt that failed. */
async function tryNow(id: string): Promise<void> {
  await engine.sql`
    insert into webhook_attempt (workspace_id, webhook_id, id, sequence, at, status, ms)
    select workspace_id, id, ${newId(Date.now())}, 1, now(), 500, 1 from webhook where id = ${id}`;
}

/** Its owner had the mail about it two days ago. */
async function toldOf({ workspace, id }: { workspace: TestWorkspace; id: string }): Promise<void> {
  await age(id, 2);
  await sweep();
  await engine.sql`update email set delivered_at = now() - interval '2 days' where workspace_id = ${workspace.id}`;
}

function disable(): Promise<number> {
  return disableFailing(engine.sql, {
    now: Date.now(),
    failingMs: DISABLE_AFTER_MS,
    noticeMs: NOTICE_MS,
    most: 100,
  });
}

function daysAgo(days: number): Date {
  return new Date(Date.now() - days * 86_400_000);
}

async function shown({ client }: TestWorkspace, id: string): Promise<Shown> {
  return (await client.get<Shown>(`/webhooks/${id}`)).body;
}

/** What an engine that starts does at once: owners are told, and endpoints disabled. */
async function sweep(): Promise<void> {
  const settings = { ...TO_LOOPBACK, MAIL_FROM: "Operator <ops@mail.example>" };
  const other = await startEngine(["webhooks"], { ...stage, settings });
  await expect
    .poll(
      () => engine.sql`select from webhook where told_by is null and failing_since < now() - interval '1 day'
    and workspace_id in (select workspace_id from member)`,
      { timeout: 20_000 },
    )
    .toHaveLength(0);
  await other.stop();
}

test("the owner is told by the operator after a day, and only a day after that mail arrived it is disabled", async () => {
  const { workspace, id } = await failing("owner@owner.example");
  await age(id, 2);
  await sweep();
  const told = () => stage.sink.ledger.mails.filter(({ to }) => to.includes("owner@owner.example"));
  await expect.poll(() => told().length, { timeout: 20_000 }).toBe(1);
  expect(told()[0]?.from).toContain("mail.example");
  const text = String(told()[0]?.raw).replaceAll("=\r\n", "");
  expect(text).toContain("Subject: A webhook endpoint accepts no events");
  expect(text).toContain(`postrider webhook enable ${id} --workspace ${workspace.id}`);
  expect(await shown(workspace, id)).toMatchObject({ status: "enabled" });

  // long enough, but the mail came just now
  await age(id, 6);
  await sweep();
  expect(await shown(workspace, id)).toMatchObject({ status: "enabled" });
  expect(told().length).toBe(1);

  await engine.sql`update email set delivered_at = now() - interval '2 days' where workspace_id = ${workspace.id}`;
  const other = await startEngine(["webhooks"], stage);
  await expect
    .poll(() => shown(workspace, id), { timeout: 20_000 })
    .toMatchObject({ status: "disabled", disabled_for: "failing" });
  await other.stop();

  // by hand it goes on, and all is forgotten
  await commandLine(stage).postrider("webhook", "enable", id, "--workspace", workspace.id);
  expect(await shown(workspace, id)).toMatchObject({ status: "enabled", failing_since: null });
});

test("a workspace whose owner nobody knows keeps its endpoint, however long it fails", async () => {
  const { workspace, id } = await failing(null);
  await age(id, 100);
  const other = await startEngine(["webhooks"], stage);
  await other.stop();
  expect(await shown(workspace, id)).toMatchObject({ status: "enabled" });
});

test("the time in which its workspace was suspended does not count as failing", async () => {
  const one = await failing("suspended@owner.example");
  const { workspace, id } = one;
  await toldOf(one);
  await age(id, 8);
  await suspendWorkspace(engine.sql, workspace.id, null, daysAgo(6));
  await disable();
  expect(await shown(workspace, id)).toMatchObject({ status: "enabled" });

  await resumeWorkspace(engine.sql, workspace.id, null, new Date());
  await tryNow(id);
  await disable();
  const { status, failing_since } = await shown(workspace, id);
  expect(status).toBe("enabled");
  expect(Math.abs(Date.parse(failing_since as string) - daysAgo(2).getTime())).toBeLessThan(60_000);
  // resumed twice, it is no later
  await resumeWorkspace(engine.sql, workspace.id, null, new Date());
  expect(await shown(workspace, id)).toMatchObject({ failing_since });
});

test("one that began to fail in the suspension has failed since it was over, and one that does not has not", async () => {
  const { workspace, id } = await failing(null);
  const { body: sound } = await workspace.client.post<{ id: string }>("/webhooks", {
    endpoint: receiver.url(),
  });
  await suspendWorkspace(engine.sql, workspace.id, null, daysAgo(6));
  // a request that was under way
  await age(id, 5.9);
  const resumedAt = new Date();
  await resumeWorkspace(engine.sql, workspace.id, null, resumedAt);
  expect(await shown(workspace, id)).toMatchObject({ failing_since: resumedAt.toISOString() });
  expect(await shown(workspace, sound.id)).toMatchObject({ failing_since: null });
});

test("what has failed for long is disabled after an attempt only: after a suspension, or days without events", async () => {
  const one = await failing("resumed@owner.example");
  const { workspace, id } = one;
  await toldOf(one);
  await age(id, 6);
  await suspendWorkspace(engine.sql, workspace.id, null, new Date());
  await resumeWorkspace(engine.sql, workspace.id, null, new Date());
  await disable();
  expect(await shown(workspace, id)).toMatchObject({ status: "enabled" });
  await tryNow(id);
  await disable();
  expect(await shown(workspace, id)).toMatchObject({ status: "disabled", disabled_for: "failing" });

  const silent = await failing("silent@owner.example");
  await toldOf(silent);
  await engine.sql`delete from webhook_attempt where webhook_id = ${silent.id}`;
  await ageUntried(silent.id, 6);
  await disable();
  expect(await shown(silent.workspace, silent.id)).toMatchObject({ status: "enabled" });
  await tryNow(silent.id);
  await disable();
  expect(await shown(silent.workspace, silent.id)).toMatchObject({ status: "disabled" });
});
