/**
 * `npm run fault -- --minutes N --seed S [--faults list] [--cells 2] [--json FILE]`: the engine under load
 * and under faults, and an auditor outside of it.
 *
 * Starts stores, processes and a sink of its own; sends mail of all kinds while faults are inflicted for N
 * minutes; then mends everything, waits until nothing is on its way any more, and compares what callers were
 * told, what the sink took and what the engine says. The last line of stdout is
 * `lost 0, over quota 0, over cap 0, repeated N`; the exit status is 1 when anything is violated, and the
 * lines before name it.
 */
import { fork } from "node:child_process";
import { setMaxListeners } from "node:events";
import { chmodSync, copyFileSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Command, InvalidArgumentError } from "commander";
import { randomOf } from "../../../src/capacity/random.ts";
import { pause } from "../../rig/pause.ts";
import { openSink, type Sink } from "../../rig/sink.ts";
import { askApi, openIn, readRecord, untilQuiet } from "./aftermath.ts";
import { audit, type Verdict } from "./audit.ts";
import { Caller } from "./caller.ts";
import { type Drawn, drawFaults, hindrance, inflictAll, kindsNamed } from "./faults.ts";
import { Fleet, lifeOf } from "./fleet.ts";
import type { Aftermath, Copy, History } from "./history.ts";
import { Load } from "./load.ts";
import { Removals } from "./removals.ts";
import { movesOf, progressOf, summaryOf, Teller, tellVerdict } from "./report.ts";
import { noteSlowCommits } from "./slowness.ts";
import { CELLS_MAX, type Cell, startCells } from "./stores.ts";
import { makeTenants, Raiser } from "./tenants.ts";

const SECRET = "a secret of the campaign, long enough";
const PROGRESS_EVERY_MS = 10_000;
const RAISE_EVERY_MS = 12_000;
const RAISED_BY = [15, 55] as const;
/** Longer than a window of the caps takes to turn: what waits for one may have to wait for that. */
const QUIET_MS_MAX = 330_000;
/** Callers who repeat end long before that. */
const LAST_ANSWERS_MS_MAX = 60_000;
const CONNECTIONS = 15;
/** Of the many workspaces with a small quota. */
const QUOTAS_MOVING = 2;

type Options = {
  minutes: number;
  seed: number;
  faults: string | null;
  json: string | null;
  rate: number;
  cells: number;
  quietSeconds: number;
  /** The rules whose first violation ends it; `true`: any; null: it goes on. */
  stopAtFirst: string[] | true | null;
};

const options = readOptions();
const stopped = new AbortController();
const { tell } = new Teller();

for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stopped.abort());
// a client of a store that is killed on purpose may complain to nobody
process.on("unhandledRejection", (error) => tell(`unhandled: ${(error as Error)?.message}`));
process.on("uncaughtException", (error) => {
  if (/reading 'write'/.test(error.message)) return;
  console.error(error);
  process.exit(1); // the guard ends everything else
});

process.exitCode = await main();
process.exit();

async function main(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "postrider-fault-"));
  chmodSync(folder, 0o755); // Postgres runs as a user of its own and has to get in
  const guard = fork(fileURLToPath(new URL("guard.ts", import.meta.url)), [folder], {
    execArgv: ["--import", "tsx"],
    stdio: "inherit",
  });
  const gone = new Promise((resolve) => guard.once("exit", resolve));
  try {
    const verdict = await campaign(folder);
    if (verdict.violations.length > 0) tell(`the logs of the processes are in ${keepLogs(folder)}`);
    if (stopped.signal.aborted) tell("interrupted");
    process.stdout.write(`${summaryOf(verdict)}\n`);
    return verdict.violations.length > 0 || stopped.signal.aborted ? 1 : 0;
  } catch (error) {
    console.error(error);
    return 1;
  } finally {
    guard.disconnect();
    await gone;
  }
}

/** The folder goes with the campaign. */
function keepLogs(folder: string): string {
  const kept = mkdtempSync(join(tmpdir(), "postrider-fault-logs-"));
  for (const name of readdirSync(folder))
    if (name.endsWith(".log")) copyFileSync(join(folder, name), join(kept, name));
  return kept;
}

