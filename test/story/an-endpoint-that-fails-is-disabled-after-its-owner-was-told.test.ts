import { afterAll, beforeAll, expect, test } from "vitest";
import { hashPassword } from "../../src/admission/password.ts";
import { newId } from "../../src/ids.ts";
import { insertOwner } from "../../src/record/workspaces/workspaces.ts";
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

/** As if it had failed for so long: the clock of the engine is Postgres' own. */
async function age(id: string, days: number): Promise<void> {
  await engine.sql`
    update webhook set failures = 50, failing_since = now() - ${days} * interval '1 day',
      retry_at = now() + interval '1 hour' where id = ${id}`;
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
