/**
 * `postrider caps simulate`: a policy on simulated workspaces, as a table, as JSON and as an HTML report.
 * Needs neither Redis nor Postgres; the policy and the windows are those of the engine.
 */
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { InvalidArgumentError } from "commander";
import { type Assertion, check, readAssertion } from "../capacity/assertion.ts";
import { MEASURE_NAMES, meaningOf } from "../capacity/measures.ts";
import { DEFAULT_POLICY, type Policy } from "../capacity/policy.ts";
import { parseJson, readPolicyFile } from "../capacity/policyfile.ts";
import { checkReceivers, type ReceiverModel } from "../capacity/receivers.ts";
import { htmlReport } from "../capacity/report/html.ts";
import { plainStudy } from "../capacity/report/plain.ts";
import { tellRun } from "../capacity/report/story.ts";
import { summarise, withRange } from "../capacity/report/summary.ts";
import { sayMeasured, sayPolicy } from "../capacity/report/words.ts";
import { scenarioFile, scenarioNames } from "../capacity/scenarios.ts";
import {
  type Named,
  readSweep,
  type Study,
  type StudyProgress,
  type StudyResult,
  type Sweep,
  study,
  withParameter,
} from "../capacity/study.ts";
import { checkScenario, type Scenario } from "../capacity/workload.ts";
import { messageOf } from "../caught.ts";
import { CommandError, print, printJson, table } from "./print.ts";

const BAR_CHARS = 30;

type SimulateOptions = {
  policy?: Named<Policy>;
  versus?: Named<Policy>;
  scenario: Named<Scenario>;
  days?: number;
  seed: number;
  runs: number;
  threads: number;
  set: ParameterChange[];
  receivers?: Partial<ReceiverModel>;
  sweep?: Sweep;
  assert: Assertion[];
  explain?: boolean;
  json?: string | true;
  html?: string;
};

type ParameterChange = { parameter: string; value: number };

export async function run(options: SimulateOptions): Promise<void> {
  const { seed, runs, versus, sweep, html, threads, explain } = options;
  const given = options.policy ?? { name: "default", value: DEFAULT_POLICY };
  const scenario = withReceivers(options.scenario, options.receivers);
  const policies = [
    given,
    ...(versus ? [versus] : []),
    ...(options.set.length > 0 ? [changedBy(given, scenario.value, options.set)] : []),
  ];
  if (policies.length > 2) throw new CommandError("Give --versus or --set, not both.");
  const json = options.json === true ? "-" : options.json;
  for (const file of [html, json]) if (file !== undefined) expectFolderOf(file);
  const setup = { policies, scenario, days: options.days ?? scenario.value.days, seed, runs, threads };
  // it takes long, and only the files show it
  const trades = html || (policies.length > 1 && json) ? tradeScenarios(scenario.value) : null;
  const bar = progressBar();
  const found = await study(setup, sweep ?? null, trades, bar.show);
  bar.clear();

  const measures = (found.outcomes[0] as StudyResult).measures;
  const checked = options.assert.map((one) => check(one, measures));
  if (json === "-") printJson(plainStudy(found));
  else {
    print(inWords(found, explain === true));
    for (const { holds, says } of checked) if (holds) print(says);
    if (json) writeFileSync(json, `${JSON.stringify(plainStudy(found), null, 2)}\n`);
  }
  if (html) writeFileSync(html, htmlReport(found));

  const failures = checked.filter(({ holds }) => !holds).map(({ says }) => says);
  if (failures.length > 0) throw new CommandError(failures.join(" "));
}

function inWords(found: Study, explain: boolean): string {
  const { scenario, days, seed, runs, outcomes, sweep } = found;
  const under = outcomes.map(({ name, version }) => `${sayPolicy(name)} (${version})`).join(" and ");
  const about = `${scenario.name}: ${days} days, ${runs} ${runs === 1 ? "workspace" : "workspaces"} from seed ${seed}, under ${under}`;
  const told = MEASURE_NAMES.filter((name) => outcomes.some(({ measures }) => measures[name].worst !== null));
  const rows = told.map((name) => [
    name,
    ...outcomes.flatMap(({ measures }) => {
      const { typical, low, high, worst } = measures[name];
      const range = `${sayMeasured(name, low)}..${sayMeasured(name, high)}`;
      return [sayMeasured(name, typical), range, sayMeasured(name, worst)];
    }),
    meaningOf(name),
  ]);
  const head = outcomes.flatMap(({ name, version }) => [`${name} (${version})`, "95%", "at worst"]);
  const parts = [about, "", ...summarise(found), "", table(rows, ["", ...head, ""])];
  if (sweep) {
    const swept = [
      "days_to_target",
      "p99_delay_hours",
      "bad_sent",
      "inbox_share",
      "false_freezes_per_1000",
      "oscillations",
    ] as const;
    const points = sweep.points.map(({ value, measures }) => [
      value,
      ...swept.map((name) => withRange(measures, name)),
    ]);
    parts.push("", table(points, [sweep.parameter, ...swept]));
  }
  if (explain)
    for (const { name, shown } of outcomes)
      parts.push("", ...(outcomes.length > 1 ? [`${name}:`] : []), ...tellRun(shown));
  return parts.join("\n");
}

