import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Caller } from "../../src/admission/admit.ts";
import { LastUsed } from "../../src/api/lastused.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { services } from "../rig/services.ts";
import { mail, type TestApi, testApi } from "../rig/workspace.ts";

const ACCURATE_MS = 5_000;
/** A busy machine is late with every timer: that the time is shown soon is shown by a clock of the test. */
const SHOWN_MS_MAX = 30_000;

let toPostgres: TcpProxy;
let api: TestApi;
let direct: TestApi;
beforeAll(async () => {
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  const databaseUrl = `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`;
  [api, direct] = await Promise.all([testApi({ databaseUrl }), testApi()]);
});
afterAll(async () => {
  await Promise.all([api.stop(), direct.stop()]);
  await toPostgres.down();
});

async function lastUse(keyId: string): Promise<number | null> {
  const [row] = await direct.sql<{ last_used_at: Date | null }[]>`
    select last_used_at from api_key where id = ${keyId}`;
  return row?.last_used_at?.getTime() ?? null;
}

const shown = (keyId: string, from: number) =>
  expect.poll(() => lastUse(keyId), { timeout: SHOWN_MS_MAX }).toBeGreaterThanOrEqual(from);

test("never used is null; any request with a valid key moves it", async () => {
  const ws = await api.workspace("pro", { requests_per_second: 1 });
  const { id, client } = await ws.key(["contacts:read"]);
  expect(await lastUse(id)).toBeNull();
  const calls: [number, () => Promise<{ status: number }>][] = [
    [403, () => client.get("/emails")],
    [429, () => client.get("/emails")],
  ];
  for (const [status, call] of calls) {
    const from = Date.now();
    // the second may turn between the two
    const answer = await call();
    expect([status, 403]).toContain(answer.status);
    await shown(id, from);
  }
});

test("it is written within five seconds", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const { id: workspaceId, keyId } = await direct.workspace();
  const faults: unknown[] = [];
  const clock = { now: Date.now, given: () => 0 };
  const lastUsed = new LastUsed(direct.sql, clock, (fault) => faults.push(fault));
  const from = Date.now();
  lastUsed.note({ workspaceId, keyId } as Caller);
  vi.advanceTimersByTime(ACCURATE_MS);
  vi.useRealTimers();
  await shown(keyId, from);
  await lastUsed.stop();
  expect(faults).toEqual([]);
});

test("it stops with the last request, accurate to five seconds", async () => {
  const ws = await api.workspace();
  const until = Date.now() + 2_500;
  let last = 0;
  while (Date.now() < until) {
    last = Date.now();
    await ws.client.post("/emails", mail());
  }
  await shown(ws.keyId, last - ACCURATE_MS);
  await shown(ws.keyId, last);
});

test("a note that Postgres did not get is not forgotten", async () => {
  const ws = await api.workspace();
  const isAsked = toPostgres.stallRequest((request) => request.includes(ws.keyId));
  const from = Date.now();
  await ws.client.get("/emails");
  await isAsked;
  toPostgres.cut();
  toPostgres.flow();
  await shown(ws.keyId, from);
});

test("two apis that saw the same keys note them side by side", async () => {
  const ws = await direct.workspace();
  const keys = await Promise.all(Array.from({ length: 20 }, () => ws.key(["emails:send"])));
  const from = Date.now();
  await Promise.all(
    keys.flatMap(({ client }) =>
      [api.url, direct.url].map((url) =>
        fetch(`${url}/api/v1/emails`, { headers: { authorization: `Bearer ${client.key}` } }),
      ),
    ),
  );
  for (const { id } of keys) await shown(id, from);
  expect(direct.faults).toEqual([]);
});
