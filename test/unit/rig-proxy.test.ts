/** The proxy passes bytes on faithfully, and does each kind of harm exactly when it is told to. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { listenOn } from "../rig/port.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";

/** A target that answers each piece with the same in capitals, and remembers what it got. */
let target: Server;
let targetPort: number;
let asked = "";
let proxy: TcpProxy;

beforeEach(async () => {
  asked = "";
  target = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      asked += chunk;
      socket.write(chunk.toString().toUpperCase());
    });
    socket.on("end", () => socket.end("BYE"));
  });
  targetPort = await listenOn(target);
  proxy = await openProxy({ port: targetPort });
});

afterEach(async () => {
  await proxy.close();
  await new Promise((resolve) => target.close(resolve));
});

async function dial(): Promise<Socket> {
  const socket = connect({ port: proxy.port, noDelay: true, allowHalfOpen: true });
  socket.on("error", () => {}); // resets are what this is about; tests that expect one wait for it
  await once(socket, "connect");
  return socket;
}

async function ask(socket: Socket, question: string): Promise<string> {
  socket.write(question);
  const [answer] = (await once(socket, "data")) as [Buffer];
  return answer.toString();
}

test("bytes and ends pass in both directions", async () => {
  const socket = await dial();
  expect(await ask(socket, "hello")).toBe("HELLO");
  socket.end();
  const [last] = (await once(socket, "data")) as [Buffer];
  expect(last.toString()).toBe("BYE");
  await once(socket, "close");
  expect(proxy.connections).toBe(1);
});

test("megabytes come back whole", async () => {
  const socket = await dial();
  const sent = "x".repeat(5_000_000);
  let got = "";
  socket.on("data", (chunk) => {
    got += chunk;
  });
  socket.end(sent);
  await once(socket, "end");
  expect(got).toBe(`${sent.toUpperCase()}BYE`);
});

test("latency is added each way and does not change the order", async () => {
  const socket = await dial();
  proxy.latencyMs = 30;
  const before = performance.now();
  expect(await ask(socket, "slow")).toBe("SLOW");
  expect(performance.now() - before).toBeGreaterThan(58);
  let got = "";
  socket.on("data", (chunk) => {
    got += chunk;
  });
  socket.write("first ");
  await new Promise(setImmediate);
  proxy.latencyMs = 0;
  socket.end("second ");
  await once(socket, "end");
  expect(got).toBe("FIRST SECOND BYE");
});

test("stalled, nothing passes and nothing breaks; then everything goes on", async () => {
  const socket = await dial();
  await ask(socket, "a");
  proxy.stall();
  const answer = ask(socket, "b");
  const late = await dial();
  const lateAnswer = ask(late, "c");
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  expect(asked).toBe("a");
  proxy.flow();
  expect(await answer).toBe("B");
  expect(await lateAnswer).toBe("C");
});

test("cut resets the connections there are, down refuses new ones until up", async () => {
  const socket = await dial();
  await ask(socket, "a");
  proxy.cut();
  await expect(once(socket, "close")).rejects.toMatchObject({ code: "ECONNRESET" });
  const { port } = proxy;
  await proxy.down();
  await expect(dial()).rejects.toMatchObject({ code: "ECONNREFUSED" });
  await proxy.up();
  expect(proxy.port).toBe(port);
  expect(await ask(await dial(), "again")).toBe("AGAIN");
});

test("half-open: the target is gone and the client hears nothing", async () => {
  const socket = await dial();
  await ask(socket, "a");
  let heard = "";
  for (const event of ["data", "end", "error", "close"]) socket.on(event, () => (heard += event));
  proxy.halfOpen();
  socket.write("b");
  expect(await ask(await dial(), "c")).toBe("C");
  expect(heard).toBe("");
  expect(asked).toBe("ac");
});

test("the answer to the request that is meant is lost, after it was done", async () => {
  const socket = await dial();
  const lost = proxy.cutReply((request) => request.includes("charge"));
  expect(await ask(socket, "hello")).toBe("HELLO");
  socket.write("charge");
  await expect(once(socket, "data")).rejects.toMatchObject({ code: "ECONNRESET" });
  await lost;
  expect(asked).toBe("hellocharge");
  expect(await ask(await dial(), "charge")).toBe("CHARGE");
});

test("the reply that is meant is lost, whatever was asked", async () => {
  const socket = await dial();
  const lost = proxy.loseReply((reply) => reply.includes("DONE"));
  expect(await ask(socket, "hello")).toBe("HELLO");
  socket.write("done");
  await expect(once(socket, "data")).rejects.toMatchObject({ code: "ECONNRESET" });
  await lost;
  expect(asked).toBe("hellodone");
  expect(await ask(await dial(), "done")).toBe("DONE");
});

test("everything stalls just before a request, or just before its answer", async () => {
  const socket = await dial();
  const before = proxy.stallRequest();
  const first = ask(socket, "a");
  await before;
  expect(asked).toBe("");
  const after = proxy.stallReply((request) => request.includes("b"));
  proxy.flow();
  expect(await first).toBe("A");
  const second = ask(socket, "b");
  await after;
  expect(asked).toBe("ab");
  proxy.flow();
  expect(await second).toBe("B");
});

test("a connection breaks after so many bytes of one direction", async () => {
  const socket = await dial();
  const broken = proxy.cutAfter("request", 7);
  await ask(socket, "1234");
  socket.write("56789");
  await broken;
  await once(socket, "end");
  const answers = await dial();
  const brokenAnswer = proxy.cutAfter("reply", 3);
  expect(await ask(answers, "abcde")).toBe("ABC");
  await once(answers, "end");
  await brokenAnswer;
  expect(asked).toBe("1234567abcde");
});

test("a target that is not there is a broken connection for the client", async () => {
  const nowhere = await openProxy({ path: "/nonexistent/socket" });
  const socket = connect(nowhere.port);
  await expect(once(socket, "end")).rejects.toMatchObject({ code: "ECONNRESET" });
  await nowhere.close();
});

test("it serves unix sockets as well", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rig-proxy-"));
  const unix = await openProxy({ port: targetPort }, { path: join(folder, "s") });
  const outer = await openProxy({ path: join(folder, "s") });
  const socket = connect(outer.port);
  expect(await ask(socket, "hello")).toBe("HELLO");
  socket.destroy();
  await outer.close();
  await unix.close();
  await rm(folder, { recursive: true });
});
