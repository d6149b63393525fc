/**
 * The bench: one command, everything started by itself on free ports and stopped at the end, also on Ctrl-C;
 * one line per scenario and run, then a table with the median, the least and the most of all runs. Scenarios
 * take turns, so that a machine that grows slower slows them all. Compare ratios within one run: machines are
 * shared and noisy.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Command, Option } from "commander";
import { compared } from "./compare.ts";
import { Endings } from "./endings.ts";
import { startBench } from "./machine.ts";
import { whole } from "./options.ts";
import { hottest } from "./profile.ts";
import { Progress } from "./progress.ts";
import { type Measured, ratiosOf } from "./ratios.ts";
import { page } from "./report/page.ts";
import {
  addFigures,
  addResult,
  aligned,
  emptyResults,
  type Results,
  readResults,
  shown,
  table,
} from "./results.ts";
import type { Result, Run, Scenario } from "./scenario.ts";
import type { Sink, SinkKind } from "./sink.ts";
import { expectDeployment, takeBack, targetAt } from "./target.ts";
import { versions } from "./versions.ts";

const PROFILES = fileURLToPath(new URL("out/profiles", import.meta.url));
const INTERRUPTED_EXIT = 130;

type Options = {
  seconds: number;
  runs: number;
  json?: string;
  html?: string;
  compare?: string;
  sink: SinkKind;
  latencyMs: number;
  profile: boolean;
  target?: string;
  key?: string;
  rate?: number;
  backlog: number;
  waiting: number;
};

const RATE_DEFAULT = 500;
/** Against a deployment: below what any paid plan allows, and no surprise to anybody. */
const TARGET_RATE_DEFAULT = 5;

const scenarios = await findScenarios();
const endings = new Endings();
/** Those that took mail so far. */
const sinks = new Set<Sink["kind"]>();
const program = new Command("bench")
  .argument("[scenarios...]", "names of the list below; without any, all of them")
  .addHelpText("after", `\nScenarios:\n${aligned(scenarios.map(({ name, does }) => [`  ${name}`, does]))}`)
  .option("--seconds <n>", "how long each load lasts", whole(1, 3_600), 8)
  .option("--runs <n>", "how often each scenario runs, in turn with the others", whole(1, 100), 1)
  .option("--json <file>", "write every figure there")
  .option("--html <file>", "write a report there, one file that opens from disk")
  .option("--compare <file>", "the JSON of an earlier run: say what has changed")
  .addOption(
    new Option("--sink <kind>", "what takes the mail").choices(["smtp-sink", "node"]).default("smtp-sink"),
  )
  .option("--latency-ms <n>", "to Postgres, Redis and the sink, each way", whole(0, 10_000), 0)
  .option("--profile", "CPU profiles of the roles, in bench/out/profiles", false)
  .option("--target <url>", "a deployment of yours instead: HTTP only, no mail leaves it")
  .option("--key <key>", "an API key of that deployment")
  .option(
    "--rate <n>",
    "arrivals per second, of `mixed` and of everything against a target",
    whole(1, 100_000),
  )
  .option(
    "--backlog <n>",
    "e-mails already accepted, of `backlog`, `fair` and `lists`",
    whole(1_000, 100_000_000),
    1_000_000,
  )
  .option("--waiting <n>", "e-mails that wait for a cap, of `caps`", whole(1_000, 10_000_000), 100_000)
  .action(run);

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, interrupted);
for (const event of ["uncaughtException", "unhandledRejection"]) process.on(event, failed);
try {
  await program.parseAsync();
} catch (error) {
  if (endings.signal.aborted) await forever();
  await endings.end();
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}

async function run(names: string[], options: Options): Promise<void> {
  const chosen = choose(names, options);
  const earlier = options.compare ? readResults(options.compare) : null;
  for (const file of [options.json, options.html]) if (file !== undefined) expectWritable(file);
  if (options.target && options.key) await expectDeployment(options.target, options.key);
  else build();
  const results = emptyResults(
    { scenarios: chosen.map((one) => one.name), ...withoutKey(options) },
    versions(),
  );
  const progress = new Progress(chosen.length * options.runs);
  for (let n = 1; n <= options.runs; n++) {
    const round: Measured[] = [];
    for (const scenario of chosen) {
      progress.begin(`${scenario.name}, run ${n} of ${options.runs}`);
      const result = await attempt(scenario, options, progress);
      progress.end();
      if ("failure" in result) {
        process.stderr.write(`${scenario.name} failed: ${result.failure}\n`);
        results.failed.push(`${scenario.name}, run ${n}: ${result.failure}`);
      } else {
        addResult(results, scenario.name, result);
        round.push(...result.figures.map((one) => ({ ...one, scenario: scenario.name })));
        process.stdout.write(`${scenario.name}: ${result.figures.map(shown).join(", ")}\n`);
        for (const word of result.skipped ?? []) process.stdout.write(`${scenario.name}: skipped ${word}\n`);
      }
      results.versions = versions(sinks); // a peer is installed when it is first run
      write(results, earlier, options);
    }
    addFigures(results, "ratios", ratiosOf(round));
    write(results, earlier, options);
  }
  process.stdout.write(`\n${table(results.rows)}\n\n${JSON.stringify(results.machine)}\n`);
  if (earlier) process.stdout.write(`\n${compared(earlier, results)}\n`);
  if (options.profile)
    for (const { name } of chosen) process.stdout.write(`\n${name}\n\n${hottest(join(PROFILES, name))}\n`);
  if (results.failed.length > 0) {
    process.stdout.write(`\nFailed:\n${results.failed.join("\n")}\n`);
    process.exit(1); // what failed may have left something that goes on
  }
}

