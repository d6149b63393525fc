/**
 * A workspace moves to another cell while it sends, and whoever moves it is killed in every phase, and the
 * Postgres of either side ends: the workspace goes on sending, the next run goes on where the last one stood,
 * and every mail that was accepted is delivered once. Before the switch, a move can also be undone.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TwoCells } from "../rig/cells.ts";
import type { CommandLine } from "../rig/command.ts";
import type { Engine } from "../rig/engine.ts";
import { type OwnCells, startOwnCells } from "../rig/owncells.ts";
import { pause } from "../rig/pause.ts";
import type { Sink } from "../rig/sink.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 90_000, interval: 100 };
const LIMITS = { emails_per_month: 1_000_000, cap_day: 1_000_000, cap_hour: 1_000_000 };
const EVERY_MS = 40;

let own: OwnCells;
let servers: OwnCells["servers"];
let cells: TwoCells;
let sink: Sink;
let engine: Engine;
let run: CommandLine;
beforeAll(async () => {
  own = await startOwnCells(["api", "deliver", "keeper"]);
  ({ servers, cells, sink, engine, run } = own);
});
afterAll(() => own.close());

/** Sends each mail under a key of its own until it is accepted. */
class PatientSender {
  readonly ids: string[] = [];
  readonly faults: string[] = [];
  #isOver = false;
  readonly #running: Promise<unknown>;

  constructor(workspace: TestWorkspace, name: string) {
    this.#running = Promise.all(["a", "b"].map((line) => this.#send(workspace, `${name}-${line}`)));
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #send({ client }: TestWorkspace, name: string): Promise<void> {
    for (let n = 0; !this.#isOver; n++) {
      const headers = { "Idempotency-Key": `${name}-${n}` };
      for (;;) {
        const { status, body } = await client.post<{ id: string }>(
          "/emails",
          mail({ subject: name }),
          headers,
        );
        if (status === 200) this.ids.push(body.id);
        if (status === 200) break;
        // a store is away, or nobody knows yet what became of the last try
        if (![409, 500, 503].includes(status)) this.faults.push(`${status} ${JSON.stringify(body)}`);
        await pause(EVERY_MS);
      }
      await pause(EVERY_MS);
    }
  }
}

async function allOnce({ ids, faults }: PatientSender, workspace: TestWorkspace): Promise<void> {
  expect(faults).toEqual([]);
  expect(new Set(ids).size).toBe(ids.length);
  const times = () => {
    const found = new Map<string, number>();
    for (const { messageId } of sink.ledger.mails)
      found.set(messageId.slice(0, 36), (found.get(messageId.slice(0, 36)) ?? 0) + 1);
    return found;
  };
  await expect.poll(() => ids.filter((id) => !times().has(id)).length, POLL).toBe(0);
  expect(ids.filter((id) => times().get(id) !== 1)).toEqual([]);
  const status = async (id: string) =>
    (await workspace.client.get<{ status: string }>(`/emails/${id}`)).body.status;
  for (const id of ids) await expect.poll(() => status(id), POLL).toBe("delivered");
}

/**
 * Runs the move, and does something as soon as it says that it has come so far; hands back its exit status.
 */
async function interrupted(
  id: string,
  phase: string,
  interfere: (pid: number) => Promise<void>,
): Promise<number | null> {
  const child = run.begin("workspace", "move", id, "--to", "west");
  let said = "";
  let isDone = false;
  const interfering: Promise<void>[] = [];
  child.stderr.on("data", (chunk) => {
    said += chunk;
    if (isDone || !said.includes(phase)) return;
    isDone = true;
    interfering.push(interfere(child.pid as number));
  });
  const status = await new Promise<number | null>((resolve) => child.once("close", resolve));
  await Promise.all(interfering);
  return status;
}

const killAfter = (ms: number) => async (pid: number) => {
  await pause(ms);
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // it was faster
  }
};

async function cellOf({ id, handle }: TestWorkspace): Promise<string[]> {
  const found = await Promise.all(
    [cells.home, cells.other].map(async ({ name, sql }) =>
      (await sql`select from workspace where id = ${id} and handle = ${handle}`).length > 0 ? [name] : [],
    ),
  );
  return found.flat();
}

test("a move whose command is killed in each phase goes on with the next", async () => {
  const workspace = await cells.home.workspace(engine.url, "pro", LIMITS);
  const sender = new PatientSender(workspace, "killed");
  await expect.poll(() => sender.ids.length, POLL).toBeGreaterThan(10);
  await interrupted(workspace.id, "copying", killAfter(0));
  await interrupted(workspace.id, "catching up", killAfter(0));
  for (const ms of [0, 30, 60, 90, 120, 180])
    await interrupted(workspace.id, "waiting for workers", killAfter(ms));
  expect((await cellOf(workspace)).length).toBeLessThanOrEqual(1);
  await interrupted(workspace.id, "switched", killAfter(0));
  await interrupted(workspace.id, "removing old rows", killAfter(0));
  expect(await interrupted(workspace.id, "never", killAfter(0))).toBe(0);
  expect(await cellOf(workspace)).toEqual(["west"]);
  const before = sender.ids.length;
  await expect.poll(() => sender.ids.length, POLL).toBeGreaterThan(before + 10);
  await sender.end();
  await allOnce(sender, workspace);
  const [ledger] = await cells.other.sql`
    select month_used as month, cap_day_used as cap from ledger where workspace_id = ${workspace.id}`;
  expect(ledger).toEqual({ month: sender.ids.length, cap: sender.ids.length });
  expect(await cells.home.sql`select from email where workspace_id = ${workspace.id}`).toHaveLength(0);
}, 300_000);

test("a move survives the Postgres of either side", async () => {
  const workspace = await cells.home.workspace(engine.url, "pro", LIMITS);
  const sender = new PatientSender(workspace, "restarted");
  await expect.poll(() => sender.ids.length, POLL).toBeGreaterThan(10);
  for (const [server, phase] of [
    [servers[0], "copying"],
    [servers[1], "catching up"],
    [servers[0], "waiting for workers"],
    [servers[1], "waiting for workers"],
  ] as const) {
    await interrupted(workspace.id, phase, async () => {
      await server.stop("immediate");
      await server.start();
    });
    if ((await cellOf(workspace)).includes("west")) break;
  }
  expect(await interrupted(workspace.id, "never", killAfter(0))).toBe(0);
  expect(await cellOf(workspace)).toEqual(["west"]);
  await sender.end();
  await allOnce(sender, workspace);
}, 300_000);

test("before the switch a move can be undone", async () => {
  const workspace = await cells.home.workspace(engine.url, "pro", LIMITS);
  const sender = new PatientSender(workspace, "undone");
  await interrupted(workspace.id, "catching up", killAfter(0));
  expect((await run.postrider("workspace", "move", workspace.id, "--abort")).status).toBe(0);
  expect(await cellOf(workspace)).toEqual(["east"]);
  expect(await cells.other.sql`select from workspace where id = ${workspace.id}`).toHaveLength(0);
  expect(
    await cells.home.sql`select from pg_trigger where tgname like ${`0_move_${workspace.id}%`}`,
  ).toHaveLength(0);
  await expect.poll(() => sender.ids.length, POLL).toBeGreaterThan(10);
  await sender.end();
  await allOnce(sender, workspace);
});
