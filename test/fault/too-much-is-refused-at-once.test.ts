/** More requests than can be done are refused at once, and not when a store answers again. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { services } from "../rig/services.ts";
import { mail, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

/** Longer than the test: nobody is refused for having waited. */
const TIMEOUT_MS = 60_000;

let toPostgres: TcpProxy;
let api: TestApi;
beforeAll(async () => {
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  const databaseUrl = `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`;
  api = await testApi({ databaseUrl, timeoutMs: TIMEOUT_MS });
});
afterAll(async () => {
  await api.stop();
  await toPostgres.down();
});

test("while Postgres says nothing, who comes with more is told at once, and a neighbour finds room", async () => {
  const [busy, neighbour] = [await api.workspace(), await api.workspace()];
  const batch = Array(100).fill(mail({ html: "x".repeat(500) }));
  for (const { client } of [busy, neighbour]) await client.post("/emails", mail());
  toPostgres.stall();
  const told: { body: Refusal; headers: Headers }[] = [];
  // of 83 that are taken when they come at once, and of 104 when they come slowly
  const sent = Array.from({ length: 300 }, async () => {
    const answer = await busy.client.post<Refusal>("/emails/batch", batch);
    if (answer.status === 503) told.push(answer);
    return answer.status;
  });
  await expect.poll(() => told.length, { timeout: 30_000 }).toBeGreaterThan(100);
  const beside = neighbour.client.post("/emails/batch", batch);
  toPostgres.flow();
  expect(told[0]?.body.message).toBe("Too many requests are being processed. Try again in 1 second.");
  expect(told.filter(({ headers }) => headers.has("retry-after"))).toEqual([]); // the contract: on 429 only
  expect((await beside).status).toBe(200);
  expect(new Set(await Promise.all(sent))).toEqual(new Set([200, 503]));
});
