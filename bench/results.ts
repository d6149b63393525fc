/**
 * What came out of all runs: every figure of every run, with median, least and most; what only a report
 * shows; and the machine and the versions (versions.ts) it holds for. This is the JSON file.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import type { Course, Distribution, Exhibit, Figure } from "./figure.ts";
import type { Result } from "./scenario.ts";

const FORMAT = 1;

export type Row = {
  scenario: string;
  name: string;
  unit: string;
  note?: string;
  /** One for each run, in order. */
  values: number[];
  median: number;
  least: number;
  most: number;
};

export type Results = {
  format: number;
  machine: Record<string, string | number>;
  versions: Record<string, string>;
  options: object;
  rows: Row[];
  /** Of the last run. */
  distributions: (Distribution & { scenario: string })[];
  courses: (Course & { scenario: string })[];
  exhibits: Exhibit[];
  skipped: string[];
  /** Scenarios that ended in an error, each with its run and what it said. */
  failed: string[];
};

export function emptyResults(options: object, versions: Results["versions"] = {}): Results {
  const base = { format: FORMAT, machine: machine(), versions, options };
  return { ...base, rows: [], distributions: [], courses: [], exhibits: [], skipped: [], failed: [] };
}

/** The JSON file of an earlier run. */
export function readResults(file: string): Results {
  let found: Partial<Results> | null;
  try {
    found = JSON.parse(readFileSync(file, "utf8")) as Partial<Results> | null;
  } catch (error) {
    throw new Error(`${file} cannot be read: ${(error as Error).message}`);
  }
  if (found?.format !== FORMAT || !Array.isArray(found.rows))
    throw new Error(`${file} is no report of this bench, as --json writes it.`);
  return found as Results;
}

export function addResult(results: Results, scenario: string, result: Result): void {
  addFigures(results, scenario, result.figures);
  const others = <T extends { scenario: string }>(list: T[]) =>
    list.filter((one) => one.scenario !== scenario);
  const named = <T extends object>(list: T[] = []) => list.map((one) => ({ ...one, scenario }));
  results.distributions = [...others(results.distributions), ...named(result.distributions)];
  results.courses = [...others(results.courses), ...named(result.courses)];
  for (const exhibit of result.exhibits ?? [])
    if (!results.exhibits.some(({ name }) => name === exhibit.name)) results.exhibits.push(exhibit);
  results.skipped = [...new Set([...results.skipped, ...(result.skipped ?? [])])];
}

export function addFigures(results: Results, scenario: string, figures: readonly Figure[]): void {
  for (const { name, value, unit, note } of figures) {
    let row = results.rows.find((one) => one.scenario === scenario && one.name === name);
    if (!row) {
      row = {
        scenario,
        name,
        unit,
        ...(note !== undefined && { note }),
        values: [],
        median: 0,
        least: 0,
        most: 0,
      };
      results.rows.push(row);
    }
    row.values.push(value);
    row.median = medianOf(row.values);
    row.least = Math.min(...row.values);
    row.most = Math.max(...row.values);
  }
}

export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] as number;
  return Number.isInteger(middle) ? (upper + (sorted[middle - 1] as number)) / 2 : upper;
}

export function shown({ name, value, unit }: Figure): string {
  return `${name} ${withUnit(value, unit)}`;
}

export function withUnit(value: number, unit: string): string {
  return `${rounded(value)}${unit === "" || unit.startsWith("/") || unit === "x" ? unit : ` ${unit}`}`;
}

export function table(rows: readonly Row[]): string {
  const head = ["scenario", "figure", "median", "least", "most", "unit", "wanted"];
  const cells = rows.map((row) => [
    row.scenario,
    row.name,
    rounded(row.median),
    rounded(row.least),
    rounded(row.most),
    row.unit,
    row.note ?? "",
  ]);
  return aligned([head, ...cells]);
}

export function aligned(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, n) => Math.max(...rows.map((row) => row[n]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, n) => cell.padEnd(widths[n] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

export function rounded(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (Math.abs(value) >= 1_000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

/** Asked for once: the code that runs stays the one that was loaded. */
let commit: string | null = null;

function commitHere(): string {
  commit ??= askedCommit();
  return commit;
}

function askedCommit(): string {
  const isChanged = said("git", "status", "--porcelain") !== "";
  return said("git", "rev-parse", "--short", "HEAD") + (isChanged ? ", changed" : "");
}

function machine(): Results["machine"] {
  return {
    cpu: cpus()[0]?.model.trim() ?? "",
    cores: cpus().length,
    memory_gb: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${release()}`,
    commit: commitHere(),
    at: new Date().toISOString(),
  };
}

function said(program: string, ...args: string[]): string {
  return (spawnSync(program, args, { encoding: "utf8" }).stdout ?? "").trim();
}
