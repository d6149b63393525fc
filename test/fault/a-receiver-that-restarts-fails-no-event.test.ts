/**
 * A receiver that restarts closes all connections that were kept open. What is sent over one of them is sent
 * again, over a new one.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { egressRules } from "../../src/webhooks/endpoint.ts";
import { Poster } from "../../src/webhooks/post.ts";

const CONNECTIONS = 5;
const NO_DNS = { resolve4: () => Promise.reject(), resolve6: () => Promise.reject() } as never;

const used = new Set<Socket>();
let onAll = () => {};
let server: Server;
let poster: Poster;
beforeAll(async () => {
  server = createServer((request) => serve(request));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  const rules = egressRules([{ address: "127.0.0.0", prefix: 8 }]);
  poster = new Poster(`http://127.0.0.1:${port}/hook`, CONNECTIONS, { dns: NO_DNS, rules });
});
afterAll(async () => {
  poster.close();
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

/** A connection that was kept open is reset when something comes over it; the first are answered together. */
function serve({ socket }: IncomingMessage): void {
  if (used.has(socket)) {
    socket.resetAndDestroy();
    return;
  }
  used.add(socket);
  const answer = () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  if (used.size > CONNECTIONS) return void answer();
  const before = onAll;
  onAll = () => {
    before();
    answer();
  };
  if (used.size === CONNECTIONS) onAll();
}

test("an event that meets several closed connections is delivered all the same", async () => {
  const kept = await Promise.all(Array.from({ length: CONNECTIONS }, () => poster.post("{}", {})));
  expect(kept.map(({ status }) => status)).toEqual(kept.map(() => 200));
  expect(await poster.post("{}", {})).toMatchObject({ status: 200, error: null });
});
