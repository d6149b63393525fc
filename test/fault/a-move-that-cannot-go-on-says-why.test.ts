/**
 * A move that meets another, or a store that is away, ends with a sentence that says what to do; the
 * workspace works where it is, and nothing is left of the run.
 */
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Keyring } from "../../src/admission/keyring.ts";
import { Reservations } from "../../src/admission/reserve.ts";
import { Mover, type MovingCell } from "../../src/process/mover.ts";
import { raiseFence } from "../../src/record/cells/fence.ts";
import { noteLeaving, Succeeded } from "../../src/record/cells/moves.ts";
import { workspaceTables } from "../../src/record/cells/tables.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import { openCells, startApiOf, type TestCell, type TwoCells } from "../rig/cells.ts";
import { commandLine } from "../rig/command.ts";
import { dropDatabase } from "../rig/database.ts";
import { type Engine, SERVER_SECRET } from "../rig/engine.ts";
import { beginToLeave } from "../rig/moves.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

let cells: TwoCells;
let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  cells = await openCells();
  engine = await startApiOf(cells);
  workspace = await cells.home.workspace(engine.url);
});
afterAll(async () => {
  await engine.stop();
  await cells.close();
});

function moverOf(...some: TestCell[]): Mover {
  const clock = { now: Date.now, given: () => 0 };
  const moving = ({ name, sql, redis }: TestCell): MovingCell => ({
    ...{ name, sql },
    keyring: new Keyring({ redis, sql, serverSecret: SERVER_SECRET, clock }),
    reservations: new Reservations(redis, sql, clock),
  });
  return new Mover({ cells: some.map(moving), onPhase: () => {}, wait: async () => {} });
}

const sent = async () => (await workspace.client.post("/emails", mail())).status;
const fences = async () => (await cells.home.sql`select from pg_trigger where tgname like '0_move%'`).length;

/** The command line, with another cell than west. */
function withWest(west: { database_url: string; redis_url: string }) {
  const { databaseUrl, redisUrl } = cells.home;
  const file = join(cells.file, "..", `${randomUUID()}.json`);
  writeFileSync(file, JSON.stringify({ home: "east", cells: { east: {}, west } }));
  return commandLine({ databaseUrl, redisUrl, settings: { CELLS_FILE: file } });
}

test("two runs at once do not move it to two cells", async () => {
  const { id: workspaceId, handle } = workspace;
  const first = { workspaceId, handle, id: randomUUID(), cell: "west" };
  expect(await noteLeaving(cells.home.sql, first)).toBe(true);
  expect(await noteLeaving(cells.home.sql, { ...first, id: randomUUID(), cell: "north" })).toBe(false);
  expect(await noteLeaving(cells.home.sql, { ...first, id: randomUUID() })).toBe(true);
  await moverOf(cells.home, cells.other).abort(workspaceId);
});

test("a run whose move was undone meanwhile puts up no fence", async () => {
  const { id: workspaceId, handle } = workspace;
  const run = { workspaceId, handle, id: randomUUID(), cell: "west" };
  await noteLeaving(cells.home.sql, run);
  await moverOf(cells.home, cells.other).abort(workspaceId);
  const raising = raiseFence(cells.home.sql, await workspaceTables(cells.home.sql), run);
  await expect(raising).rejects.toBeInstanceOf(Succeeded);
  expect(await fences()).toBe(0);
});

test.each([["--to", "west"], ["--abort"]])("a cell that is away is named: %s", async (...how) => {
  const { other } = cells;
  const run = withWest({
    database_url: "postgres://postgres@127.0.0.1:1/none",
    redis_url: other.redisUrl,
  });
  const { status, err } = await run.postrider("workspace", "move", workspace.id, ...how);
  expect([status, err]).toEqual([
    69,
    "The cell west: Postgres at 127.0.0.1:1 (DATABASE_URL) refuses connections. Is it running? Then run the command again: it continues where it was.\n",
  ]);
  expect(await sent()).toBe(200);
});

test("a cell without tables is named", async () => {
  const { other } = cells;
  const url = new URL(other.databaseUrl);
  url.pathname = `${url.pathname}_bare`;
  await createDatabase(other.databaseUrl, url.pathname.slice(1), "template0");
  const run = withWest({ database_url: url.href, redis_url: other.redisUrl });
  const { status, err } = await run.postrider("workspace", "move", workspace.id, "--to", "west");
  expect([status, err]).toEqual([
    1,
    "The cell west lacks tables of this version. Run `postrider --cell west migrate`.\n",
  ]);
  await dropDatabase(url.href);
});

test("a cell that accepts no writes is named", async () => {
  const { other } = cells;
  const url = new URL(other.databaseUrl);
  url.searchParams.set("default_transaction_read_only", "on");
  const run = withWest({ database_url: url.href, redis_url: other.redisUrl });
  const { status, err } = await run.postrider("workspace", "move", workspace.id, "--to", "west");
  expect([status, err]).toEqual([
    69,
    expect.stringMatching(/^The cell west: Postgres at .+ \(DATABASE_URL\) accepts no writes: .+\n$/),
  ]);
  expect(await sent()).toBe(200);
});

test("nothing is let go while Redis of the new cell is away", async () => {
  await cells.other.redisServer.kill();
  const { home, other, file } = cells;
  const { databaseUrl, redisUrl } = home;
  const run = commandLine({ databaseUrl, redisUrl, settings: { CELLS_FILE: file } });
  const { status, err } = await run.postrider("workspace", "move", workspace.id, "--to", "west");
  expect([status, err]).toEqual([
    1,
    expect.stringMatching(/Redis of west cannot be used \(.+\)\. The workspace stays where it is\./),
  ]);
  expect(await sent()).toBe(200);
  expect((await run.postrider("workspace", "move", workspace.id, "--abort")).status).toBe(0);
  expect(await other.sql`select from workspace`).toHaveLength(0);
  expect(await fences()).toBe(0);
});

test("a workspace that has left while Redis of the new cell is away is said to be nowhere", async () => {
  const { home, other, file } = cells;
  const leaving = await beginToLeave(cells, workspace);
  await leaving.letGo();
  const { databaseUrl, redisUrl } = home;
  const run = commandLine({ databaseUrl, redisUrl, settings: { CELLS_FILE: file } });
  const { status, err } = await run.postrider("workspace", "move", workspace.id, "--to", "west");
  expect([status, err]).toEqual([
    1,
    expect.stringMatching(
      /^Redis of west cannot be used \(.+\)\. The workspace has left east, and nobody serves it until Redis is back/,
    ),
  ]);
  await leaving.arrive();
  const again = await run.postrider("workspace", "move", workspace.id, "--to", "west");
  expect([again.status, again.err]).toEqual([
    1,
    expect.stringMatching(/^Redis of west cannot be used \(.+\)\. The workspace works in west\./),
  ]);
  expect(await other.sql`select from workspace where handle = ${workspace.handle}`).toHaveLength(1);
});
