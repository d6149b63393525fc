/**
 * Whoever asks for a file of contacts and reads none of it lets the console hold some of them in memory. Of
 * one workspace this is done a few times at once, and others still get theirs.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type Browser, signedIn } from "../rig/people.ts";

/** More than the sockets of both sides hold. */
const CONTACTS = 2_500;
const PROPERTY_CHARS = 16_000;
const EXPORTS = 12;

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
});
afterAll(() => engine.stop());

/** A member of a workspace, and its audience of long contacts. */
async function member(contacts: number): Promise<{ browser: Browser; path: string }> {
  const workspace = await engine.workspace();
  const { body } = await workspace.client.post<{ id: string }>("/audiences", { name: "People" });
  await engine.sql`
    insert into contact (workspace_id, id, audience_id, identity, email, properties, status, created_at,
      updated_at)
    select ${workspace.id}, gen_random_uuid(), ${body.id}, n || '@example.net', n || '@example.net',
      jsonb_build_object('p', repeat('a', ${PROPERTY_CHARS})), 'subscribed', now(), now()
    from generate_series(1, ${contacts}) n`;
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "member");
  return { browser, path: `contacts/export?audience_id=${body.id}` };
}

function begun({ browser, path }: { browser: Browser; path: string }, signal?: AbortSignal) {
  return fetch(`${engine.consoleUrl}/console/call/${path}`, {
    headers: { cookie: browser.cookie, "x-workspace": browser.workspace },
    ...(signal && { signal }),
  });
}

test("exports that nobody reads are few, and are forgotten with their readers", async () => {
  const hostile = await member(CONTACTS);
  const neighbour = await member(10);
  const leave = new AbortController();
  const statuses: number[] = [];
  for (let n = 0; n < EXPORTS; n++) statuses.push((await begun(hostile, leave.signal)).status);
  expect(statuses).toEqual([200, 200, ...Array(EXPORTS - 2).fill(429)]);
  expect((await neighbour.browser.get<string>(neighbour.path)).body.trim().split("\n")).toHaveLength(11);
  leave.abort();
  await expect.poll(async () => (await hostile.browser.get(hostile.path)).status).toBe(200);
  expect(engine.complaints).toEqual([]);
});

test("one that is read slowly ends with the membership", async () => {
  const leaving = await member(CONTACTS);
  const answer = await begun(leaving);
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  expect((await reader.read()).done).toBe(false);
  await engine.sql`delete from member where workspace_id = ${leaving.browser.workspace}`;
  const readOn = async () => {
    while (!(await reader.read()).done);
  };
  await expect(readOn()).rejects.toThrow("terminated");
});
