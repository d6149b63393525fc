/**
 * Streams of a workspace: named in a send or by the key; each waits for itself, with a share that others
 * leave free.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { mailCommit } from "../../src/record/mail/commit.ts";
import { lockAccounts } from "../../src/record/workspaces/ledgers.ts";
import { BUCKET_MS, HOUR_BUCKETS } from "../../src/rules/ledger.ts";
import { MovableClock } from "../rig/clock.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { Client, mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = HOUR_BUCKETS * BUCKET_MS;

/** Ahead of the clock of the commands, whatever the hour. */
const clock = new MovableClock(Math.floor(Date.now() / DAY_MS) * DAY_MS + 1.5 * DAY_MS);
let stage: Stage;
let api: TestApi;
let hand: HandKeeper;
let line: CommandLine;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  hand = handKeeper(stage, clock);
  line = commandLine(stage);
});
afterAll(async () => {
  await api.stop();
  await hand.close();
  await stage.close();
});

test("a send says its stream, else its key does, else it is transactional", async () => {
  const ws = await api.workspace("pro");
  await stream(ws, "create", "news");
  const ofNews = await sender(ws, "news");
  expect(await streamOf(ws.client, mail())).toBe("transactional");
  expect(await streamOf(ws.client, { ...mail(), stream: "bulk" })).toBe("bulk");
  expect(await streamOf(ofNews, mail())).toBe("news");
  expect(await streamOf(ofNews, { ...mail(), stream: "transactional" })).toBe("transactional");

  const { body } = await ws.client.get<{ data: { stream: string }[] }>("/emails?stream=news");
  expect(body.data.map((one) => one.stream)).toEqual(["news"]);
  await line.json("key", "create", "--workspace", ws.id, "--preset", "sending", "--stream", "bulk");
  const keys = await line.json<{ stream: string }[]>("key", "list", "--workspace", ws.id);
  expect(keys.map((one) => one.stream).sort()).toEqual(["bulk", "news", "transactional"]);
});

test("a stream that the workspace does not have is refused, with the place in the batch", async () => {
  const ws = await api.workspace("pro");
  const other = await api.workspace("pro");
  await stream(other, "create", "theirs");
  const refused = await ws.client.post<Refusal>("/emails/batch", [mail(), { ...mail(), stream: "theirs" }]);
  expect(refused.status).toBe(422);
  expect(refused.body.message).toContain(
    "`[1].stream` field names a stream that this workspace does not have",
  );
  const malformed = await ws.client.post<Refusal>("/emails", { ...mail(), stream: "No such" });
  expect(malformed.body.message).toContain("must be 1 to 32 characters");
  expect((await ws.client.get("/emails?stream=No")).status).toBe(422);
});

test("bulk mail of a caller leaves transactional mail its share, and waits by itself", async () => {
  const ws = await api.workspace("pro", { cap_hour: 100, cap_day: 1_000 });
  await send(ws.client, 60, "bulk");
  await send(ws.client, 30, "bulk");
  expect(await counts(ws)).toEqual({ bulk: { accepted: 70, waiting: 20 } });
  await send(ws.client, 30, "transactional");
  expect((await counts(ws)).transactional).toEqual({ accepted: 30 });
});

test("of a batch in several streams each waits for itself, and the quota counts them together", async () => {
  const ws = await api.workspace("pro", { cap_hour: 100, cap_day: 1_000, emails_per_month: 100 });
  await send(ws.client, 70, "bulk");
  const mixed = Array.from({ length: 20 }, (_, n) => ({
    ...mail(),
    stream: n % 2 === 0 ? "bulk" : "transactional",
  }));
  expect((await ws.client.post("/emails/batch", mixed)).status).toBe(200);
  expect(await counts(ws)).toEqual({
    bulk: { accepted: 70, waiting: 10 },
    transactional: { accepted: 10 },
  });
  expect((await ws.client.post("/emails/batch", mixed)).status).toBe(429);
  expect((await ws.client.post("/emails/batch", mixed.slice(0, 10))).status).toBe(200);
});

test("a batch that the record refuses counts in none of its streams, whatever is committed with it", async () => {
  const ws = await api.workspace("pro", { cap_hour: 100, cap_day: 1_000, emails_per_month: 15 });
  await send(ws.client, 10, "bulk");
  const [before] = await lockAccounts(api.sql, [ws.id]);
  const submissionOf = (...mails: { bulk: boolean; weight: number }[]) => ({
    ...{
      workspaceId: ws.id,
      version: before?.version ?? 0,
      given: clock.now(),
      claim: null,
      attachments: [],
    },
    counted: mails.reduce((sum, { weight }) => sum + weight, 0),
    emails: mails.map((one) => ({
      ...{ ...one, workspaceId: ws.id, id: newId(clock.now()), keyId: null, stream: "", head: "{}" },
      ...{ bytes: 100, html: null, plain: "p", extra: null, scheduledAt: null },
    })),
  });
  const connect = () => connectRecord(stage.databaseUrl, "commits", 10_000);
  const commit = mailCommit({ connect, timeoutMs: 10_000 }, () => {}, Buffer.from);
  const [refused, accepted] = await Promise.all([
    commit.submit(submissionOf({ bulk: true, weight: 3 }, { bulk: false, weight: 6 })),
    commit.submit(submissionOf({ bulk: false, weight: 1 })),
  ]);
  await commit.close();
  expect([refused, accepted]).toMatchObject([{ kind: "over", used: 10 }, { kind: "accepted" }]);
  const [after] = await lockAccounts(api.sql, [ws.id]);
  expect(after?.ledger).toMatchObject({ monthUsed: 11, capDayUsed: 11, capDayBulk: 10 });
});

