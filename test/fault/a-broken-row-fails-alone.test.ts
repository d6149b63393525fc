import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import type { Bag } from "../../src/record/mail/bags.ts";
import {
  type Committed,
  type MailCommit,
  mailCommit,
  type Submission,
} from "../../src/record/mail/commit.ts";
import type { NewEmail } from "../../src/record/mail/emails.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const HEAD = { from: "a@example.com", to: ["b@example.net"], cc: [], bcc: [], reply_to: [], subject: "s" };

const TIMEOUT_MS = 10_000;

/** Its tables are altered. */
let database: OwnDatabase;
let api: TestApi;
let commit: MailCommit;
let bags: Bag[];
let workspaces: TestWorkspace[];
let versions: Map<string, number>;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url });
});
afterAll(async () => {
  await api.stop();
  await database.drop();
});
beforeEach(async () => {
  bags = [];
  commit = mailCommit(
    { connect: () => connectRecord(database.url, "commits", TIMEOUT_MS), timeoutMs: TIMEOUT_MS },
    (some) => bags.push(...some),
    Buffer.from,
  );
  workspaces = await Promise.all(Array.from({ length: 3 }, () => api.workspace()));
  const rows = await api.sql<{ id: string; version: number }[]>`select id, version::int from workspace`;
  versions = new Map(rows.map(({ id, version }) => [id, version]));
  return () => commit.close();
});

function someEmail(workspaceId: string, more: Partial<NewEmail> = {}): NewEmail {
  return {
    workspaceId,
    id: newId(Date.now()),
    keyId: null,
    bulk: false,
    stream: "",
    head: JSON.stringify(HEAD),
    weight: 1,
    bytes: 100,
    html: "<p>h</p>",
    plain: null,
    extra: null,
    scheduledAt: null,
    ...more,
  };
}

function submission(workspaceId: string, key: string, more: Partial<NewEmail> = {}): Submission {
  return {
    workspaceId,
    version: versions.get(workspaceId) as number,
    given: 0,
    counted: 1,
    claim: { workspaceId, scope: "emails", key, digest: "00", answer: "{}" },
    emails: [someEmail(workspaceId, more)],
    attachments: [],
  };
}

const inTurn = (n: number) => (workspaces[n % workspaces.length] as TestWorkspace).id;

/** Nothing of it may be left anywhere but where it was accepted. */
async function expectWritten(submissions: readonly Submission[], verdicts: readonly Committed[]) {
  for (const { id } of workspaces) {
    const mine = submissions.filter((one, n) => one.workspaceId === id && verdicts[n]?.kind === "accepted");
    const [row] = await api.sql`
      select (select array_agg(id order by id) from email where workspace_id = ${id}) as emails,
             (select count(*)::int from body where workspace_id = ${id}) as bodies,
             (select count(*)::int from claim where workspace_id = ${id}) as claims,
             (select month_used from ledger where workspace_id = ${id})::int as used`;
    const ids = mine.map(({ emails }) => (emails[0] as NewEmail).id).sort();
    expect(row).toEqual({ emails: ids, bodies: ids.length, claims: ids.length, used: ids.length });
    const travelling = bags.filter((bag) => bag.workspaceId === id).flatMap(({ emailIds }) => emailIds);
    expect(travelling.sort()).toEqual(ids);
  }
}

test.each<[string, Partial<NewEmail>]>([
  ["text that is no JSON", { head: "not json" }],
  ["a number out of range", { weight: 3_000_000_000 }],
  ["a character that Postgres cannot hold", { html: "a\0b" }],
  ["an id that is none", { keyId: "somebody" }],
])("%s fails its own request and nobody else's", async (_, broken) => {
  const submissions = Array.from({ length: 40 }, (_, n) =>
    submission(inTurn(n), `k${n}`, n === 7 || n === 23 ? broken : {}),
  );
  const verdicts = await Promise.all(submissions.map((one) => commit.submit(one)));
  verdicts.forEach((verdict, n) => {
    expect(verdict.kind, `request ${n}`).toBe(n === 7 || n === 23 ? "failed" : "accepted");
  });
  await expectWritten(submissions, verdicts);
});

test("the engine's own mail that is written already is accepted again, and written once", async () => {
  const [{ id: workspaceId }] = workspaces as [TestWorkspace];
  const own: Submission = { ...submission(workspaceId, "own"), version: null, claim: null };
  const twice = { ...own };
  const verdicts = await Promise.all([own, twice].map((one) => commit.submit(one)));
  const again = await commit.submit({ ...own });
  expect([...verdicts, again].map(({ kind }) => kind)).toEqual(["accepted", "accepted", "accepted"]);
  const rows = await api.sql`select from email where workspace_id = ${workspaceId}`;
  expect(rows).toHaveLength(1);
  expect(bags.flatMap(({ emailIds }) => emailIds)).toHaveLength(1);
});

test("an id that exists already fails its own request and nobody else's", async () => {
  const first = submission(inTurn(0), "first");
  expect((await commit.submit(first)).kind).toBe("accepted");
  const again = (first.emails[0] as NewEmail).id;
  const submissions = Array.from({ length: 12 }, (_, n) =>
    submission(inTurn(n), `k${n}`, n === 3 ? { id: again } : {}),
  );
  const verdicts = await Promise.all(submissions.map((one) => commit.submit(one)));
  expect(verdicts.map(({ kind }) => kind).filter((kind) => kind === "failed")).toHaveLength(1);
  expect(verdicts[3]?.kind).toBe("failed");
  await expectWritten([first, ...submissions], [{ kind: "accepted" } as Committed, ...verdicts]);
});

test("two e-mails of one request: when one is broken neither is written", async () => {
  const pair = submission(inTurn(0), "pair");
  pair.emails.push(someEmail(inTurn(0), { head: "{" }));
  const verdicts = await Promise.all([commit.submit(pair), commit.submit(submission(inTurn(1), "other"))]);
  expect(verdicts.map(({ kind }) => kind)).toEqual(["failed", "accepted"]);
  const [row] = await api.sql`select count(*)::int from email where workspace_id = ${inTurn(0)}`;
  expect(row?.count).toBe(0);
});

test("a caller whose mail can never be stored is not told to try again, and its neighbours are answered 200", async () => {
  const [workspace] = workspaces as [TestWorkspace];
  await api.sql`alter table email add constraint storable check (head->>'subject' <> 'never')`;
  const send = (subject: string) =>
    workspace.client.post<Refusal>("/emails", { from: HEAD.from, to: HEAD.to, subject, text: "t" });
  const [broken, ...others] = await Promise.all([send("never"), send("a"), send("b")]);
  await api.sql`alter table email drop constraint storable`;
  expect(broken).toMatchObject({
    status: 500,
    body: { name: "application_error", message: expect.not.stringMatching(/try again/i) },
  });
  expect(others.map(({ status }) => status)).toEqual([200, 200]);
  expect(api.faults).toContainEqual(expect.objectContaining({ constraint_name: "storable" }));
});
