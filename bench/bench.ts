/**
 * The bench: one command, everything started by itself on free ports and stopped at the end; one line per scenario and
 * run, then a table with the median, the least and the most of all runs. Compare ratios within one run: machines are
 * shared and noisy.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { Command, InvalidArgumentError, Option } from "commander";
import { type Bench, startBench } from "./machine.ts";
import type { Figure, Scenario } from "./scenario.ts";
import { accept } from "./scenarios/accept.ts";
import { admit, status } from "./scenarios/admit.ts";
import { deliver, idle } from "./scenarios/deliver.ts";

const SCENARIOS: readonly Scenario[] = [admit, status, accept, deliver, idle];

type Options = { seconds: number; runs: number; json?: string; sink: "smtp-sink" | "node" };
type Row = { scenario: string; name: string; unit: string; note?: string; values: number[] };

const program = new Command("bench")
  .argument("[scenarios...]", SCENARIOS.map((one) => `${one.name}: ${one.does}`).join("; "))
  .option("--seconds <n>", "how long each load lasts", whole, 8)
  .option("--runs <n>", "how often each scenario runs, in turn with the others", whole, 1)
  .option("--json <file>", "write every figure there")
  .addOption(
    new Option("--sink <kind>", "what takes the mail").choices(["smtp-sink", "node"]).default("smtp-sink"),
  )
  .action(run);
await program.parseAsync();

async function run(names: string[], options: Options): Promise<void> {
  const chosen = names.length === 0 ? SCENARIOS : names.map(find);
  const built = spawnSync("npm", ["run", "-s", "build"], { stdio: ["ignore", "ignore", "inherit"] });
  if (built.status !== 0) throw new Error("the build failed");
  const rows: Row[] = [];
  for (let n = 1; n <= options.runs; n++)
    for (const scenario of chosen) {
      process.stderr.write(`${scenario.name}, run ${n} of ${options.runs} ...\n`);
      const { figures } = await alone((bench) => scenario.run(bench, options.seconds), options.sink);
      process.stdout.write(`${scenario.name}: ${figures.map(shown).join(", ")}\n`);
      for (const figure of figures) add(rows, scenario.name, figure);
    }
  process.stdout.write(`\n${table(rows)}\n\n${JSON.stringify(machine())}\n`);
  if (options.json)
    writeFileSync(options.json, JSON.stringify({ machine: machine(), options, rows }, null, 2));
}

/** With stores of its own, so that no scenario finds what another left; ended also on Ctrl-C. */
async function alone<T>(work: (bench: Bench) => Promise<T>, sink: Options["sink"]): Promise<T> {
  const bench = await startBench(sink);
  const onInterrupt = () => {
    bench.stop().finally(() => process.exit(130));
  };
  process.once("SIGINT", onInterrupt);
  try {
    return await work(bench);
  } finally {
    process.off("SIGINT", onInterrupt);
    await bench.stop();
  }
}

function find(name: string): Scenario {
  const scenario = SCENARIOS.find((one) => one.name === name);
  if (!scenario)
    throw new Error(`There is no scenario ${name}: ${SCENARIOS.map((one) => one.name).join(", ")}.`);
  return scenario;
}

function add(rows: Row[], scenario: string, { name, unit, value, note }: Figure): void {
  const row = rows.find((one) => one.scenario === scenario && one.name === name);
  if (row) row.values.push(value);
  else rows.push({ scenario, name, unit, ...(note === undefined ? {} : { note }), values: [value] });
}

function shown({ name, value, unit }: Figure): string {
  return `${name} ${rounded(value)}${unit === "" || unit.startsWith("/") || unit === "x" ? unit : ` ${unit}`}`;
}

function table(rows: readonly Row[]): string {
  const cells = rows.map(({ scenario, name, unit, note, values }) => {
    const sorted = [...values].sort((a, b) => a - b);
    const median = sorted[Math.floor(sorted.length / 2)] as number;
    return [
      scenario,
      name,
      rounded(median),
      rounded(sorted[0] as number),
      rounded(sorted.at(-1) as number),
      unit,
      note ?? "",
    ];
  });
  const all = [["scenario", "figure", "median", "least", "most", "unit", "wanted"], ...cells];
  const widths = (all[0] as string[]).map((_, n) => Math.max(...all.map((row) => (row[n] as string).length)));
  return all
    .map((row) =>
      row
        .map((cell, n) => cell.padEnd(widths[n] as number))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function rounded(value: number): string {
  if (value >= 1_000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

function machine() {
  const git = (...args: string[]) => spawnSync("git", args, { encoding: "utf8" }).stdout.trim();
  return {
    cpu: cpus()[0]?.model.trim(),
    cores: cpus().length,
    memory_gb: Math.round(totalmem() / 2 ** 30),
    node: process.versions.node,
    commit: git("rev-parse", "--short", "HEAD"),
    at: new Date().toISOString(),
  };
}

function whole(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > 3_600)
    throw new InvalidArgumentError("It must be a whole number from 1 to 3600.");
  return number;
}
