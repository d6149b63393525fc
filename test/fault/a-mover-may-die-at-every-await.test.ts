/**
 * Whoever moves a workspace dies at each place where its code waits for a store. The places are not listed:
 * the first move notes where it waits. Its database has done what was asked when it dies, and it never hears
 * of it. The next run finishes: every row is there once, and whenever nobody serves the workspace, a sentence
 * says what to do.
 *
 * A run of all places takes eight minutes (POINTS=all), so each run of the tests tries some of them, by its
 * seed.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Keyring } from "../../src/admission/keyring.ts";
import { Reservations } from "../../src/admission/reserve.ts";
import { type MovePhase, Mover, type MovingCell } from "../../src/process/mover.ts";
import { listMoves, unfinishedMoves } from "../../src/record/cells/unfinished.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import { openCells, startApiOf, type TestCell, type TwoCells } from "../rig/cells.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, SERVER_SECRET } from "../rig/engine.ts";
import { isTakenBack, rowsOf } from "../rig/moves.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const SEED = Number(process.env.FUZZ_SEED ?? Date.now() % 1_000_000);
const POINTS = process.env.POINTS === "all" ? Number.POSITIVE_INFINITY : Number(process.env.POINTS ?? 16);
const RUNS_MAX = 5;

let cells: TwoCells;
let engine: Engine;
beforeAll(async () => {
  cells = await openCells();
  engine = await startApiOf(cells);
});
afterAll(async () => {
  await engine.stop();
  await cells.close();
});

/** A place in the code, and the how many-th time that it is met. */
type Point = { place: string; time: number };

class Killed extends Error {}

/** Of one run: ends at its point, and nothing that it would do afterwards happens. */
class Life {
  readonly met = new Map<string, number>();
  isOver = false;
  readonly #end: Point | null;

  constructor(end: Point | null) {
    this.#end = end;
  }

