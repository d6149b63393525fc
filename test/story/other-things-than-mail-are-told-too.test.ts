import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { insertCapChange } from "../../src/record/workspaces/caps.ts";
import { giveDomain } from "../../src/record/workspaces/domains.ts";
import { resumeWorkspace, suspendWorkspace } from "../../src/record/workspaces/suspension.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

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
  expect(engine.complaints).toEqual([]);
});

async function listening(): Promise<{ workspace: TestWorkspace; path: string; id: string }> {
  const workspace = await engine.workspace();
  const path = `/${randomUUID()}`;
  const { body } = await workspace.client.post<{ id: string }>("/webhooks", { endpoint: receiver.url(path) });
  return { workspace, path, id: body.id };
}

const heardAt = (path: string) => receiver.heard.filter((one) => one.path === path).map(({ event }) => event);

test("a contact is told of; of one that is archived nothing says who it was", async () => {
  const { workspace, path } = await listening();
  const { client } = workspace;
  const email = `${randomUUID()}@example.net`;
  const audience = (await client.post<{ id: string }>("/audiences", { name: "People" })).body.id;
  const contacts = `/audiences/${audience}/contacts`;
  const { id } = (await client.post<{ id: string }>(contacts, { email, first_name: "Ada" })).body;
  await receiver.until(() => heardAt(path).length === 1);
  await client.call("PATCH", `${contacts}/${id}`, { unsubscribed: true });
  await receiver.until(() => heardAt(path).length === 2);
  await client.call("DELETE", `${contacts}/${id}`);
  await receiver.until(() => heardAt(path).length === 3);
  const [created, updated, deleted] = heardAt(path);
  expect(created).toMatchObject({
    type: "contact.created",
    data: {
      id,
      audience_id: audience,
      segment_ids: [audience],
      email,
      first_name: "Ada",
      unsubscribed: false,
    },
  });
  expect(updated).toMatchObject({ type: "contact.updated", data: { id, email, unsubscribed: true } });
  expect(deleted).toMatchObject({ type: "contact.deleted", data: { id, audience_id: audience } });
  expect(JSON.stringify(deleted)).not.toContain(email);
});

test("a domain is told of from its naming to its removal", async () => {
  const { workspace, path } = await listening();
  const name = `${randomUUID()}.example`;
  const { postrider } = commandLine(stage);
  await postrider("domain", "add", name, "--workspace", workspace.id);
  const now = new Date();
  await giveDomain(engine.sql, name, { to: workspace.id, from: null }, { now, checkAt: now });
  await receiver.until(() => heardAt(path).length === 2);
  await postrider("domain", "remove", name, "--workspace", workspace.id);
  await receiver.until(() => heardAt(path).length === 3);
  expect(heardAt(path).map(({ type }) => type)).toEqual([
    "domain.created",
    "domain.updated",
    "domain.deleted",
  ]);
  for (const { data } of heardAt(path)) expect(data).toMatchObject({ name });
  expect(new Set(heardAt(path).map(({ data }) => data.id)).size).toBe(1);
});

test("a cap that changed is told of, with the reason", async () => {
  const { workspace, path } = await listening();
  const change = { before: { day: 100, hour: 10 }, after: { day: 200, hour: 20 }, level: "steady" };
  const rest = { reason: "a good day", counts: null, policyVersion: null, by: "policy" };
  await insertCapChange(engine.sql, workspace.id, { ...change, ...rest }, new Date());
  await receiver.until(() => heardAt(path).length === 1);
  expect(heardAt(path)[0]).toMatchObject({
    type: "cap.changed",
    data: { cap_day: { before: 100, after: 200 }, cap_hour: { before: 10, after: 20 }, reason: "a good day" },
  });
});

test("a suspended workspace is sent nothing until it is resumed, and then all", async () => {
  const { workspace, path, id } = await listening();
  await workspace.client.post("/emails", mail());
  await receiver.until(() => heardAt(path).length === 1);
  await suspendWorkspace(engine.sql, workspace.id, null, new Date());
  await expect
    .poll(() => engine.sql`select from webhook where id = ${id} and lease_token is null`, { timeout: 10_000 })
    .toHaveLength(1);
  await engine.sql`update email set updated_at = now(), history = '[{"type":"failed","at":"2026-11-20T20:07:38Z"}]'
    where workspace_id = ${workspace.id}`;
  await expect
    .poll(() => engine.sql`select from outbox where workspace_id = ${workspace.id} and sequence = 2`)
    .toHaveLength(1);
  // others are told meanwhile
  const other = await listening();
  await other.workspace.client.post("/emails", mail());
  await receiver.until(() => heardAt(other.path).length === 1);
  expect(heardAt(path).length).toBe(1);
  await resumeWorkspace(engine.sql, workspace.id, null, new Date());
  await receiver.until(() => heardAt(path).length === 2);
  expect(heardAt(path)[1]).toMatchObject({ type: "email.failed", data: { failed: { reason: "" } } });
});

test("endpoints that never answer delay no other, and get no more connections than their own", async () => {
  const silent = await listening();
  const quick = await listening();
  receiver.answerWith = ({ path }, response) => {
    if (path !== silent.path) response.end();
  };
  receiver.mostOpen = 0;
  for (const { workspace } of [silent, quick]) {
    const ids = Array.from({ length: 500 }, () => randomUUID());
    await engine.sql`
      insert into outbox (workspace_id, at, type, subject_id)
      select ${workspace.id}, now(), 'email.sent', id from unnest(${ids}::uuid[]) as s(id)`;
  }
  await receiver.until(() => heardAt(quick.path).length === 500);
  expect(receiver.mostOpen).toBeLessThanOrEqual(2 * 32);
  expect(heardAt(silent.path).length).toBeLessThanOrEqual(32);
});

test("what a receiver answered about an erased contact is forgotten", async () => {
  const { workspace, path, id } = await listening();
  const { client } = workspace;
  const email = `${randomUUID()}@example.net`;
  receiver.answerWith = ({ body }, response) => response.writeHead(500).end(`cannot take ${body}`);
  const audience = (await client.post<{ id: string }>("/audiences", { name: "People" })).body.id;
  const contact = (await client.post<{ id: string }>(`/audiences/${audience}/contacts`, { email })).body.id;
  await client.post("/emails", mail({ to: email }));
  await receiver.until(() => heardAt(path).length === 2);
  const responses = async () =>
    JSON.stringify(await engine.sql`select response from webhook_attempt where webhook_id = ${id}`);
  await expect.poll(responses, { timeout: 10_000 }).toContain(email);
  await client.call("DELETE", `/audiences/${audience}/contacts/${contact}?mode=erase`);
  await expect.poll(responses, { timeout: 15_000 }).not.toContain(email);
});
