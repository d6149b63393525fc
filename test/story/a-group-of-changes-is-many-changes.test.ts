/** Changes that share one commit come out as if each had been alone, one after the other. */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { addressHasher } from "../../src/audience/links.ts";
import { newId } from "../../src/ids.ts";
import { type ContactCommit, contactCommit } from "../../src/record/contacts/commit.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import type { ContactChange, ContactFields } from "../../src/rules/contact.ts";
import { services } from "../rig/services.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const TIMEOUT_MS = 20_000;
const ADDRESS = "one@x.example";

let api: TestApi;
let commit: ContactCommit;
let ws: TestWorkspace;
let audience: string;
beforeAll(async () => {
  api = await testApi();
  commit = contactCommit(
    { connect: () => connectRecord(services().databaseUrl, "commits", TIMEOUT_MS), timeoutMs: TIMEOUT_MS },
    addressHasher("a secret of the tests, long enough for any use"),
  );
});
afterAll(async () => {
  await commit.close();
  await api.stop();
});
beforeEach(async () => {
  ws = await api.workspace();
  audience = await newAudience(ws);
});

const ERASE: ContactChange = { kind: "erase" };

test("one who is suppressed in one audience is not in another, nor in another workspace", async () => {
  await together(added({ unsubscribed: true }));
  await together(ERASE);
  const other = await newAudience(ws);
  const elsewhere = await api.workspace();
  const abroad = await newAudience(elsewhere);
  await Promise.all([
    submit(added(), audience),
    submit(added(), other),
    submit(added(), abroad, elsewhere.id),
  ]);
  expect(await statusIn(audience)).toEqual(["unsubscribed"]);
  expect(await statusIn(other)).toEqual(["subscribed"]);
  expect(await statusIn(abroad)).toEqual(["subscribed"]);
});

test("who is unsubscribed, erased and added again in one commit stays unsubscribed", async () => {
  await together(added());
  await together({ kind: "edit", fields: { unsubscribed: true }, optIn: { consent: null } }, ERASE, added());
  expect(await statusIn(audience)).toEqual(["unsubscribed"]);
});

test("who is added unsubscribed and erased in one commit stays suppressed", async () => {
  await together(added({ unsubscribed: true }), ERASE);
  expect(await statusIn(audience)).toEqual([]);
  await together(added());
  expect(await statusIn(audience)).toEqual(["unsubscribed"]);
});

test("of one who is erased twice in one commit the last word counts", async () => {
  const consent = {
    source: "form",
    capturedAt: new Date(),
    ipAddress: null,
    userAgent: null,
    wording: null,
    textVersion: null,
  };
  const anew: ContactChange = { ...added({ unsubscribed: false }), optIn: { doubleOptIn: false, consent } };
  await together(added({ unsubscribed: true }), ERASE, anew, ERASE);
  await together(added());
  expect(await statusIn(audience)).toEqual(["subscribed"]);
  await together({ kind: "erase" }, added(), ERASE, added({ unsubscribed: true }), ERASE);
  await together(added());
  expect(await statusIn(audience)).toEqual(["unsubscribed"]);
});

function added(fields: ContactFields = {}): Extract<ContactChange, { kind: "add" }> {
  return {
    kind: "add",
    id: newId(Date.now()),
    identity: ADDRESS,
    email: ADDRESS,
    fields,
    optIn: { consent: null },
  };
}

/** In one commit, in this order. */
async function together(...changes: ContactChange[]): Promise<void> {
  const verdicts = await Promise.all(changes.map((change) => submit(change, audience)));
  for (const verdict of verdicts) expect(verdict.kind).toBe("changed");
}

function submit(change: ContactChange, audienceId: string, workspaceId = ws.id) {
  const who = { identity: ADDRESS };
  return commit.submit({ workspaceId, audienceId, who, change, keyId: null, given: 0, bytes: 100 });
}

async function statusIn(audienceId: string): Promise<string[]> {
  const rows = await api.sql<
    { status: string }[]
  >`select status from contact where audience_id = ${audienceId}`;
  return rows.map(({ status }) => status);
}

async function newAudience({ client }: TestWorkspace): Promise<string> {
  return (await client.post<{ id: string }>("/audiences", { name: "People" })).body.id;
}
