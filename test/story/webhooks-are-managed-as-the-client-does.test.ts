import { randomUUID } from "node:crypto";
import { Resend } from "resend";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import type { Refusal, TestWorkspace } from "../rig/workspace.ts";

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
let workspace: TestWorkspace;
let resend: Resend;
beforeAll(async () => {
  stage = await openStage();
  receiver = await openReceiver();
  engine = await startEngine(["api", "webhooks"], { ...stage, settings: TO_LOOPBACK });
  workspace = await engine.workspace();
  resend = new Resend(workspace.client.key, { baseUrl: `${engine.url}/api/v1` });
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

function fine<T>({ data, error }: { data: T | null; error: unknown }): T {
  expect(error).toBeNull();
  return data as T;
}

const heardAt = (path: string) => receiver.heard.filter((one) => one.path === path);

async function added(
  events = ["email.sent" as const],
): Promise<{ id: string; secret: string; path: string }> {
  const path = `/${randomUUID()}`;
  const made = fine(await resend.webhooks.create({ endpoint: receiver.url(path), events }));
  return { id: made.id, secret: made.signing_secret, path };
}

async function tell(count: number, type = "email.sent"): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId(Date.now()));
  await engine.sql`
    insert into outbox (workspace_id, at, type, subject_id)
    select ${workspace.id}, now(), ${type}, id from unnest(${ids}::uuid[]) as s(id)`;
  return ids;
}

test("the official client adds, reads, changes and removes endpoints", async () => {
  const { id, secret, path } = await added();
  expect(secret).toMatch(/^whsec_/);
  const shown = fine(await resend.webhooks.get(id));
  expect(shown).toMatchObject({
    object: "webhook",
    id,
    endpoint: receiver.url(path),
    status: "enabled",
    events: ["email.sent"],
  });
  expect(fine(await resend.webhooks.list()).data[0]).toMatchObject({ id, endpoint: receiver.url(path) });
  expect(fine(await resend.webhooks.update(id, { status: "disabled", events: ["email.bounced"] }))).toEqual({
    object: "webhook",
    id,
  });
  expect(fine(await resend.webhooks.get(id))).toMatchObject({
    status: "disabled",
    events: ["email.bounced"],
  });
  expect(fine(await resend.webhooks.remove(id))).toEqual({ object: "webhook", id, deleted: true });
  expect((await resend.webhooks.get(id)).error).toMatchObject({ name: "not_found" });
});

test("pages of a list are whole", async () => {
  const ids = [(await added()).id, (await added()).id, (await added()).id];
  const first = fine(await resend.webhooks.list({ limit: 2 }));
  expect(first.has_more).toBe(true);
  expect(first.data.map(({ id }) => id)).toEqual([ids[2], ids[1]]);
  const second = fine(await resend.webhooks.list({ limit: 1, after: ids[1] as string }));
  expect(second.data.map(({ id }) => id)).toEqual([ids[0]]);
  for (const id of ids) await resend.webhooks.remove(id);
});

test("a secret is shown once: at creation, and when it is rotated", async () => {
  const { id, secret } = await added();
  const answers = [
    await workspace.client.get(`/webhooks/${id}`),
    await workspace.client.get("/webhooks"),
    await workspace.client.call("PATCH", `/webhooks/${id}`, { status: "enabled" }),
  ];
  const rotated = fine(await resend.webhooks.rotateSigningSecret(id));
  expect(rotated).toMatchObject({ object: "webhook", id, signing_secret: expect.stringMatching(/^whsec_/) });
  expect(rotated.signing_secret).not.toBe(secret);
  answers.push(await workspace.client.get(`/webhooks/${id}`));
  const shown = await commandLine(stage).postrider("webhook", "show", id, "--workspace", workspace.id);
  for (const text of [...answers.map(({ body }) => JSON.stringify(body)), shown.out])
    for (const one of [secret, rotated.signing_secret]) expect(text).not.toContain(one.slice(6, 20));
  const stored = await engine.sql`select w::text as row from webhook w where id = ${id}`;
  expect(JSON.stringify(stored)).not.toContain(secret.slice(6, 20));
  await resend.webhooks.remove(id);
});

test("only what an endpoint asks for is sent to it", async () => {
  const { id, path } = await added();
  await tell(20, "email.accepted");
  const [wanted] = await tell(1, "email.sent");
  await tell(20, "email.delivered");
  await receiver.until(() => heardAt(path).length === 1);
  await expect
    .poll(
      async () =>
        (await workspace.client.get<{ events_behind: number }>(`/webhooks/${id}`)).body.events_behind,
    )
    .toBe(0);
  expect(heardAt(path).map(({ event }) => event.data.email_id)).toEqual([wanted]);
  await resend.webhooks.remove(id);
});

