/**
 * Connections that want little of a server: SILENT ones that say nothing, and SLOW ones that send a request
 * and a byte of its body each second. What the server ends is opened again within some seconds, as callers
 * come back one by one. A GET says how many are open, and how many were opened again.
 */
import { createServer } from "node:http";
import { connect } from "node:net";

const { PORT, TARGET, KEY, SILENT, SLOW } = process.env;
const { hostname: host, port } = new URL(TARGET);
/** So many at once, so that none of them is refused by the queue of the listening socket. */
const AT_ONCE = 200;
/** Loopback addresses that they come from: one alone would soon have no port left. */
const SOURCES = 8;
const BYTE_EVERY_MS = 1_000;
const BODY_BYTES = 10_000;
const BACK_MS_MAX = 5_000;
const HEAD =
  `POST /api/v1/emails HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${KEY}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${BODY_BYTES}\r\n\r\n{`;

let [open, reopened] = [0, 0];

function join(n, isSlow) {
  return new Promise((resolve) => {
    const socket = connect({ host, port, localAddress: `127.0.0.${2 + (n % SOURCES)}` });
    let writing = null;
    socket.once("connect", () => {
      open++;
      if (isSlow) {
        socket.write(HEAD);
        writing = setInterval(() => socket.write(" "), BYTE_EVERY_MS);
      }
      resolve();
    });
    socket.on("error", () => {}); // it is closed then
    socket.once("close", () => {
      clearInterval(writing);
      open--;
      setTimeout(() => {
        reopened++;
        void join(n, isSlow);
      }, Math.random() * BACK_MS_MAX);
    });
    socket.resume();
  });
}

async function joinAll(count, isSlow) {
  for (let from = 0; from < count; from += AT_ONCE)
    await Promise.all(
      Array.from({ length: Math.min(AT_ONCE, count - from) }, (_, n) => join(from + n, isSlow)),
    );
}

await joinAll(Number(SILENT), false);
await joinAll(Number(SLOW), true);
createServer((_, response) => response.end(JSON.stringify({ open, reopened }))).listen(
  Number(PORT),
  "127.0.0.1",
  () => process.send({ kind: "ready" }),
);
