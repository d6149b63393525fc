/**
 * `postrider caps simulate`: a policy on simulated workspaces, as a table, as JSON and as an HTML report. Needs neither
 * Redis nor Postgres; the policy and the windows are those of the engine.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { Command, InvalidArgumentError } from "commander";
import { type Assertion, failureOf, readAssertion } from "../capacity/assertion.ts";
import { MEASURE_NAMES, meaningOf } from "../capacity/measures.ts";
import { checkPolicy, DEFAULT_POLICY, type Policy } from "../capacity/policy.ts";
import { htmlReport } from "../capacity/report/html.ts";
import { sayMeasured } from "../capacity/report/words.ts";
import {
  type Named,
  readSweep,
  type Study,
  type StudyProgress,
  type Sweep,
  study,
} from "../capacity/study.ts";
import { checkScenario, DAYS_MAX, type Scenario } from "../capacity/workload.ts";
import { CommandError, table } from "./context.ts";
import { print, printJson } from "./print.ts";

const SCENARIOS_FOLDER = fileURLToPath(new URL("../../caps/scenarios/", import.meta.url));
const RUNS_MAX = 100_000;
const SEED_MAX = 2 ** 31;
const BAR_CHARS = 30;

type SimulateOptions = {
  policy?: Named<Policy>;
  versus?: Named<Policy>;
  scenario: Named<Scenario>;
  days?: number;
  seed: number;
  runs: number;
  sweep?: Sweep;
  assert: Assertion[];
  json?: string;
  html?: string;
};

export function simulateCommand(): Command {
  return new Command("simulate")
    .description("simulate a policy on workspaces of a scenario; needs no Postgres and no Redis")
    .requiredOption("--scenario <name|file>", `a file, or one of ${scenarioNames().join(", ")}`, readScenario)
    .option("--policy <file>", "the policy file; default: the built-in policy", readPolicy)
    .option("--versus <file>", "a second policy file to compare with", readPolicy)
    .option("--days <n>", "how many days; default: as in the scenario", readCount(1, DAYS_MAX))
    .option(
      "--seed <n>",
      "seed of the first workspace; the same seed gives the same numbers",
      readCount(0, SEED_MAX),
      1,
    )
    .option("--runs <n>", "how many workspaces, each with the next seed", readCount(1, RUNS_MAX), 1)
    .option(
      "--sweep <parameter=from..to/points>",
      "run with several values of one number of the policy",
      readSwept,
    )
    .option(
      "--assert <measure<number>",
      "exit with status 1 if this does not hold; may be repeated",
      readAsserted,
      [],
    )
    .option("--json <file>", "write all results as JSON; - writes to standard output")
    .option("--html <file>", "write a report with charts, as one HTML file")
    .action(run);
}

function run(options: SimulateOptions): void {
  const { scenario, seed, runs, versus, sweep, json, html } = options;
  const policies = [
    options.policy ?? { name: "default", value: DEFAULT_POLICY },
    ...(versus ? [versus] : []),
  ];
  const setup = { policies, scenario, days: options.days ?? scenario.value.days, seed, runs };
  // it takes long, and only the files show it
  const trades = versus && (json || html) ? tradeScenarios(scenario.value) : null;
  const bar = progressBar();
  const found = study(setup, sweep ?? null, trades, bar.show);
  bar.clear();

  if (json === "-") printJson(plain(found));
  else {
    print(inWords(found));
    if (json) writeFileSync(json, `${JSON.stringify(plain(found), null, 2)}\n`);
  }
  if (html) writeFileSync(html, htmlReport(found));

  const measures = found.outcomes[0]?.measures;
  const failures = options.assert.flatMap((one) => (measures && failureOf(one, measures)) ?? []);
  if (failures.length > 0) throw new CommandError(failures.join(" "));
}

function inWords({ scenario, days, seed, runs, outcomes, sweep }: Study): string {
  const about = `${scenario.name}: ${days} days, ${runs} ${runs === 1 ? "workspace" : "workspaces"} from seed ${seed}`;
  const told = MEASURE_NAMES.filter((name) => outcomes.some(({ measures }) => measures[name].worst !== null));
  const rows = told.map((name) => [
    name,
    ...outcomes.flatMap(({ measures }) => [
      sayMeasured(name, measures[name].typical),
      sayMeasured(name, measures[name].worst),
    ]),
    meaningOf(name),
  ]);
  const head = outcomes.flatMap(({ name, version }) => [`${name} (${version})`, "at worst"]);
  const parts = [about, "", table(rows, ["", ...head, ""])];
  if (sweep) {
    const swept = [
      "days_to_target",
      "p99_delay_hours",
      "bad_sent",
      "false_freezes_per_1000",
      "oscillations",
    ] as const;
    const points = sweep.points.map(({ value, measures }) => [
      value,
      ...swept.map((name) => sayMeasured(name, measures[name].typical)),
    ]);
    parts.push("", table(points, [sweep.parameter, ...swept]));
  }
  return parts.join("\n");
}

/** For programs: every number, but of the runs only the days and changes of the first. */
function plain({ outcomes, policies: _policies, scenario, ...rest }: Study) {
  return {
    scenario: scenario.name,
    ...rest,
    outcomes: outcomes.map(({ delays: _delays, shown, ...outcome }) => ({
      ...outcome,
      shown: { seed: shown.seed, days: shown.days, changes: shown.changes },
    })),
  };
}

