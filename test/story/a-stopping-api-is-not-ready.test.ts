import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch } from "../rig/launched.ts";
import { openStage, type Stage } from "../rig/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage.close());

test("who still asks over an open connection is served, told to close, and told that it is not ready", async () => {
  const process = launch(["api"], stage);
  const { port } = (await process.says("serving")) as unknown as { port: number };
  const socket = connect(port, "127.0.0.1").setEncoding("utf8");
  let heard = "";
  socket.on("data", (text: string) => {
    heard += text;
  });
  const over = new Promise((resolve) => socket.once("end", resolve));
  const ask = (path: string) => socket.write(`GET ${path} HTTP/1.1\r\nHost: here\r\n\r\n`);
  ask("/healthz");
  await expect.poll(() => heard).toContain('{"status":"ok"}');
  expect(heard).not.toMatch(/^connection: close/im);
  process.signal("SIGTERM");
  await process.says("stopping");
  heard = "";
  ask("/readyz");
  await over;
  expect(heard).toMatch(/^HTTP\/1\.1 503 /);
  expect(heard).toMatch(/^connection: close/im);
  expect(heard).toContain('{"status":"not ready","checks":{"process":"stopping"}}');
  expect(await process.ended).toBe(0);
});
