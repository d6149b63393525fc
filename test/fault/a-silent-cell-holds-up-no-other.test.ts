/**
 * A cell whose Postgres is silent, or away, is missed by its own workspaces alone: those of the other cell
 * are found without it, however many are looked for, and a key that nobody knows is not called wrong.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openCells, startApiOf, type TwoCells } from "../rig/cells.ts";
import type { Engine } from "../rig/engine.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

/** More than were looked for at once in all cells together. */
const SILENT = 100;
/** Fewer than the keys that an api loads at once. */
const TOGETHER = 50;
const IN_TURN = 20;
/** A look that waits for the silent cell takes a second. */
const IN_TURN_MS_MAX = 10_000;

let cells: TwoCells;
let toWest: TcpProxy;
let engine: Engine;
beforeAll(async () => {
  cells = await openCells();
  const file = JSON.parse(readFileSync(cells.file, "utf8"));
  const url = new URL(cells.other.databaseUrl);
  toWest = await openProxy({ port: Number(url.port) });
  url.searchParams.delete("socket");
  url.port = String(toWest.port);
  file.cells.west.database_url = url.href;
  writeFileSync(cells.file, JSON.stringify(file));
  engine = await startApiOf(cells);
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([toWest.down(), cells.close()]);
});
afterEach(async () => {
  toWest.flow();
  await toWest.up();
});

const WAYS: [string, () => unknown][] = [
  ["accepts and never answers", () => toWest.stall()],
  ["refuses", () => toWest.down()],
];

const freshHome = (count: number) =>
  Promise.all(Array.from({ length: count }, () => cells.home.workspace(engine.url)));

const statusesOf = (workspaces: readonly TestWorkspace[]) =>
  Promise.all(workspaces.map(async ({ client }) => (await client.get("/domains")).status));

test.each(WAYS)("while a Postgres %s, the workspaces of the other cell are served", async (_, goAway) => {
  const there = await Promise.all(Array.from({ length: SILENT }, () => cells.other.workspace(engine.url)));
  const [gone] = there as [TestWorkspace];
  await cells.other.sql`delete from workspace where id = ${gone.id}`;
  const [together, inTurn] = [await freshHome(TOGETHER), await freshHome(IN_TURN)];
  await goAway();
  const refused = statusesOf(there);
  expect(await statusesOf(together)).toEqual(Array(TOGETHER).fill(200));
  const began = performance.now();
  for (const { client } of inTurn) expect((await client.get("/domains")).status).toBe(200);
  expect(performance.now() - began).toBeLessThan(IN_TURN_MS_MAX);
  expect(await refused).toEqual(Array(SILENT).fill(503));

  toWest.flow();
  await toWest.up();
  const ask = async () => (await gone.client.get("/domains")).status;
  await expect.poll(ask).toBe(401);
  const [, ...others] = there;
  await expect.poll(() => statusesOf(others)).toEqual(Array(others.length).fill(200));
});
