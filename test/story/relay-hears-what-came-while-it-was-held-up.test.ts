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
const HELD_UP_MS = 1_500;

/**
 * A receiver on a thread of its own. It answers the final dot before the deadline, and says beforehand that
 * it has it.
 */
const RECEIVER = `
  const { createServer } = require("node:net");
  const { parentPort } = require("node:worker_threads");
  const server = createServer((socket) => {
    socket.write("220 receiver.test\\r\\n");
    socket.on("error", () => {});
    let isMessage = false;
    socket.on("data", (bytes) => {
      for (const line of bytes.toString("latin1").split("\\r\\n")) {
        if (line === ".") {
          isMessage = false;
          parentPort.postMessage("complete");
          setTimeout(() => socket.write("250 2.0.0 taken\\r\\n"), ${DEADLINE_MS / 2});
        } else if (line === "DATA") {
          isMessage = true;
          socket.write("354 go on\\r\\n");
        } else if (line !== "" && !isMessage) socket.write(line === "QUIT" ? "221 bye\\r\\n" : "250 ok\\r\\n");
      }
    });
  });
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`;

let receiver: Worker;
let port: number;
beforeEach(async () => {
  receiver = new Worker(RECEIVER, { eval: true });
  [port] = await once(receiver, "message");
});
afterEach(() => receiver.terminate());

/** Nothing runs on this thread meanwhile. */
function holdUp(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, HELD_UP_MS);
}

test("at the end of the worker", async () => {
  const { relay } = relayTo(port);
  const sent = relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS);
  await once(receiver, "message");
  const closed = relay.close(DEADLINE_MS);
  holdUp();
  expect(await sent).toMatchObject([{ phase: "dot", code: 250 }]);
  await closed;
});

test("at the deadline of an answer", async () => {
  const { relay } = relayTo(port, { limits: { dotMs: DEADLINE_MS } });
  const sent = relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS);
  await once(receiver, "message");
  holdUp();
  expect(await sent).toMatchObject([{ phase: "dot", code: 250 }]);
  await relay.close(DEADLINE_MS);
});