async function campaign(folder: string): Promise<Verdict> {
  const { minutes, seed } = options;
  tell(`seed ${seed}, ${minutes} minutes, ${options.rate} operations a second, in ${folder}`);
  const stage = await openStage(folder);
  try {
    return await play(stage);
  } finally {
    await stage.close();
  }
}

/** Everything that a campaign needs, up and running. */
async function openStage(folder: string) {
  const { minutes, seed } = options;
  const [cells, sink] = await Promise.all([startCells(folder, options.cells), openSink({ seed })]);
  const home = cells[0] as Cell;
  const history = newHistory(sink);
  const smtpUrl = `${sink.url}?pool=${CONNECTIONS}`;
  const fleet = await Fleet.open({ folder, cells, smtpUrl, secret: SECRET, lives: history.lives });
  await fleet.start();
  await Promise.all(cells.map(({ postgres }) => postgres.prepareFullDisk()));
  const tenants = await makeTenants({ ...home, secret: SECRET, minutes, random: randomOf(seed) });
  history.tenants = tenants.all;
  const removals = new Removals(cells, folder, SECRET, history.moves);
  removals.mayMove([...tenants.big, tenants.capped, tenants.shop, ...tenants.quotas.slice(0, QUOTAS_MOVING)]);
  const caller = new Caller();
  return {
    world: { cells, sink, fleet, removals },
    history,
    tenants,
    caller,
    async close() {
      fleet.killAll();
      caller.close();
      const stopped = cells.flatMap(({ postgres, redis }) => [redis.stop(), postgres.stop("immediate")]);
      await Promise.all([sink.close(), fleet.close(), ...stopped]);
    },
  };
}

type Stage = Awaited<ReturnType<typeof openStage>>;

async function play(stage: Stage): Promise<Verdict> {
  const { history, tenants, caller, world } = stage;
  const { cells, sink, fleet, removals } = world;
  const { minutes, seed, rate } = options;
  const raiser = new Raiser(tenants.capped, removals, history.caps);
  const load = new Load({ seed, perSecond: rate, tenants, fleet, caller, operations: history.operations });
  const plan = planFaults(fleet);

  history.beganAt = Date.now();
  const ended = new AbortController();
  setMaxListeners(0, ended.signal, stopped.signal);
  const end = () => ended.abort();
  stopped.signal.addEventListener("abort", end);
  tell(
    `${tenants.all.length} workspaces, ${fleet.members.length} processes, ${plan.length} faults: off we go`,
  );
  const watching = watch(history, sink, cells, end, ended.signal);
  const working = Promise.all([load.run(), raiseCaps(raiser, seed, ended.signal)]);
  const probing = Promise.all(
    cells.map(({ postgres }) => noteSlowCommits(postgres.url, history.spells, ended.signal)),
  );
  const inflicting = inflictAll(plan, world, history.spells, ended.signal, tell);
  await pause(minutes * 60_000, ended.signal);
  end();
  await Promise.all([inflicting, probing]);
  const early = await watching;
  if (early || stopped.signal.aborted) return conclude(stage, plan, early ?? audit(history, null), null);

  tell("the faults are over");
  sink.clearUp();
  await load.finish(LAST_ANSWERS_MS_MAX);
  await working;
  await raiser.lift();
  const open = await untilQuiet(cells, options.quietSeconds * 1_000, stopped.signal);
  tell(`quiet: ${JSON.stringify(open)} on their way`);
  const said = await askApi(tenants, fleet, caller);
  await fleet.stop();
  note(history, sink);
  const after = await readRecord(cells, said);
  return conclude(stage, plan, audit(history, after), after);
}

function conclude({ history }: Stage, plan: Drawn[], verdict: Verdict, after: Aftermath | null): Verdict {
  tell(progressOf(history, "at the end"));
  if (history.moves.length > 0) tell(movesOf(history));
  tellVerdict(verdict, tell);
  const { named: _, ...noted } = history;
  if (options.json)
    writeFileSync(options.json, JSON.stringify({ options, plan, history: noted, after, verdict }));
  return verdict;
}

function planFaults(fleet: Fleet): Drawn[] {
  const kinds = kindsNamed(options.faults).filter((kind) => {
    const why = hindrance(kind, options.cells);
    if (why !== null) tell(`no fault ${kind}: ${why}`);
    return why === null;
  });
  return drawFaults(options.seed, options.minutes, kinds, fleet.members);
}