test("events and attempts are shown, and one event or a span of time is sent again", async () => {
  const { id: webhookId, path } = await added();
  const subjects = await tell(30);
  await receiver.until(() => heardAt(path).length === 30);
  await expect
    .poll(
      async () => {
        const { data } = fine(await resend.webhooks.events.list({ webhookId, limit: 100 }));
        return data.filter((one) => one.status === "success").length;
      },
      { timeout: 15_000 },
    )
    .toBe(30);
  const list = fine(await resend.webhooks.events.list({ webhookId, limit: 20 }));
  expect(list.has_more).toBe(true);
  const rest = fine(
    await resend.webhooks.events.list({ webhookId, limit: 20, after: list.data.at(-1)?.id as string }),
  );
  expect(rest.data.length).toBe(10);

  const eventId = list.data[0]?.id as string;
  const event = fine(await resend.webhooks.events.get({ webhookId, eventId }));
  expect(event).toMatchObject({
    object: "webhook_event",
    id: eventId,
    status: "success",
    next_attempt_at: null,
  });
  expect(event.payload).toMatchObject({ type: "email.sent", data: { email_id: subjects.at(-1) } });
  expect(fine(await resend.webhooks.events.attempts.list({ webhookId, eventId })).data).toMatchObject([
    { http_status_code: 200, response: "" },
  ]);

  expect(fine(await resend.webhooks.events.replay({ webhookId, eventId }))).toEqual({
    object: "webhook_event",
    id: eventId,
  });
  await receiver.until(() => heardAt(path).length === 31);
  expect(heardAt(path).at(-1)?.headers["webhook-id"]).toBe(eventId);

  const since = new Date(Date.now() - 600_000).toISOString();
  const { status } = await workspace.client.post(`/webhooks/${webhookId}/replay`, { since });
  expect(status).toBe(202);
  const again = () => subjects.filter((one) => receiver.about(one).length >= 2);
  await receiver.until(() => again().length === 30);
  const ids = subjects.flatMap((one) => receiver.about(one).map(({ headers }) => headers["webhook-id"]));
  expect(new Set(ids).size).toBe(30);
  await expect
    .poll(() => engine.sql`select from webhook_replay where webhook_id = ${webhookId}`)
    .toHaveLength(0);
  await resend.webhooks.remove(webhookId);
});

test("the command line adds an endpoint, tests it, shows attempts and removes it", async () => {
  const { json, postrider } = commandLine({ ...stage, settings: TO_LOOPBACK });
  const path = `/${randomUUID()}`;
  const of = ["--workspace", workspace.id];
  const made = await json<{ id: string; signing_secret: string; public_key: string }>(
    ...["webhook", "add", receiver.url(path), "--events", "email.bounced", "--ed25519", ...of],
  );
  expect(made.signing_secret).toMatch(/^whsec_/);
  expect(made.public_key).toMatch(/^whpk_/);
  const tested = await postrider("webhook", "test", made.id, ...of);
  expect(tested.out).toMatch(/The test event was answered 200 in \d+ ms/);
  expect(heardAt(path).map(({ event }) => event.type)).toEqual(["webhook.test"]);
  expect(heardAt(path)[0]?.headers["webhook-signature"]).toMatch(/^v1,\S+ v1a,\S+$/);

  receiver.answerWith = (_, response) => response.writeHead(404).end("nothing here");
  const refused = await postrider("webhook", "test", made.id, ...of);
  expect(refused).toMatchObject({ status: 1 });
  expect(refused.err).toContain("The test event was not accepted: the endpoint answered 404");
  receiver.answerWith = (_, response) => response.end();
  const attempts = await json<{ response: string | null }[]>("webhook", "attempts", made.id, ...of);
  expect(attempts.map(({ response }) => response)).toEqual(["nothing here", null]);
  expect((await postrider("webhook", "list", ...of)).out).toContain(receiver.url(path));
  expect((await postrider("webhook", "remove", made.id, ...of)).status).toBe(0);
  expect((await postrider("webhook", "show", made.id, ...of)).err).toContain("There is no webhook");
  const private_ = await postrider("webhook", "add", "https://10.0.0.1/", ...of);
  expect(private_.err).toContain("must not lead to 10.0.0.1");
});

test("what cannot be is refused, in words", async () => {
  const post = (body: unknown) => workspace.client.post<Refusal>("/webhooks", body);
  const endpoint = "https://example.com/hook";
  expect((await post({})).body.message).toBe("Missing `endpoint` field.");
  expect((await post({ endpoint, events: ["email.opened"] })).body.message).toContain(
    "`email.opened` is not",
  );
  expect((await post({ endpoint, events: [] })).body.message).toContain("at least one event");
  const { id } = await added();
  const { body } = await workspace.client.post<Refusal>(`/webhooks/${id}/replay`, {});
  expect(body.message).toContain("One of the fields");
  await resend.webhooks.remove(id);
});

test("the fifty-first endpoint of a workspace is refused, also when many come at once", async () => {
  const { client, id } = await engine.workspace();
  const made = await Promise.all(
    Array.from({ length: 60 }, () => client.post("/webhooks", { endpoint: "https://example.com/" })),
  );
  expect(made.filter(({ status }) => status === 201).length).toBe(50);
  expect(made.filter(({ status }) => status === 422).length).toBe(10);
  expect(await engine.sql`select from webhook where workspace_id = ${id}`).toHaveLength(50);
});
