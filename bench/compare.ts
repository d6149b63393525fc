/**
 * What has changed against an earlier run. Only what stands out of the noise is called a change: with three runs or more
 * on both sides the ranges must not touch and the medians differ by more than a twentieth; with fewer nobody knows the
 * noise, and a fifth of the median is taken for it. Another machine's figures are not compared but shown.
 */
import { aligned, type Results, type Row, rounded } from "./results.ts";

const RUNS_FOR_A_RANGE = 3;
const DIFFERENCE_MIN = 0.05;
const NOISE_UNKNOWN = 0.2;

export type Change = {
  row: Row;
  before: Row;
  /** Of the medians, as a part of the earlier one. */
  part: number;
  verdict: "no clear change" | "more" | "less" | "better" | "worse";
};

export function changes(earlier: Results, later: Results): Change[] {
  return later.rows.flatMap((row) => {
    const before = earlier.rows.find((one) => one.scenario === row.scenario && one.name === row.name);
    return before && before.unit === row.unit ? [changeOf(before, row)] : [];
  });
}

/** Why figures of the two runs may differ whatever the code does; empty: they are comparable. */
export function circumstances(earlier: Results, later: Results): string[] {
  const differing = (what: string, a: unknown, b: unknown) =>
    JSON.stringify(a) === JSON.stringify(b)
      ? []
      : [`${what}: ${JSON.stringify(a)}, now ${JSON.stringify(b)}`];
  const of = ({ machine: { cpu, cores, memory_gb } }: Results) => ({ cpu, cores, memory_gb });
  const set = ({ options }: Results) => {
    const { seconds, sink, latencyMs, backlog, waiting, rate } = options as Record<string, unknown>;
    return { seconds, sink, latencyMs, backlog, waiting, rate };
  };
  return [
    ...differing("machine", of(earlier), of(later)),
    ...differing("node", earlier.versions.node, later.versions.node),
    ...differing("options", set(earlier), set(later)),
  ];
}

export function compared(earlier: Results, later: Results): string {
  const all = changes(earlier, later);
  const clear = all.filter(({ verdict }) => verdict !== "no clear change");
  const warnings = circumstances(earlier, later).map((text) => `Not the same ${text}`);
  const since = `Against commit ${earlier.machine.commit} of ${earlier.machine.at}`;
  if (clear.length === 0)
    return [...warnings, `${since}: no clear change in ${all.length} figures.`].join("\n");
  const rows = clear.map(({ row, before, part, verdict }) => [
    row.scenario,
    row.name,
    rounded(before.median),
    rounded(row.median),
    percent(part),
    verdict,
  ]);
  return [
    ...warnings,
    `${since}: ${clear.length} of ${all.length} figures changed, the others: no clear change.`,
    aligned([["scenario", "figure", "before", "now", "change", ""], ...rows]),
  ].join("\n");
}

export function percent(part: number): string {
  return `${part >= 0 ? "+" : ""}${rounded(part * 100)}%`;
}

function changeOf(before: Row, row: Row): Change {
  const part = before.median === 0 ? (row.median === 0 ? 0 : 1) : row.median / before.median - 1;
  const isKnown = Math.min(before.values.length, row.values.length) >= RUNS_FOR_A_RANGE;
  const isApart = row.least > before.most || row.most < before.least;
  const isClear = isKnown
    ? isApart && Math.abs(part) > DIFFERENCE_MIN
    : Math.abs(part) > NOISE_UNKNOWN && !isTiny(before, row);
  return { row, before, part, verdict: isClear ? direction(row.unit, part > 0) : "no clear change" };
}

/** A count or a share of a second that is next to nothing doubles without meaning. */
function isTiny(before: Row, row: Row): boolean {
  const least: Record<string, number> = { ms: 2, s: 0.005, MB: 10, "": 3 };
  return Math.abs(row.median - before.median) < (least[row.unit] ?? 0);
}

function direction(unit: string, rose: boolean): Change["verdict"] {
  if (unit === "/s") return rose ? "better" : "worse";
  if (["ms", "s", "us", "MB", "bytes"].includes(unit)) return rose ? "worse" : "better";
  return rose ? "more" : "less";
}
