import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEngine } from "../rig/engine.ts";
import { launch } from "../rig/launched.ts";
import { openStage, type Stage } from "../rig/stage.ts";

let stage: Stage;
let key: string;
beforeAll(async () => {
  stage = await openStage();
  const engine = await startEngine(["api"], stage);
  ({ key } = (await engine.workspace()).client);
  await engine.stop();
});
afterAll(() => stage.close());

/** A request that lasts: an api that stops and is asked nothing for a moment hangs up on everybody. */
async function sentInPart(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  const lines = ["POST /api/v1/emails HTTP/1.1", "Host: here", `Authorization: Bearer ${key}`];
  socket.write([...lines, "Content-Type: application/json", "Content-Length: 100", "", "{"].join("\r\n"));
  return socket;
}

test("who still asks over an open connection is served, told to close, and told that it is not ready", async () => {
  const process = launch(["api"], stage);
  const { port } = (await process.says("serving")) as unknown as { port: number };
  const socket = connect(port, "127.0.0.1").setEncoding("utf8");
  let heard = "";
  socket.on("data", (text: string) => {
    heard += text;
  });
  const over = new Promise((resolve) => socket.once("end", resolve));
  const sending = await sentInPart(port);
  const ask = (path: string) => socket.write(`GET ${path} HTTP/1.1\r\nHost: here\r\n\r\n`);
  ask("/healthz");
  await expect.poll(() => heard).toContain('{"status":"ok"}');
  expect(heard).not.toMatch(/^connection: close/im);
  process.signal("SIGTERM");
  await process.says("stopping");
  heard = "";
  ask("/readyz");
  await expect.poll(() => heard).toContain("}}");
  sending.destroy();
  await over;
  expect(heard).toMatch(/^HTTP\/1\.1 503 /);
  expect(heard).toMatch(/^connection: close/im);
  expect(heard).toContain('{"status":"not ready","checks":{"process":"stopping"}}');
  expect(await process.ended).toBe(0);
});