/** After every scenario, so that nothing that comes later can lose it. */
function write(results: Results, earlier: Results | null, { json, html }: Options): void {
  if (json) writeFileSync(json, JSON.stringify(results, null, 2));
  if (html) writeFileSync(html, page(results, scenarios, earlier));
}

/** A scenario that fails takes nothing from the others. */
async function attempt(
  scenario: Scenario,
  options: Options,
  progress: Progress,
): Promise<Result | { failure: string }> {
  try {
    return await once(scenario, options, progress);
  } catch (error) {
    endings.signal.throwIfAborted();
    return { failure: error instanceof Error ? error.message.trim() : String(error) };
  }
}

/** With stores of its own, so that no scenario finds what another left. */
async function once(scenario: Scenario, options: Options, progress: Progress): Promise<Result> {
  endings.signal.throwIfAborted();
  const { seconds, sink, latencyMs, backlog, waiting, target, key, profile } = options;
  const rate = options.rate ?? (target ? TARGET_RATE_DEFAULT : RATE_DEFAULT);
  const run: Run = { seconds, sizes: { backlog, waiting, rate }, tell: (text) => progress.tell(text) };
  try {
    if (target && key && scenario.against) {
      const place = targetAt(target, key, rate, endings.signal);
      const running = scenario.against(place, run);
      endings.add(async () => {
        await Promise.allSettled([running]);
        await takeBack(place);
      });
      const result = await running;
      endings.signal.throwIfAborted();
      return result;
    }
    const profiles = profile ? join(PROFILES, scenario.name) : null;
    const bench = await startBench({ sink, latencyMs, profiles }, endings);
    sinks.add(bench.sink.kind);
    return await scenario.run(bench, run);
  } finally {
    await endings.end();
  }
}

function choose(names: readonly string[], { target, key }: Options): Scenario[] {
  const chosen = names.length === 0 ? scenarios.filter((one) => !target || one.against) : names.map(find);
  if (!target && key) throw new Error("--key belongs to --target, the deployment that knows it.");
  if (!target) return chosen;
  if (!key) throw new Error("--target needs --key, an API key of that deployment.");
  for (const { name, against } of chosen)
    if (!against)
      throw new Error(`${name} looks inside the engine, and cannot run against a deployment from outside.`);
  return chosen;
}

function find(name: string): Scenario {
  const scenario = scenarios.find((one) => one.name === name);
  if (!scenario)
    throw new Error(`There is no scenario ${name}: ${scenarios.map((one) => one.name).join(", ")}.`);
  return scenario;
}

/** Every file in scenarios/ says which it holds. */
async function findScenarios(): Promise<Scenario[]> {
  const folder = fileURLToPath(new URL("scenarios", import.meta.url));
  const found: Scenario[] = [];
  for (const file of readdirSync(folder).sort())
    found.push(...((await import(resolve(folder, file))) as { scenarios: readonly Scenario[] }).scenarios);
  return found;
}

/** Sooner than after an hour of measuring. */
function expectWritable(file: string): void {
  try {
    accessSync(dirname(resolve(file)), constants.W_OK);
  } catch {
    throw new Error(`${file} cannot be written: its folder is not there, or not yours.`);
  }
}

function build(): void {
  const built = spawnSync("npm", ["run", "-s", "build"], { stdio: ["ignore", "ignore", "inherit"] });
  if (built.status !== 0) throw new Error("The build failed.");
}

function withoutKey({ key: _, ...options }: Options): Omit<Options, "key"> {
  return options;
}

/** A terminal and whatever started us may both pass the signal on. */
function interrupted(): void {
  if (endings.signal.aborted) return;
  endings.interrupt().finally(() => process.exit(INTERRUPTED_EXIT));
}

/** Also a client of a store that throws out of nowhere, since its store is gone, leaves nothing behind. */
function failed(error: unknown): void {
  // a scenario that was interrupted loses everything under its feet, and what it says about that helps nobody
  if (endings.signal.aborted) return;
  process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
  endings.interrupt().finally(() => process.exit(1));
}

/** Whoever interrupted ends the process. */
function forever(): Promise<never> {
  return new Promise(() => {});
}
