import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { MovableClock } from "../rig/clock.ts";
import { type Answer, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

let minute = Math.ceil(Date.now() / 60_000);
const clock = new MovableClock(minute * 60_000);
let api: TestApi;
beforeAll(async () => {
  api = await testApi({ clock });
});
afterAll(() => api.stop());
beforeEach(() => {
  minute += 2;
  clock.set(minute * 60_000);
});

const headers = ({ headers: sent }: Answer) =>
  ["limit", "remaining", "reset"].map((name) => Number(sent.get(`x-ratelimit-${name}`)));

test("ten a second: the eleventh is refused, and the next second is free again", async () => {
  const ws = await api.workspace("pro", { requests_per_second: 10, requests_per_minute: 600 });
  for (let n = 1; n <= 10; n++) expect(headers(await ws.client.get("/emails"))).toEqual([10, 10 - n, 1]);
  const refused = await ws.client.get<Refusal>("/emails");
  expect(refused.body).toMatchObject({
    statusCode: 429,
    name: "rate_limit_exceeded",
    details: { retry_after: 1 },
  });
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(headers(refused)).toEqual([10, 0, 1]);
  clock.advance(1_000);
  expect((await ws.client.get("/emails")).status).toBe(200);
});

test("the minute is what is left of it, and a refused request is not counted", async () => {
  const ws = await api.workspace("pro", { requests_per_second: 4, requests_per_minute: 6 });
  for (let n = 0; n < 4; n++) await ws.client.get("/emails");
  for (let n = 0; n < 5; n++) expect((await ws.client.get("/emails")).status).toBe(429);
  clock.advance(1_000);
  expect(headers(await ws.client.get("/emails"))).toEqual([6, 1, 59]);
  expect(headers(await ws.client.get("/emails"))).toEqual([6, 0, 59]);
  const refused = await ws.client.get<Refusal>("/emails");
  expect(refused.headers.get("retry-after")).toBe("59");
  clock.advance(59_000);
  expect((await ws.client.get("/emails")).status).toBe(200);
});

test("paid keys have a minute each, Free shares one", async () => {
  const limits = { requests_per_second: 100, requests_per_minute: 3 };
  const paid = await api.workspace("essentials", limits);
  const second = await paid.key(["emails:send"]);
  for (let n = 0; n < 3; n++) await paid.client.get("/emails");
  expect((await paid.client.get("/emails")).status).toBe(429);
  expect((await second.client.get("/emails")).status).toBe(200);

  const free = await api.workspace("essentials", limits);
  const other = await free.key(["emails:send"]);
  await api.keyring.changeWorkspace(free.id, { plan: "free" });
  for (let n = 0; n < 3; n++) expect((await free.client.get("/emails")).status).toBe(200);
  expect((await other.client.get("/emails")).status).toBe(429);
});

test("a change of limits or plan holds from the next request", async () => {
  const ws = await api.workspace("pro", { requests_per_second: 2 });
  expect(headers(await ws.client.get("/emails"))[0]).toBe(2);
  await api.keyring.changeWorkspace(ws.id, { limits: { requests_per_second: 50, requests_per_minute: 70 } });
  expect(headers(await ws.client.get("/emails"))[0]).toBe(50);
});

test("a clock that steps back goes on in the newest window it has seen", async () => {
  const ws = await api.workspace("pro", { requests_per_second: 3, requests_per_minute: 600 });
  for (let n = 0; n < 3; n++) await ws.client.get("/emails");
  clock.advance(-900);
  expect((await ws.client.get("/emails")).status).toBe(429);
  clock.advance(2_000);
  expect((await ws.client.get("/emails")).status).toBe(200);
});
