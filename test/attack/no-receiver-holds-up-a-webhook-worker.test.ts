/**
 * What receivers of webhooks may answer: redirects, floods, drips, silence and broken HTTP cost nobody else
 * anything.
 */
import { createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { egressRules } from "../../src/webhooks/endpoint.ts";
import { POST_MS_MAX, Poster } from "../../src/webhooks/post.ts";
import { openReceiver, type Receiver } from "../rig/hookreceiver.ts";
import { listenOn } from "../rig/port.ts";

const MB = 1024 * 1024;
const RULES = egressRules([{ address: "127.0.0.0", prefix: 8 }]);
const NO_DNS = { resolve4: () => Promise.reject(), resolve6: () => Promise.reject() } as never;

let receiver: Receiver;
let raw: Server;
let rawPort: number;
let speak: (socket: Socket) => void = () => {};
const sockets = new Set<Socket>();
const posters: Poster[] = [];
beforeAll(async () => {
  receiver = await openReceiver();
  raw = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", () => speak(socket));
  });
  rawPort = await listenOn(raw);
});
afterAll(async () => {
  for (const poster of posters) poster.close();
  for (const socket of sockets) socket.destroy();
  raw.close();
  await receiver.close();
});

function post(url: string) {
  const poster = new Poster(url, 2, { dns: NO_DNS, rules: RULES });
  posters.push(poster);
  return poster.post("{}", {});
}

test.each([301, 302, 303, 307, 308])("a redirect (%s) is not followed", async (status) => {
  const before = receiver.heard.length;
  receiver.answerWith = (_, response) =>
    response.writeHead(status, { location: receiver.url("/elsewhere") }).end();
  expect(await post(receiver.url())).toMatchObject({
    status,
    error: `redirects are not followed (${status})`,
  });
  expect(receiver.heard.slice(before).map(({ path }) => path)).toEqual(["/hook"]);
});

test("of a flood only a beginning is read, and what is kept of it is short", async () => {
  let written = 0;
  receiver.answerWith = (_, response) => {
    response.writeHead(500);
    const pour = (): void => {
      while (!response.destroyed && written < 500 * MB) {
        written += MB;
        if (!response.write(Buffer.alloc(MB, "a"))) break;
      }
      if (!response.destroyed) response.once("drain", pour);
    };
    pour();
  };
  const result = await post(receiver.url());
  expect(result).toMatchObject({ status: 500, response: "a".repeat(1_000) });
  expect(written).toBeLessThan(50 * MB);
});

test("an answer that drips, or never comes, ends after the time that an answer may take", async () => {
  receiver.answerWith = () => {};
  speak = (socket) => {
    socket.write("HTTP/1.1 500 Late\r\nContent-Length: 1000\r\n\r\n");
    const drip = setInterval(() => (socket.destroyed ? clearInterval(drip) : socket.write("x")), 500);
  };
  const began = performance.now();
  const [silent, dripping] = await Promise.all([post(receiver.url()), post(`http://127.0.0.1:${rawPort}/`)]);
  expect(silent).toMatchObject({ status: null, error: "no answer within 15 s" });
  expect(dripping).toMatchObject({ status: 500 });
  expect(performance.now() - began).toBeLessThan(POST_MS_MAX + 5_000);
});

test.each([
  ["no HTTP", "220 mail.example ESMTP\r\n"],
  ["endless headers", `HTTP/1.1 200 OK\r\n${"X: y\r\n".repeat(20_000)}`],
  ["one long header", `HTTP/1.1 200 OK\r\nX: ${"y".repeat(100_000)}\r\n\r\n`],
  ["a hang-up", ""],
])("%s is a failure", async (_, text) => {
  speak = (socket) => socket.end(text);
  const result = await post(`http://127.0.0.1:${rawPort}/`);
  expect(result).toMatchObject({ status: null });
  expect(result.error).toMatch(/./);
});

test("NUL and halves of characters in an answer are not kept: Postgres would refuse them", async () => {
  receiver.answerWith = (_, response) =>
    response.writeHead(500).end(Buffer.from([0x61, 0, 0x62, 0xed, 0xa0, 0x80]));
  const { response } = await post(receiver.url());
  expect(response).toMatch(/^ab/);
  expect(response).not.toContain("\u0000");
  expect(response?.isWellFormed()).toBe(true);
});

test("a connection that the receiver closed between two events costs none of them", async () => {
  receiver.answerWith = (_, response) => response.end("ok");
  const poster = new Poster(receiver.url(), 1, { dns: NO_DNS, rules: RULES });
  posters.push(poster);
  for (let n = 0; n < 3; n++) {
    expect(await poster.post("{}", {})).toMatchObject({ error: null });
    const { port } = receiver;
    await receiver.close();
    await receiver.listen(port);
  }
});
