/**
 * A workspace moves to a cell whose Redis is slow: its callers wait for less than a second, and for no longer
 * than the command says.
 */
// @module-tag one-redis: puts a proxy in front of its Redis
import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { heldUntilItArrived, openCells, startApiOf, type TwoCells } from "../rig/cells.ts";
import { commandLine } from "../rig/command.ts";
import type { Engine } from "../rig/engine.ts";
import { pause } from "../rig/pause.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

/** Of each byte, in either direction. */
const LATENCY_MS = 30;
/** Redis of the new cell is told of each. */
const REVOKED_KEYS = 50;
const EVERY_MS = 20;
const PAUSE_MS_MAX = 1_000;

let cells: TwoCells;
let toRedis: TcpProxy;
let engine: Engine;
beforeAll(async () => {
  cells = await openCells();
  engine = await startApiOf(cells);
  toRedis = await openProxy({ port: cells.other.redisServer.port });
  toRedis.latencyMs = LATENCY_MS;
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([toRedis.down(), cells.close()]);
});

/** Writes until it is told to stop; hands back how long the slowest took. */
function slowestOf({ client }: TestWorkspace, until: () => boolean): Promise<number> {
  const write = async (): Promise<number> => {
    const began = performance.now();
    const { status } = await heldUntilItArrived(() => client.post("/audiences", { name: "Readers" }));
    if (status !== 201 && status !== 200) throw new Error(`answered ${status}`);
    return performance.now() - began;
  };
  const repeat = async (slowest = 0): Promise<number> => {
    const ms = Math.max(slowest, await write());
    if (until()) return ms;
    await pause(EVERY_MS);
    return repeat(ms);
  };
  return repeat();
}

test("the pause that is told is the one that callers meet, and is short", async () => {
  const [moving, beside] = await Promise.all([
    cells.home.workspace(engine.url),
    cells.home.workspace(engine.url),
  ]);
  for (let n = 0; n < REVOKED_KEYS; n++) {
    const { id } = await moving.key(["full"]);
    await cells.home.sql`update api_key set revoked_at = now() where id = ${id}`;
  }
  const file = JSON.parse(readFileSync(cells.file, "utf8"));
  file.cells.west.redis_url = `redis://127.0.0.1:${toRedis.port}`;
  const slowFile = `${cells.file}.slow`;
  writeFileSync(slowFile, JSON.stringify(file));
  const run = commandLine({ ...cells.home, settings: { CELLS_FILE: slowFile } });

  let isOver = false;
  const waited = Promise.all([moving, beside].map((one) => slowestOf(one, () => isOver)));
  waited.catch(() => {}); // it is heard when the move is over
  const told = await run
    .json<{ pause_ms: number; pauses: number }>("workspace", "move", moving.id, "--to", "west")
    .finally(() => {
      isOver = true;
    });
  const [slowestMs, usualMs] = (await waited) as [number, number];
  // a busy machine adds to the pause, and to each call
  expect(told.pause_ms).toBeLessThan(PAUSE_MS_MAX + usualMs);
  expect(slowestMs).toBeLessThan(PAUSE_MS_MAX + 2 * usualMs);
  expect(told.pause_ms).toBeGreaterThan(2 * LATENCY_MS);
  expect(told.pauses).toBeGreaterThan(0);
});
