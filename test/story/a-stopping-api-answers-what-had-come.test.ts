/**
 * An api that is held up while it stops finds connections silent whose requests have come meanwhile: they are
 * answered before it closes.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterAll, expect, test } from "vitest";
import { testApi } from "../rig/workspace.ts";

/** Longer than a connection may be silent while an api stops. */
const HELD_UP_MS = 1_000;

/** A caller on a thread of its own, with one connection: it asks once, and again when it is told. */
const CALLER = `
  const { connect } = require("node:net");
  const { parentPort, workerData } = require("node:worker_threads");
  const socket = connect(workerData.port, "127.0.0.1");
  const ask = () => socket.write("GET /healthz HTTP/1.1\\r\\nHost: test\\r\\n\\r\\n");
  socket.on("connect", ask);
  socket.on("data", (bytes) => parentPort.postMessage(bytes.toString().split("\\r\\n")[0]));
  socket.on("error", () => {});
  socket.on("close", () => parentPort.postMessage("closed"));
  parentPort.on("message", ask);`;

let caller: Worker | null = null;
afterAll(() => caller?.terminate());

test("a request that came during the hold-up is answered", async () => {
  const api = await testApi();
  caller = new Worker(CALLER, { eval: true, workerData: { port: Number(new URL(api.url).port) } });
  expect(await once(caller, "message")).toEqual(["HTTP/1.1 200 OK"]);
  const answered = once(caller, "message");
  const stopped = api.stop();
  caller.postMessage("again");
  // nothing runs on this thread meanwhile
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, HELD_UP_MS);
  expect(await answered).toEqual(["HTTP/1.1 200 OK"]);
  await stopped;
});
