/** Connections to an endpoint that are not used again are closed by us, if it leaves them open. */
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { turn } from "../../src/turn.ts";
import { egressRules } from "../../src/webhooks/endpoint.ts";
import { Poster } from "../../src/webhooks/post.ts";

const CONNECTIONS = 2;
const NO_DNS = { resolve4: () => Promise.reject(), resolve6: () => Promise.reject() } as never;
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n";

let answer: (socket: Socket) => void;
let sockets: Socket[];
let server: Server;
let poster: Poster;
beforeEach(async () => {
  sockets = [];
  // it ends no connection by itself
  server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", () => answer(socket));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as { port: number };
  const rules = egressRules([{ address: "127.0.0.0", prefix: 8 }]);
  poster = new Poster(`http://127.0.0.1:${port}/hook`, CONNECTIONS, { dns: NO_DNS, rules });
});
afterEach(async () => {
  poster.close();
  for (const socket of sockets) socket.destroy();
  await new Promise((done) => server.close(done));
});

test("one of which the endpoint says that it ends, and does not end it", async () => {
  answer = (socket) => socket.write(`${OK}Connection: close\r\n\r\nok`);
  for (let n = 0; n < 3 * CONNECTIONS; n++)
    expect(await poster.post("{}", {})).toMatchObject({ status: 200, error: null });
});

test("those that are reset after each answer fail no event, also while others are at work", async () => {
  answer = (socket) => socket.write(`${OK}\r\nok`, () => socket.resetAndDestroy());
  let isOver = false;
  const work = async () => {
    while (!isOver) {
      const until = performance.now() + 3;
      while (performance.now() < until);
      await turn();
    }
  };
  const others = [work(), work(), work()];
  for (let n = 0; n < 40; n++) {
    const results = await Promise.all(Array.from({ length: CONNECTIONS }, () => poster.post("{}", {})));
    expect(results.map(({ error }) => error)).toEqual(results.map(() => null));
  }
  isOver = true;
  await Promise.all(others);
});
