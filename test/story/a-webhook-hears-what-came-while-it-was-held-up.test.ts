/**
 * A process that was held up finds an answer and the end of the time for it at once. What has come is read
 * first: an event whose answer is not read is sent again.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { egressRules } from "../../src/webhooks/endpoint.ts";
import { POST_MS_MAX, Poster } from "../../src/webhooks/post.ts";

const NO_DNS = { resolve4: () => Promise.reject(), resolve6: () => Promise.reject() } as never;

/**
 * An endpoint on a thread of its own. It says when it has an event, answers when it is told to, and notes
 * that in memory that this thread can wait for while nothing else runs on it.
 */
const ENDPOINT = `
  const { createServer } = require("node:net");
  const { parentPort, workerData: answered } = require("node:worker_threads");
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => parentPort.postMessage("asked"));
    parentPort.once("message", () =>
      socket.write("HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok", () => {
        Atomics.store(answered, 0, 1);
        Atomics.notify(answered, 0);
      }),
    );
  });
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`;

const answered = new Int32Array(new SharedArrayBuffer(4));
const timerOfNode = setTimeout;
let endpoint: Worker;
let poster: Poster;
beforeAll(async () => {
  endpoint = new Worker(ENDPOINT, { eval: true, workerData: answered });
  const [port] = await once(endpoint, "message");
  const rules = egressRules([{ address: "127.0.0.0", prefix: 8 }]);
  poster = new Poster(`http://127.0.0.1:${port}/hook`, 1, { dns: NO_DNS, rules });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});
afterAll(async () => {
  vi.useRealTimers();
  poster.close();
  await endpoint.terminate();
});

test("an event that was answered during a hold-up is delivered", async () => {
  const posted = poster.post("{}", {});
  await once(endpoint, "message");
  // timers have their turn before what arrives
  timerOfNode(() => {
    endpoint.postMessage("answer");
    Atomics.wait(answered, 0, 0);
    vi.advanceTimersByTime(POST_MS_MAX);
  });
  expect(await posted).toMatchObject({ status: 200, error: null });
});
