/**
 * Pages of e-mails with as many and as long recipients as one may have: what is long is given in shorter
 * pages.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { freshWorkspace, mail, type Refusal, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const EMAILS = 120;
const EVENTS = 1_000;

let database: OwnDatabase;
let engine: Engine;
let api: EngineProcess;
let hostile: TestWorkspace;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine([], { databaseUrl: database.url });
  api = await startProcess(["api"], { databaseUrl: database.url, watchesLoop: true });
  hostile = await freshWorkspace(engine.keyring, `http://127.0.0.1:${api.port}`);
  await sendLong();
});
afterAll(async () => {
  await api?.stop();
  await engine?.stop();
  await database.drop();
});

/** As JSON, four such fields of an e-mail have 100 KB. */
const NAME = String.raw`\a`.repeat(145);
const people = (who: string) => Array.from({ length: 50 }, (_, n) => `"${NAME}" <${who}${n}@example.net>`);
const LONG = mail({ to: people("to"), reply_to: people("reply") });

/** One by the API, for the form that it has; the rest are its copies. */
async function sendLong(): Promise<void> {
  const { status, body } = await hostile.client.post<{ id: string }>("/emails", LONG);
  expect(status).toBe(200);
  await engine.sql`
    insert into email (workspace_id, id, key_id, bulk, head, weight, bytes, status, created_at, updated_at)
    select workspace_id, overlay(id::text placing lpad(n::text, 12, '0') from 25)::uuid, key_id, bulk, head, weight, bytes,
      status, created_at, updated_at
    from email, generate_series(1, ${EMAILS - 1}) as n where id = ${body.id}`;
  await engine.sql`
    insert into outbox (workspace_id, sequence, at, type, subject_id)
    select ${hostile.id}, n, now(), 'email.sent', ${body.id} from generate_series(1, ${EVENTS}) as n`;
}

test("a list of e-mails", async () => {
  const read = async () => {
    const ids = new Set<string>();
    for (let cursor: string | null = ""; cursor !== null; ) {
      const path: string = `/emails?limit=100${cursor && `&cursor=${cursor}`}`;
      const { status, body }: { status: number; body: Page } = await hostile.client.get(path);
      expect(status).toBe(200);
      expect(body.data.length).toBeGreaterThan(0);
      for (const { id } of body.data) ids.add(id);
      expect(body.has_more).toBe(body.next_cursor !== null);
      cursor = body.next_cursor;
    }
    expect(ids.size).toBe(EMAILS);
  };
  expect(await workedBy(api, read, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("a list of e-mails, backwards", async () => {
  const last = await engine.sql<{ id: string }[]>`select id from email order by id limit 1`;
  const read = async () => {
    const ids = new Set<string>();
    for (let before = last[0]?.id; before !== undefined; ) {
      const { body }: { body: Page } = await hostile.client.get(`/emails?limit=100&before=${before}`);
      for (const { id } of body.data) ids.add(id);
      before = body.has_more ? body.data[0]?.id : undefined;
    }
    expect(ids.size).toBe(EMAILS - 1);
  };
  expect(await workedBy(api, read, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("the log of events", async () => {
  const read = async () => {
    const sequences: number[] = [];
    for (let hasMore = true; hasMore; ) {
      const { status, body } = await hostile.client.get<Log>(
        `/events/log?limit=1000&after=${sequences.at(-1) ?? 0}`,
      );
      expect(status).toBe(200);
      expect(body.data.length).toBeGreaterThan(0);
      sequences.push(...body.data.map(({ sequence }) => sequence));
      hasMore = body.has_more;
    }
    expect(sequences).toEqual(Array.from({ length: EVENTS }, (_, n) => n + 1));
  };
  expect(await workedBy(api, read, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("more than that is refused", async () => {
  const name = NAME.repeat(2);
  const refused = await hostile.client.post<Refusal>(
    "/emails",
    mail({ reply_to: people("reply").map((text) => text.replace(NAME, () => name)) }),
  );
  expect(refused).toMatchObject({ status: 422, body: { name: "validation_error" } });
  expect(refused.body.message).toBe("The `reply_to` field may have at most 16384 bytes.");
});

test("a batch of such e-mails", async () => {
  const read = async () => {
    const { status } = await hostile.client.post("/emails/batch", Array(100).fill(LONG));
    expect(status).toBe(200);
  };
  expect(await workedBy(api, read, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("an e-mail of two megabytes that JSON writes as twelve", async () => {
  const content = "\u0001".repeat(2 * 1024 * 1024 - 2);
  const html = `${content}é`;
  const { body } = await hostile.client.post<{ id: string }>("/emails", mail({ html, text: content }));
  const read = async () => {
    const read = await hostile.client.get<{ html: string; text: string; id: string }>(`/emails/${body.id}`);
    expect(read.body.id).toBe(body.id);
    expect(read.body.html === html && read.body.text === content).toBe(true);
  };
  expect(await workedBy(api, read, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

type Page = { data: { id: string }[]; has_more: boolean; next_cursor: string | null };
type Log = { data: { sequence: number }[]; has_more: boolean };