/** Tells how it goes; with `--stop-at-first`, hands back the verdict with the first violation. */
async function watch(
  history: Writable,
  sink: Sink,
  cells: readonly Cell[],
  end: () => void,
  signal: AbortSignal,
): Promise<Verdict | null> {
  while (!signal.aborted) {
    await pause(PROGRESS_EVERY_MS, signal);
    note(history, sink);
    const open = await Promise.race([openIn(cells).then(JSON.stringify), pause(2_000)]);
    tell(progressOf(history, `${open ?? "?"} open`));
    const { stopAtFirst } = options;
    if (stopAtFirst === null) continue;
    const verdict = audit(history, null);
    if (!verdict.violations.some(({ rule }) => stopAtFirst === true || stopAtFirst.includes(rule))) continue;
    end();
    return verdict;
  }
  return null;
}

async function raiseCaps(raiser: Raiser, seed: number, signal: AbortSignal): Promise<void> {
  const random = randomOf(seed + 1);
  for (;;) {
    await pause(RAISE_EVERY_MS, signal);
    if (signal.aborted) return;
    await raiser.raise(Math.round(RAISED_BY[0] + (RAISED_BY[1] - RAISED_BY[0]) * random()));
  }
}

type Writable = History & { tenants: History["tenants"] };

function newHistory(sink: Sink): Writable {
  return {
    beganAt: 0,
    tenants: [],
    caps: [],
    operations: [],
    copies: [],
    named: {
      get: (address: string) => ({
        times: sink.ledger.timesNamed(address),
        replies: sink.ledger.repliesTo(address),
      }),
    } as unknown as History["named"],
    lives: [],
    spells: [],
    moves: [],
  };
}

/** What the sink took, as the auditor knows it. */
function note(history: History, { ledger }: Sink): void {
  history.copies = ledger.mails.map(
    ({ messageId, headers, to, client, connection, begunAt, completeAt, at, reply }): Copy => {
      const ending = ledger.endingOf(connection);
      return {
        messageId,
        emailId: messageId.slice(0, messageId.lastIndexOf("@")),
        origin: headers.get("x-campaign") ?? null,
        recipients: to,
        process: lifeOf(client),
        connection,
        begunAt,
        completeAt,
        answeredAt: reply === null ? null : at,
        closedAt: ending?.at ?? null,
        closedPolitely: ending?.isPolite ?? false,
      };
    },
  );
}

function readCells(text: string): number {
  if (!/^[1-9]$/.test(text) || Number(text) > CELLS_MAX)
    throw new InvalidArgumentError(`It must be a number from 1 to ${CELLS_MAX}.`);
  return Number(text);
}

function readOptions(): Options {
  const number = (least: number) => (text: string) => {
    const value = Number(text);
    if (!Number.isFinite(value) || value < least)
      throw new InvalidArgumentError(`It must be a number from ${least} on.`);
    return value;
  };
  const command = new Command("fault")
    .description("The engine under load and faults, and an auditor outside of it.")
    .option("--minutes <n>", "how long there are faults", number(0.1), 10)
    .option("--seed <n>", "what is drawn", number(0), 1)
    .option("--faults <list>", "kinds, or the first part of their names, with commas; none: only load")
    .option("--json <file>", "writes everything that was noted and found")
    .option("--rate <n>", "operations a second", number(1), 30)
    .option("--cells <n>", "1, or 2 with workspaces that move between them", readCells, 1)
    .option(
      "--quiet-seconds <n>",
      "how long it may take until nothing is on its way",
      number(1),
      QUIET_MS_MAX / 1_000,
    )
    .option(
      "--stop-at-first [rules]",
      "ends with the first violation, or the first of these rules (with semicolons)",
    )
    .parse();
  type Given = Omit<Partial<Options>, "stopAtFirst"> & { stopAtFirst?: string | true };
  const { faults = null, json = null, stopAtFirst = null, ...others } = command.opts<Given>();
  if (faults !== null) kindsNamed(faults);
  const rules = typeof stopAtFirst === "string" ? stopAtFirst.split(";") : stopAtFirst;
  return { faults, json, stopAtFirst: rules, ...others } as Options;
}
