/**
 * A process that was held up past a deadline finds the timer and the answer together: the answer counts,
 * since the receiver has the mail and would get it again.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ALWAYS, mailTo, relayTo } from "../rig/peer.ts";

const MESSAGE = Buffer.from("\r\nhello\r\n");
const DEADLINE_MS = 300;
/** Longer than a pool takes until it looks at its deadlines again. */
const TICK_MS = 150;

/**
 * A receiver on a thread of its own. It says when it has the message, answers the final dot when it is told
 * to, and counts each step in memory that this thread can wait for while nothing else runs on it.
 */
const RECEIVER = `
  const { createServer } = require("node:net");
  const { parentPort, workerData } = require("node:worker_threads");
  const step = (n) => {
    Atomics.store(workerData, 0, n);
    Atomics.notify(workerData, 0);
  };
  parentPort.on("message", (word) => {
    if (word === "speak") parentPort.postMessage("spoken");
    if (word === "speak") return step(1);
    parentPort.answer(() => step(2));
  });
  const server = createServer((socket) => {
    socket.write("220 receiver.test\\r\\n");
    socket.on("error", () => {});
    let isMessage = false;
    socket.on("data", (bytes) => {
      for (const line of bytes.toString("latin1").split("\\r\\n")) {
        if (line === ".") {
          isMessage = false;
          parentPort.answer = (then) => socket.write("250 2.0.0 taken\\r\\n", then);
          parentPort.postMessage("complete");
        } else if (line === "DATA") {
          isMessage = true;
          socket.write("354 go on\\r\\n");
        } else if (line !== "" && !isMessage) socket.write(line === "QUIT" ? "221 bye\\r\\n" : "250 ok\\r\\n");
      }
    });
  });
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`;

let steps: Int32Array;
let receiver: Worker;
let port: number;
beforeEach(async () => {
  steps = new Int32Array(new SharedArrayBuffer(4));
  receiver = new Worker(RECEIVER, { eval: true, workerData: steps });
  [port] = await once(receiver, "message");
});
afterEach(() => receiver.terminate());

/** Nothing runs on this thread until the receiver has done what it is told. */
function holdUpUntil(word: "speak" | "answer"): void {
  const before = Atomics.load(steps, 0);
  receiver.postMessage(word);
  Atomics.wait(steps, 0, before);
}

/** Nor for so long. */
function holdUpFor(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

test("at the end of the worker", async () => {
  const { relay } = relayTo(port);
  const sent = relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS);
  await once(receiver, "message");
  const closed = relay.close(DEADLINE_MS);
  holdUpUntil("answer");
  holdUpFor(DEADLINE_MS);
  expect(await sent).toMatchObject([{ phase: "dot", code: 250 }]);
  await closed;
});

test("at the deadline of an answer", async () => {
  const { relay, pass } = relayTo(port, { isTimeStill: true, limits: { dotMs: DEADLINE_MS } });
  const sent = relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS);
  await once(receiver, "message");
  holdUpUntil("answer");
  pass(2 * DEADLINE_MS);
  holdUpFor(TICK_MS);
  expect(await sent).toMatchObject([{ phase: "dot", code: 250 }]);
  await relay.close(DEADLINE_MS);
});

test("while other bytes are read, and the deadlines are looked at right after", async () => {
  const { relay, pass } = relayTo(port, { isTimeStill: true, limits: { dotMs: DEADLINE_MS } });
  const sent = relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS);
  await once(receiver, "message");
  receiver.once("message", () => {
    holdUpUntil("answer");
    pass(2 * DEADLINE_MS);
  });
  setTimeout(() => holdUpUntil("speak")); // which is read behind the timers, of which the pool's is one
  holdUpFor(TICK_MS);
  expect(await sent).toMatchObject([{ phase: "dot", code: 250 }]);
  await relay.close(DEADLINE_MS);
});
