/**
 * What a request attaches is written in transactions of less than half a megabyte, since the commits of
 * others wait behind each of them at the disk. What the version before kept in one row stays there.
 */
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { keepAhead, partAhead, readAttachments } from "../../src/record/mail/attachments.ts";
import { ownDatabase } from "../rig/services.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const TRANSACTION_BYTES_MAX = 500_000;
const PIECES = "0052_attachment_pieces.sql";
const LONG_AGO = new Date("2026-01-01T00:00:00Z");

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test("one of megabytes", async () => {
  const ws = await api.workspace();
  const content = randomBytes(2_000_001);
  const id = await send(ws, [content]);
  expect(await transactions(ws)).toHaveLength(7);
  expect(await contents(ws, [content])).toEqual([true]);
  const { body } = await ws.client.get<{ data: { download_url: string }[] }>(`/emails/${id}/attachments`);
  const { pathname } = new URL(body.data[0]?.download_url as string);
  const loaded = Buffer.from(await (await fetch(new URL(pathname, api.url))).arrayBuffer());
  expect(loaded.equals(content)).toBe(true);
});

test("many that are much together, of a batch, too", async () => {
  const ws = await api.workspace();
  const each = Array.from({ length: 60 }, () => randomBytes(40_000));
  await send(ws, each);
  expect((await transactions(ws)).length).toBeGreaterThan(4);
  const batch = each.map((_, n) => mail({ attachments: attachments([randomBytes(40_000 + n)]) }));
  expect((await ws.client.post("/emails/batch", batch)).status).toBe(200);
  await transactions(ws);
  expect(new Set(await contents(ws, each))).toEqual(new Set([true]));
});

test("one that all e-mails of a batch have is written once", async () => {
  const ws = await api.workspace();
  const ninety = (content: Buffer) =>
    partAhead(Array.from({ length: 90 }, () => ({ workspaceId: ws.id, hash: hashOf(content), content })));
  const small = ninety(randomBytes(250_000));
  expect([small.ahead.length, small.rest.length]).toEqual([0, 1]);
  const large = ninety(randomBytes(290_000));
  let statements = 0;
  await keepAhead(api.sql, large.ahead, new Date(), () => ++statements > 0);
  expect(statements).toBe(1);
});

test("what a crash or the retention has taken away is written again, and all of it is in use", async () => {
  const ws = await api.workspace();
  const content = randomBytes(1_500_000);
  await send(ws, [content]);
  const { sql } = api;
  await sql`update attachment set last_used_at = ${LONG_AGO} where workspace_id = ${ws.id}`;
  await sql`
    delete from attachment where (workspace_id, hash) in
      (select workspace_id, hash from attachment where workspace_id = ${ws.id} order by hash offset 1 limit 1)`;
  expect(await contents(ws, [content])).toEqual([false]);
  await send(ws, [content]);
  expect(await contents(ws, [content])).toEqual([true]);
  await sql`update attachment set last_used_at = ${LONG_AGO} where workspace_id = ${ws.id}`;
  await send(ws, [content]);
  const old = await sql`
    select from attachment where workspace_id = ${ws.id} and last_used_at <= ${LONG_AGO}`;
  expect(old.count).toBe(0);
});

test("what was used within the hour is left as it is", async () => {
  const ws = await api.workspace();
  const [small, large] = [randomBytes(1_000), randomBytes(1_500_000)];
  const sendBoth = async () => {
    await send(ws, [small]);
    await send(ws, [large]);
  };
  const rows = () =>
    api.sql`select xmin::text, hash from attachment where workspace_id = ${ws.id} order by hash`;
  await sendBoth();
  const before = [...(await rows())];
  await sendBoth();
  expect([...(await rows())]).toEqual(before);
  await api.sql`
    update attachment set last_used_at = now() - interval '61 minutes' where workspace_id = ${ws.id}`;
  await sendBoth();
  const old = await api.sql`
    select from attachment where workspace_id = ${ws.id} and last_used_at < now() - interval '10 minutes'`;
  expect(old.count).toBe(0);
});

test("one that the version before kept in one row is read, and not written again", async () => {
  const ws = await api.workspace();
  const content = randomBytes(1_000_000);
  await api.sql`
    insert into attachment (workspace_id, hash, content, last_used_at)
    values (${ws.id}, decode(${hashOf(content)}, 'hex'), ${content}, ${LONG_AGO})`;
  expect(await contents(ws, [content])).toEqual([true]);
  await keepAhead(api.sql, [{ workspaceId: ws.id, hash: hashOf(content), content }], new Date());
  const rows = await api.sql`
    select last_used_at > ${LONG_AGO} as is_used from attachment where workspace_id = ${ws.id}`;
  expect([...rows]).toEqual([{ is_used: true }]);
});