test("the reserved share of a stream is free for it, however much another sends", async () => {
  const ws = await api.workspace("pro", { cap_hour: 200, cap_day: 2_000 });
  await stream(ws, "create", "codes", "--kind", "transactional", "--reserved-share", "0.25");
  await send(ws.client, 100, "transactional");
  await send(ws.client, 100, "transactional");
  expect((await counts(ws)).transactional).toEqual({ accepted: 150, waiting: 50 });
  await send(ws.client, 40, "codes");
  expect((await counts(ws)).codes).toEqual({ accepted: 40 });
  await send(ws.client, 20, "codes");
  expect((await counts(ws)).codes).toEqual({ accepted: 50, waiting: 10 });

  clock.advance(HOUR_MS);
  await hand.keeper.release();
  expect(await counts(ws)).toEqual({ transactional: { accepted: 200 }, codes: { accepted: 60 } });
});

test("a stream that keys name stays; a deleted one lets out what waits, and keeps its kind", async () => {
  const ws = await api.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  await stream(ws, "create", "news");
  const created = await api.keyring.createKey(
    ws.id,
    { name: "n", permissions: ["emails:send"], audienceIds: null, stream: "news" },
    "owner",
  );
  await send(ws.client, 70, "news");
  const inUse = await line.postrider("stream", "delete", "news", "--workspace", ws.id);
  expect(inUse.err).toContain("Keys of the workspace send in the stream news");
  await api.keyring.revokeKey((created as { id: string }).id, "owner");
  await stream(ws, "delete", "news");
  expect((await ws.client.post("/emails", { ...mail(), stream: "news" })).status).toBe(422);
  const again = await line.postrider(
    ...["stream", "create", "news", "--workspace", ws.id, "--kind", "transactional"],
  );
  expect(again.err).toContain("news was a bulk stream");
  clock.advance(HOUR_MS);
  await hand.keeper.release();
  expect(await counts(ws)).toEqual({ news: { accepted: 70 } });
});

test("what does not fit together is refused", async () => {
  const ws = await api.workspace("pro");
  await stream(ws, "create", "one", "--reserved-share", "0.3");
  const tooMuch = await line.postrider(
    ...["stream", "create", "two", "--workspace", ws.id, "--reserved-share", "0.3"],
  );
  expect(tooMuch.err).toContain("together can be up to 0.5");
  await stream(ws, "change", "one", "--reserved-share", "0.1", "--pool", "news");
  await stream(ws, "create", "two", "--reserved-share", "0.3");
  const listed = await line.json<object[]>("stream", "list", "--workspace", ws.id);
  expect(listed).toMatchObject([
    { name: "transactional" },
    { name: "bulk", paused: false },
    { name: "one", kind: "bulk", reserved_share: 0.1, pool: "news", paused: false, waiting: 0 },
    { name: "two" },
  ]);
  for (const name of ["bulk", "constructor", "A"])
    expect((await line.postrider("stream", "create", name, "--workspace", ws.id)).status).toBe(1);
  const unknown = await api.keyring.createKey(
    ws.id,
    { name: "n", permissions: ["full"], audienceIds: null, stream: "three" },
    "owner",
  );
  expect(unknown).toMatchObject({ status: 422 });
});

async function stream({ id }: TestWorkspace, what: string, name: string, ...options: string[]) {
  await line.json("stream", what, name, "--workspace", id, ...options);
}

async function sender({ id }: TestWorkspace, name: string): Promise<Client> {
  const wanted = { name, permissions: ["full" as const], audienceIds: null, stream: name };
  const made = await api.keyring.createKey(id, wanted, "owner");
  return new Client(api.url, (made as { key: string }).key);
}

async function streamOf(client: Client, body: object): Promise<string> {
  const sent = await client.post<{ id: string }>("/emails", body);
  expect(sent.status).toBe(200);
  return (await client.get<{ stream: string }>(`/emails/${sent.body.id}`)).body.stream;
}

async function send(client: Client, count: number, name: string): Promise<void> {
  const emails = Array.from({ length: count }, () => ({ ...mail(), stream: name }));
  expect((await client.post("/emails/batch", emails)).status).toBe(200);
}

async function counts({ id }: TestWorkspace): Promise<Record<string, Record<string, number>>> {
  const rows = await api.sql<{ stream: string; status: string; count: number }[]>`
    select case when stream <> '' then stream when bulk then 'bulk' else 'transactional' end as stream, status,
           count(*)::int from email where workspace_id = ${id} group by 1, 2`;
  const found: Record<string, Record<string, number>> = {};
  for (const { stream: name, status, count } of rows) found[name] = { ...found[name], [status]: count };
  return found;
}
