/**
 * Load that does not wait for answers: a server that stalls is charged for everybody who would have come
 * meanwhile.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { type Hit, openLoop, type Shot } from "../../bench/openloop.ts";

const RATE = 400;
const HELD = 40;
/**
 * Timers of Node count whole milliseconds of the loop's own time, so by the clock one may end so much early.
 */
const TIMER_EARLY_MS = 1;
let server: ReturnType<typeof createServer>;
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

test("arrivals go on while the server stalls, and each wait counts from when it was due", async () => {
  const held: ServerResponse[] = [];
  const shot = await serve((response) => {
    held.push(response);
    if (held.length >= HELD) for (const one of held.splice(0)) one.end("{}");
  });
  const { waits, failures } = await openLoop({ rate: RATE, count: HELD }, () => shot);
  expect(failures).toBe(0);
  expect(waits).toHaveLength(HELD);
  // nobody was answered before the last had come, which was due so much later than the first
  const lastIsDueMs = ((HELD - 1) * 1000) / RATE;
  const mean = waits.reduce((sum, wait) => sum + wait, 0) / HELD;
  expect(Math.max(...waits)).toBeGreaterThanOrEqual(lastIsDueMs);
  expect(mean).toBeGreaterThanOrEqual(lastIsDueMs / 2);
});

test("what is not answered 2xx is a failure, and is heard all the same", async () => {
  const shot = await serve((response) => response.writeHead(503).end("busy"));
  const heard: number[] = [];
  const arrivals = { rate: RATE, count: 5 };
  const { failures } = await openLoop(
    arrivals,
    () => shot,
    ({ status }) => heard.push(status),
  );
  expect(failures).toBe(5);
  expect(heard).toEqual([503, 503, 503, 503, 503]);
});

test("what is never answered is heard as status 0, with the time until it was given up", async () => {
  // what is answered is answered at once, also where this process stands still for seconds
  const answerMsMax = 4_000;
  let came = 0;
  const shot = await serve((response) => {
    if (++came % 2 === 0) response.end("{}");
  });
  const heard: Hit[] = [];
  const arrivals = { rate: RATE, count: 10, answerMsMax };
  const { failures, waits } = await openLoop(
    arrivals,
    () => shot,
    (hit) => heard.push(hit),
  );
  const lost = heard.filter(({ status }) => status === 0);
  expect(failures).toBe(5);
  expect(lost).toHaveLength(5);
  const leastMs = answerMsMax - TIMER_EARLY_MS;
  expect(Math.min(...lost.map(({ waitMs }) => waitMs))).toBeGreaterThanOrEqual(leastMs);
  expect(waits.filter((wait) => wait >= leastMs)).toHaveLength(5);
});

test("a connection that is cut is a failure with status 0", async () => {
  const shot = await serve((response) => response.destroy());
  const heard: number[] = [];
  const arrivals = { rate: RATE, count: 3 };
  const { failures } = await openLoop(
    arrivals,
    () => shot,
    ({ status }) => heard.push(status),
  );
  expect(failures).toBe(3);
  expect(heard).toEqual([0, 0, 0]);
});

test("an interruption ends the arrivals, and what was sent is waited for", async () => {
  const interruption = new AbortController();
  const shot = await serve((response) => response.end("{}"));
  const arrivals = { rate: RATE, count: 1_000_000, signal: interruption.signal };
  const { waits } = await openLoop(
    arrivals,
    () => shot,
    (_, n) => n === 3 && interruption.abort(),
  );
  expect(waits.length).toBeGreaterThan(3);
  expect(waits.length).toBeLessThan(100_000);
});

async function serve(answer: (response: ServerResponse) => void): Promise<Shot> {
  server = createServer((_, response) => answer(response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/`, key: "a key", method: "GET", body: null };
}
