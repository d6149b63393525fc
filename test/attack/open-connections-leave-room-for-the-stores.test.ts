/**
 * Whoever opens connections and says nothing takes descriptors of the api. Some are kept for the stores, half
 * where there are few, so that those who are served already are served on, and no core is spent on knocks at
 * the door.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEngine } from "../rig/engine.ts";
import { launch } from "../rig/launched.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const DESCRIPTORS = 256;
const KNOCKS = 300;

let stage: Stage;
let key: string;
const folder = mkdtempSync(join(tmpdir(), "postrider-few-"));
const few = join(folder, "node");
const sockets: Socket[] = [];
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
beforeAll(async () => {
  writeFileSync(few, `#!/bin/sh\nulimit -n ${DESCRIPTORS}\nexec ${process.execPath} "$@"\n`, { mode: 0o755 });
  stage = await openStage();
  const engine = await startEngine(["api"], stage);
  key = (await engine.workspace()).client.key;
  await engine.stop();
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  agent.destroy();
  rmSync(folder, { recursive: true });
  await stage.close();
});

function send(port: number): Promise<number | undefined> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const options = { agent, port, host: "127.0.0.1", method: "POST", path: "/api/v1/emails", headers };
    request(options, (answer) => {
      answer.resume().once("end", () => resolve(answer.statusCode));
    })
      .once("error", reject)
      .end(JSON.stringify(mail()));
  });
}

test("300 silent connections at 256 descriptors", async () => {
  const process = launch(["api"], stage, [], few);
  const { port } = (await process.says("serving")) as unknown as { port: number };
  expect(await send(port)).toBe(200);
  let closed = 0;
  for (let n = 0; n < KNOCKS; n++) {
    const socket = connect(port, "127.0.0.1").resume();
    socket.on("error", () => {}).once("close", () => closed++);
    sockets.push(socket);
  }
  // silent ones end after some seconds, too
  const turnedAway = async () => {
    expect(await send(port)).toBe(200);
    return closed;
  };
  await expect.poll(turnedAway).toBeGreaterThan(KNOCKS - DESCRIPTORS / 2);
  expect(await Promise.all([send(port), send(port), send(port)])).toEqual([200, 200, 200]);
  process.signal("SIGTERM");
  expect(await process.ended).toBe(0);
});