  async step<T>(place: string, work: () => PromiseLike<T>): Promise<T> {
    if (this.isOver) throw new Killed();
    const time = (this.met.get(place) ?? 0) + 1;
    this.met.set(place, time);
    const done = await work();
    if (this.#end?.place === place && this.#end.time === time) this.isOver = true;
    if (this.isOver) throw new Killed();
    return done;
  }
}

const FRAMES_MAX = 50;
const callsOf = (_: Error, calls: NodeJS.CallSite[]) => calls;

/**
 * The lines of the code that lead here. A move asks for them thousands of times, so they are never made into
 * the text of a stack, which would take half of its time.
 */
function placeNow(): string {
  const { prepareStackTrace, stackTraceLimit } = Error;
  Object.assign(Error, { prepareStackTrace: callsOf, stackTraceLimit: FRAMES_MAX });
  const calls = new Error().stack as unknown as NodeJS.CallSite[];
  Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  const lines = calls.flatMap((call) => {
    const file = call.getFileName() ?? "";
    const [, inCode] = file.includes("/node_modules/") ? [] : (/\/(?:src|dist)\/(\S+)$/.exec(file) ?? []);
    return inCode === undefined ? [] : `${inCode}:${call.getLineNumber()}:${call.getColumnNumber()}`;
  });
  return lines.join(" < ");
}

type Query = PromiseLike<unknown> & object;

/** A part of another statement is never waited for, and is no step. */
function mortalQuery(query: Query, life: Life): Query {
  const place = placeNow();
  return new Proxy(query, {
    get: (one, name) =>
      name === "then"
        ? (...on: Parameters<Query["then"]>) => life.step(place, () => one).then(...on)
        : Reflect.get(one, name),
  });
}

function mortalSql<T extends object>(sql: T, life: Life): T {
  return new Proxy(sql, {
    apply(one, self, args) {
      const made = Reflect.apply(one as never, self, args) as Query;
      return args[0]?.raw ? mortalQuery(made, life) : made;
    },
    get(one, name) {
      const found = Reflect.get(one, name) as (...args: unknown[]) => Query;
      if (name === "unsafe") return (...args: unknown[]) => mortalQuery(found(...args), life);
      if (name !== "begin") return found;
      return (work: (tx: object) => unknown) =>
        life.step(placeNow(), () => found((tx: object) => work(mortalSql(tx, life))));
    },
  });
}

function mortalPart<T extends object>(part: T, life: Life): T {
  return new Proxy(part, {
    get(one, name) {
      const found = Reflect.get(one, name);
      return typeof found === "function"
        ? (...args: unknown[]) => life.step(placeNow(), () => found.apply(one, args))
        : found;
    },
  });
}

function moverOf(life: Life, onPhase: (phase: MovePhase) => void = () => {}): Mover {
  const mortal = ({ name, sql, redis }: TestCell): MovingCell => {
    const clock = { now: Date.now, given: () => 0 };
    const keyring = new Keyring({ redis, sql, serverSecret: SERVER_SECRET, clock });
    return {
      name,
      sql: mortalSql(sql, life),
      keyring: mortalPart(keyring, life),
      reservations: mortalPart(new Reservations(redis, sql, clock), life),
    };
  };
  const wait = () => life.step(placeNow(), async () => {});
  return new Mover({ cells: [mortal(cells.home), mortal(cells.other)], onPhase, wait });
}

/** Places, the last first; one that is met often, as in a loop, in the middle. */
function pointsOf(life: Life): Point[] {
  const all = [...life.met].map(([place, times]) => ({ place, time: Math.ceil(times / 2) }));
  const step = Math.max(1, all.length / POINTS);
  return all.reverse().filter((_, n) => Math.floor((n + SEED) % step) === 0);
}

async function servedIn({ id, handle }: TestWorkspace): Promise<TestCell[]> {
  const found = await Promise.all(
    [cells.home, cells.other].map(async (cell) =>
      (await cell.sql`select from workspace where id = ${id} and handle = ${handle}`).length > 0
        ? [cell]
        : [],
    ),
  );
  return found.flat();
}

async function unfinished() {
  const told = [cells.home, cells.other].map(async ({ name, sql }) => ({
    name,
    moves: await listMoves(sql),
  }));
  return unfinishedMoves(await Promise.all(told));
}

async function fences(sql: Sql): Promise<number> {
  return (await sql`select from pg_trigger where tgname like '0_move%'`).length;
}

async function furnished(): Promise<TestWorkspace> {
  const workspace = await cells.home.workspace(engine.url);
  await schedule(workspace, "first");
  const audience = await workspace.client.post<{ id: string }>("/audiences", { name: "Readers" });
  await workspace.client.post(`/audiences/${audience.body.id}/contacts`, { email: "ann@example.net" });
  return workspace;
}

async function schedule({ client }: TestWorkspace, subject: string): Promise<void> {
  const at = new Date(Date.now() + 3_600_000).toISOString();
  expect((await client.post("/emails", mail({ subject, scheduled_at: at }))).status).toBe(200);
}

/**
 * The code may have said of it what it says of a store that is away. On a busy machine Postgres may have
 * ended its switch before, which is a place like any other.
 */
const died = (error: unknown) => {
  if (isTakenBack(error)) return;
  if (!(error instanceof Killed || (error instanceof Error && error.cause instanceof Killed))) throw error;
};

/** A switch that stood still for too long was ended: the command is run again, as operators are told. */
async function moveWhole(workspaceId: string, to: string, life = new Life(null)): Promise<void> {
  for (let n = 1; ; n++)
    try {
      await moverOf(life).move(workspaceId, to);
      return;
    } catch (error) {
      if (n === RUNS_MAX || !isTakenBack(error)) throw error;
    }
}

async function expectWhole(workspace: TestWorkspace, to: TestCell, rows: unknown): Promise<void> {
  expect(await servedIn(workspace)).toEqual([to]);
  expect(await rowsOf(to.sql, workspace.id)).toEqual(rows);
  const from = to === cells.home ? cells.other : cells.home;
  expect(Object.values(await rowsOf(from.sql, workspace.id)).flat()).toEqual([]);
  expect(await unfinished()).toEqual([]);
  expect([await fences(from.sql), await fences(to.sql)]).toEqual([0, 0]);
}

test("a move goes on wherever it was ended", async () => {
  const workspace = await furnished();
  const rows = await rowsOf(cells.home.sql, workspace.id);
  const whole = new Life(null);
  await moveWhole(workspace.id, "west", whole);
  await expectWhole(workspace, cells.other, rows);
  expect(whole.met.size).toBeGreaterThan(50);
  let unserved = 0;
  for (const point of pointsOf(whole)) {
    const [from] = await servedIn(workspace);
    const to = from === cells.home ? cells.other : cells.home;
    const life = new Life(point);
    await moverOf(life).move(workspace.id, to.name).catch(died);
    const served = await servedIn(workspace);
    expect([point, served.length]).not.toEqual([point, 2]);
    const told = await unfinished();
    if (served.length === 0) {
      expect([point, told]).toEqual([point, [expect.objectContaining({ isServed: false })]]);
      expect(told[0]?.text).toContain(
        `until you run \`postrider workspace move ${workspace.id} --to ${to.name}\``,
      );
      if (unserved++ === 0) await expectTold(workspace);
    } else expect([point, told.every(({ isServed }) => isServed)]).toEqual([point, true]);
    await moveWhole(workspace.id, to.name);
    await expectWhole(workspace, to, rows);
  }
  expect(unserved).toBeGreaterThan(0);
}, 600_000);

/** To callers, and to operators. */
async function expectTold(workspace: TestWorkspace): Promise<void> {
  expect((await workspace.client.get("/emails")).status).toBe(503);
  const { databaseUrl, redisUrl } = cells.home;
  const run = commandLine({ databaseUrl, redisUrl, settings: { CELLS_FILE: cells.file } });
  const sentence = "its requests are answered 503 and its mail waits until you run";
  expect((await run.postrider("doctor")).out).toContain(sentence);
  expect((await run.postrider("workspace", "list")).out).toContain(sentence);
}

test("a move may be undone wherever its undoing was ended, and what changed since moves with the next", async () => {
  const workspace = await furnished();
  // all is copied when it looks for workers
  const half = async (to: TestCell) => {
    const life = new Life(null);
    const mover = moverOf(life, (phase) => {
      if (phase === "waiting for workers") life.isOver = true;
    });
    await mover.move(workspace.id, to.name).catch(died);
  };
  await half(cells.other);
  const whole = new Life(null);
  await moverOf(whole).abort(workspace.id);
  for (const point of pointsOf(whole)) {
    const [from] = await servedIn(workspace);
    const to = from === cells.home ? cells.other : cells.home;
    await half(to);
    await moverOf(new Life(point)).abort(workspace.id).catch(died);
    await schedule(workspace, "since");
    const rows = await rowsOf((from as TestCell).sql, workspace.id);
    await moveWhole(workspace.id, to.name);
    await expectWhole(workspace, to, rows);
  }
}, 600_000);