test("for a day after the upgrade they are kept as the version before reads them", async () => {
  const database = await ownDatabase();
  const upgraded = await testApi({ databaseUrl: database.url });
  const { sql } = upgraded;
  const ws = await upgraded.workspace();
  const rows = async (content: Buffer) => {
    await send(ws, [content]);
    const kept = await sql<{ bytes: number | null }[]>`
      select octet_length(content) as bytes from attachment where workspace_id = ${ws.id} order by hash`;
    await sql`delete from attachment where workspace_id = ${ws.id}`;
    return kept.map(({ bytes }) => bytes);
  };
  const content = randomBytes(500_000);
  await sql`update migration set applied_at = now() - interval '30 days' where name <> ${PIECES}`;
  expect(await rows(content)).toEqual([500_000]);
  await sql`update migration set applied_at = now() - interval '25 hours' where name = ${PIECES}`;
  expect(await rows(content)).toEqual([null, 393_216, 106_784]);
  await upgraded.stop();
  await database.drop();
});

test("nobody is served on who gave up, and the next try goes on where that ended", async () => {
  const ws = await api.workspace();
  const content = randomBytes(2_000_000);
  const attachment = { workspaceId: ws.id, hash: hashOf(content), content };
  let asked = 0;
  await keepAhead(api.sql, [attachment], new Date(), () => ++asked < 4);
  const written = async () => {
    const rows = await api.sql<{ rows: number }[]>`
      select count(*)::int as rows from attachment where workspace_id = ${ws.id} group by xmin::text`;
    return rows.map(({ rows }) => rows).sort();
  };
  expect(await written()).toEqual([1, 1]);
  expect(await contents(ws, [content])).toEqual([false]);
  await keepAhead(api.sql, [attachment], new Date());
  expect(await contents(ws, [content])).toEqual([true]);
  expect(await written()).toEqual([1, 1, 1, 1, 1, 1, 1]);
});

test("for the version before, pieces are put together as the changes say", async () => {
  const database = await ownDatabase();
  const upgraded = await testApi({ databaseUrl: database.url });
  const ws = await upgraded.workspace();
  const sent = [randomBytes(1_000_000), randomBytes(400_000), randomBytes(300_000)];
  await send(ws, sent);
  const broken = randomBytes(1_000_000);
  await send(ws, [broken]);
  // retention had begun with it: what is left would be taken for the whole, and sent
  await upgraded.sql`delete from attachment where hash > decode(${hashOf(broken)}, 'hex') || '\\x00000001'
    and hash < decode(${hashOf(broken)}, 'hex') || '\\xff'`;
  const [statements = ""] = /update attachment w[^`]+/.exec(readFileSync("CHANGELOG.md", "utf8")) ?? [];
  await upgraded.sql.unsafe(statements);
  const rest = await upgraded.sql`select from attachment where hash = decode(${hashOf(broken)}, 'hex')`;
  expect(rest.count).toBe(0);
  for (const content of sent) {
    const [row] = await upgraded.sql<{ content: Buffer }[]>`
      select content from attachment where hash = decode(${hashOf(content)}, 'hex')`;
    expect(row?.content.equals(content)).toBe(true);
  }
  await upgraded.stop();
  await database.drop();
});

async function send(ws: TestWorkspace, contents: readonly Buffer[]): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>(
    "/emails",
    mail({ attachments: attachments(contents) }),
  );
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

function attachments(contents: readonly Buffer[]): { filename: string; content: string }[] {
  return contents.map((content, n) => ({ filename: `${n}.bin`, content: content.toString("base64") }));
}

/** The bytes that each transaction has written. None has written much. */
async function transactions(ws: TestWorkspace): Promise<number[]> {
  const rows = await api.sql<{ bytes: number }[]>`
    select coalesce(sum(octet_length(content)), 0)::int as bytes
    from attachment where workspace_id = ${ws.id} group by xmin::text`;
  const each = rows.map(({ bytes }) => bytes);
  expect(Math.max(...each)).toBeLessThan(TRANSACTION_BYTES_MAX);
  return each;
}

/** Whether they are read as they were sent. */
async function contents(ws: TestWorkspace, sent: readonly Buffer[]): Promise<boolean[]> {
  const keys = sent.map((content) => ({ hash: hashOf(content), bytes: content.byteLength }));
  const read = await readAttachments(api.sql, ws.id, keys);
  return read.map((content, n) => content?.equals(sent[n] as Buffer) ?? false);
}

function hashOf(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