/** A trade-off needs bad mail on one side and good on the other. */
function tradeScenarios(scenario: Scenario): { good: Scenario; bad: Scenario } {
  const hasBad = scenario.streams.some(({ bad }) => bad);
  return {
    good: hasBad ? readScenario("clean-start").value : scenario,
    bad: hasBad ? scenario : readScenario("bought-list").value,
  };
}

function progressBar(): { show: StudyProgress; clear: () => void } {
  if (!process.stderr.isTTY) return { show: () => {}, clear: () => {} };
  let drawn = -1;
  return {
    show(share) {
      const full = Math.floor(share * BAR_CHARS);
      if (full === drawn) return;
      drawn = full;
      process.stderr.write(
        `\r${"█".repeat(full)}${"░".repeat(BAR_CHARS - full)} ${Math.floor(share * 100)}%`,
      );
    },
    clear: () => process.stderr.write(`\r${" ".repeat(BAR_CHARS + 5)}\r`),
  };
}

/** None where the files were left out: the other commands must work all the same. */
function scenarioNames(): string[] {
  if (!existsSync(SCENARIOS_FOLDER)) return [];
  return readdirSync(SCENARIOS_FOLDER)
    .filter((file) => file.endsWith(".json"))
    .map((file) => basename(file, ".json"))
    .sort();
}

function readScenario(text: string): Named<Scenario> {
  const ours = `${SCENARIOS_FOLDER}${text}.json`;
  const file = /^[a-z0-9-]+$/.test(text) && existsSync(ours) ? ours : text;
  if (!existsSync(file))
    throw new InvalidArgumentError(
      `There is no scenario and no file ${text}. The scenarios are ${scenarioNames().join(", ")}.`,
    );
  return { name: basename(file, ".json"), value: readJson(file, checkScenario) };
}

function readPolicy(file: string): Named<Policy> {
  return { name: basename(file, ".json"), value: readJson(file, checkPolicy) };
}

function readJson<T>(file: string, check: (json: unknown) => T): T {
  if (!existsSync(file)) throw new InvalidArgumentError(`There is no file ${file}.`);
  return refusing(() => check(JSON.parse(readFileSync(file, "utf8"))));
}

function readSwept(text: string): Sweep {
  return refusing(() => readSweep(text));
}

function readAsserted(text: string, before: Assertion[]): Assertion[] {
  return [...before, refusing(() => readAssertion(text))];
}

/** The reason becomes that of the option it stands in. */
function refusing<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

function readCount(min: number, max: number): (text: string) => number {
  return (text) => {
    const count = Number(text);
    if (!/^\d+$/.test(text) || count < min || count > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return count;
  };
}
