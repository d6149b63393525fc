/**
 * Whoever reaches the console may send requests without waiting for answers, and thousands of header fields
 * over hundreds of connections at the same moment. It serves others meanwhile: its event loop is asked for
 * the work that it did in one turn.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const KB = 1024;
const WORKED_MS_MAX = 50;
const ADDRESSES = 4;
const EACH = 100;

let stage: Stage;
let served: EngineProcess;
beforeAll(async () => {
  stage = await openStage();
  served = await startProcess(["console"], { ...stage, settings: { CONSOLE_PORT: "0" }, watchesLoop: true });
});
afterAll(async () => {
  await served?.stop();
  await stage?.close();
});

const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / unit.length));
const GET = "GET /console/ HTTP/1.1\r\nHost: a\r\n";
/** It is refused in a later turn. Until then Node's server pauses the connection, which has room for less. */
const REFUSED = `POST /console/call/keys HTTP/1.1\r\nHost: a\r\nContent-Length: ${20 * KB}\r\n\r\n`;

async function connected(count: number): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, (_, n) => {
    const localAddress = `127.0.0.${2 + (n % ADDRESSES)}`;
    return connect({ port: served.consolePort as number, host: "127.0.0.1", localAddress }).on(
      "error",
      () => {},
    );
  });
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  return sockets;
}

/** All at once, while the process stands still for another; resolves when it has closed all of them. */
async function poured(sockets: readonly Socket[], text: string): Promise<void> {
  const over = sockets.map((socket) => once(socket.resume(), "close"));
  served.freeze();
  // the system has as much of it as it takes
  for (const socket of sockets) socket.write(text);
  await new Promise((resolve) => setImmediate(resolve));
  served.thaw();
  await Promise.all(over);
}

const POURED: Record<string, { connections: number; write: () => string }> = {
  "requests one behind the other": {
    connections: 1,
    write: () => `${fill(`${GET}\r\n`, 128 * KB)}${GET}Connection: close\r\n\r\n`,
  },
  "requests behind a body that nobody has read yet": {
    connections: ADDRESSES,
    write: () =>
      `${REFUSED}${fill("a", 20 * KB)}${fill(`${GET}\r\n`, 60 * KB)}${GET}Connection: close\r\n\r\n`,
  },
  "header fields without end": {
    connections: ADDRESSES * EACH,
    write: () => `${GET}Connection: close\r\n${fill("a:\r\n", 15 * KB)}\r\n`,
  },
  "bodies in crumbs": {
    connections: ADDRESSES * EACH,
    write: () =>
      `POST /console/call/session HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n${fill("1\r\na\r\n", 60 * KB)}0\r\n\r\n`,
  },
};

test.each(Object.entries(POURED))("%s", async (_, { connections, write }) => {
  const text = write();
  const again = async () => poured(await connected(connections), text);
  await again();
  expect(await workedBy(served, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
