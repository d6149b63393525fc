import { afterAll, beforeAll, expect, test } from "vitest";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { type OwnRedis, ownRedis, services } from "../rig/services.ts";
import { emptyRedis } from "../rig/wholeredis.ts";
import { Client, mail, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

let redis: OwnRedis;
let toPostgres: TcpProxy;
let here: TestApi;
let there: TestApi;
beforeAll(async () => {
  redis = await ownRedis();
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  const databaseUrl = `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`;
  [here, there] = await Promise.all([
    testApi({ redisUrl: redis.url }),
    testApi({ redisUrl: redis.url, databaseUrl, timeoutMs: 10_000 }),
  ]);
});
afterAll(async () => {
  await Promise.all([here.stop(), there.stop()]);
  await Promise.all([toPostgres.down(), redis.stop()]);
});

const INVALID = { statusCode: 401, name: "invalid_api_key" };

async function keyOnBoth() {
  const ws = await here.workspace();
  const { id, client } = await ws.key(["emails:send"]);
  return { ws, id, onHere: client, onThere: new Client(there.url, client.key) };
}

async function expectDead(...clients: Client[]): Promise<void> {
  for (const client of clients) {
    expect((await client.get<Refusal>("/emails")).body).toMatchObject(INVALID);
    expect((await client.post<Refusal>("/emails", mail())).body).toMatchObject(INVALID);
  }
}

test("a key that is revoked while another api loads it is dead on both with the next request", async () => {
  for (let round = 0; round < 5; round++) {
    const { ws, id, onHere, onThere } = await keyOnBoth();
    // the record has said that the key is alive, and that word is still on its way
    const isLoaded = toPostgres.stallReply((request) => request.includes(ws.handle));
    const loading = onThere.get<Refusal>("/emails");
    await isLoaded;
    await here.keyring.revokeKey(id, "owner");
    await expectDead(onHere);
    // its workspace is known again, from a key that lives
    expect((await ws.client.get("/emails")).status).toBe(200);
    toPostgres.flow();
    expect((await loading).body).toMatchObject(INVALID);
    await expectDead(onHere, onThere);
  }
});

test("and when Redis is emptied in the middle of the revocation", async () => {
  const { ws, id, onHere, onThere } = await keyOnBoth();
  // Redis has the mark, the record not yet
  const isMarked = toPostgres.stallRequest((request) => request.includes(ws.id));
  const revoking = there.keyring.revokeKey(id, "owner");
  await isMarked;
  await expectDead(onHere);
  await emptyRedis(here.redis);
  // until the record knows, the key is alive again
  expect((await onHere.get("/emails")).status).toBe(200);
  toPostgres.flow();
  await revoking;
  expect((await ws.client.get("/emails")).status).toBe(200);
  await expectDead(onHere, onThere);
});

test("a change of limits while another api loads them holds with the next request", async () => {
  const { ws, onThere } = await keyOnBoth();
  const isLoaded = toPostgres.stallReply((request) => request.includes(ws.handle));
  const loading = onThere.get("/emails");
  await isLoaded;
  await here.keyring.changeWorkspace(ws.id, { limits: { requests_per_second: 7 } });
  toPostgres.flow();
  expect((await loading).headers.get("x-ratelimit-limit")).toBe("7");
  expect((await onThere.get("/emails")).headers.get("x-ratelimit-limit")).toBe("7");
});