/** A policy with some numbers changed, named after them. */
function changedBy(
  from: Named<Policy>,
  scenario: Scenario,
  changes: readonly ParameterChange[],
): Named<Policy> {
  let { value } = from;
  for (const one of changes) {
    const changed = withParameter(value, scenario, one.parameter, one.value);
    if (changed.policy === value)
      throw new CommandError(
        `--set changes numbers of the policy, and ${one.parameter} is of the receivers.`,
      );
    value = changed.policy;
  }
  return { name: changes.map(({ parameter, value }) => `${parameter}=${value}`).join(" "), value };
}

function withReceivers(scenario: Named<Scenario>, receivers?: Partial<ReceiverModel>): Named<Scenario> {
  const known = scenario.value.receivers;
  if (!receivers || known === "indifferent") return scenario;
  return { ...scenario, value: { ...scenario.value, receivers: { ...receivers, ...known } } };
}

/**
 * A trade-off needs bad mail on one side and good on the other. Every policy stops a list of which a third
 * bounces, at the same e-mail: only one near the limits tells them apart.
 */
function tradeScenarios(scenario: Scenario): { good: Scenario; bad: Scenario } {
  const hasBad = scenario.streams.some(({ bad }) => bad);
  return {
    good: hasBad ? readScenario("clean-start").value : scenario,
    bad: hasBad ? scenario : withBounces(readScenario("bought-list").value, TRADED_BOUNCE),
  };
}

const TRADED_BOUNCE = 0.1;

function withBounces(scenario: Scenario, bounce: number): Scenario {
  const streams = scenario.streams.map((stream) => (stream.bad ? { ...stream, bounce } : stream));
  return { ...scenario, streams };
}

export function progressBar(): { show: StudyProgress; clear: () => void } {
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

export function readScenario(text: string): Named<Scenario> {
  const file = scenarioFile(text) ?? text;
  if (!existsSync(file))
    throw new InvalidArgumentError(
      `There is no scenario and no file ${text}. The scenarios are ${scenarioNames().join(", ")}.`,
    );
  return { name: basename(file, ".json"), value: readJson(file, checkScenario) };
}

/** A simulation takes long: what is wrong with the place of its results is said before. */
function expectFolderOf(file: string): void {
  const folder = dirname(file);
  if (!existsSync(folder))
    throw new CommandError(`There is no folder ${folder} to write ${basename(file)} to.`);
  if (existsSync(file) && statSync(file).isDirectory()) throw new CommandError(`${file} is a folder.`);
}

/** A file, or `inforce`: only then the stores are asked. */
export function readPolicy(text: string): Named<Policy> | Promise<Named<Policy>> {
  if (text === IN_FORCE && !existsSync(text)) return policyOfRecord();
  return refusing(() => ({ name: basename(text, ".json"), value: readPolicyFile(text).policy }));
}

const IN_FORCE = "inforce";

async function policyOfRecord(): Promise<Named<Policy>> {
  const [{ withContext }, { BUILT_IN, policyInForce }] = await Promise.all([
    import("./context.ts"),
    import("../capacity/inforce.ts"),
  ]);
  const { version, policy } = await withContext(({ sql }) => policyInForce(sql));
  return { name: version === BUILT_IN ? "default" : `version ${version}`, value: policy };
}

export function readJson<T>(file: string, check: (json: unknown) => T): T {
  if (!existsSync(file)) throw new InvalidArgumentError(`There is no file ${file}.`);
  return refusing(() => {
    if (statSync(file).isDirectory()) throw new Error(`${file} is a folder.`);
    return check(parseJson(readFileSync(file, "utf8")));
  });
}

export function readSwept(text: string): Sweep {
  return refusing(() => readSweep(text));
}

export function readChange(text: string, before: ParameterChange[]): ParameterChange[] {
  const [, parameter = "", value] = /^([a-z_.]+)=(\d+(?:\.\d+)?)$/.exec(text) ?? [];
  if (parameter === "") throw new InvalidArgumentError(`It must read like \`growth=1.6\`, not \`${text}\`.`);
  return [...before, { parameter, value: Number(value) }];
}

export function readReceivers(file: string): Partial<ReceiverModel> {
  return readJson(file, checkReceivers);
}

export function readAsserted(text: string, before: Assertion[]): Assertion[] {
  return [...before, refusing(() => readAssertion(text))];
}

/** The reason becomes that of the option it stands in. */
function refusing<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error));
  }
}
