/**
 * What has changed against an earlier run. Only what stands out of the noise is called a change. Two things tell the
 * noise: the range of the runs, when there were three or more on both sides (with fewer a fifth is taken for it), and the
 * floors and peers of both runs, in which nothing of ours can have changed: what they moved, the machine did.
 */
import { aligned, type Results, type Row, rounded } from "./results.ts";

const RUNS_FOR_A_RANGE = 3;
const DIFFERENCE_MIN = 0.05;
const NOISE_UNKNOWN = 0.2;

/** Grows with the length of a run, and says nothing beside another's. */
export const TOTAL_UNIT = "s in all";

export type Change = {
  row: Row;
  before: Row;
  /** Of the medians, as a part of the earlier one. */
  part: number;
  verdict: "no clear change" | "more" | "less" | "better" | "worse";
};

export function changes(earlier: Results, later: Results): Change[] {
  const pairs = pairsOf(earlier, later);
  const drift = driftOf(pairs);
  return pairs
    .filter(({ row }) => !isControl(row) && row.unit !== TOTAL_UNIT)
    .map(({ before, row }) => changeOf(before, row, drift));
}

/** How far the machine itself moved between the runs, as a part: the most that any floor or peer changed. */
export function machineDrift(earlier: Results, later: Results): number {
  return driftOf(pairsOf(earlier, later));
}

type Pair = { before: Row; row: Row };

function pairsOf(earlier: Results, later: Results): Pair[] {
  return later.rows.flatMap((row) => {
    const before = earlier.rows.find((one) => one.scenario === row.scenario && one.name === row.name);
    return before && before.unit === row.unit ? [{ before, row }] : [];
  });
}

function driftOf(pairs: readonly Pair[]): number {
  const rates = pairs.filter(({ row }) => isControl(row) && row.unit === "/s");
  return Math.max(0, ...rates.map(({ before, row }) => distance(before.median, row.median)));
}

function isControl({ scenario, name }: Row): boolean {
  return scenario === "floor" || scenario === "peers" || /\bfloors? of\b|of the floor$/.test(name);
}

/** Halved is as far as doubled. */
function distance(before: number, now: number): number {
  if (before === now) return 0;
  return before <= 0 || now <= 0 ? Number.POSITIVE_INFINITY : Math.max(before / now, now / before) - 1;
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

/** In words, from the least to the most that is known. */
export function summary(earlier: Results, later: Results): string {
  const all = changes(earlier, later);
  const clear = all.filter(({ verdict }) => verdict !== "no clear change");
  const drift = machineDrift(earlier, later);
  const moved =
    drift > DIFFERENCE_MIN
      ? ` Floors and peers moved by up to ${rounded(drift * 100)}%: so much is the machine's.`
      : "";
  const changed =
    clear.length === 0
      ? `No clear change in ${all.length} figures.`
      : `${clear.length} of ${all.length} figures changed; for the others there is no clear change.`;
  return changed + moved;
}

export function compared(earlier: Results, later: Results): string {
  const clear = changes(earlier, later).filter(({ verdict }) => verdict !== "no clear change");
  const rows = clear.map(({ row, before, part, verdict }) => [
    row.scenario,
    row.name,
    rounded(before.median),
    rounded(row.median),
    percent(part),
    verdict,
  ]);
  return [
    ...circumstances(earlier, later).map((text) => `Not the same ${text}`),
    `Against commit ${earlier.machine.commit} of ${earlier.machine.at}: ${summary(earlier, later)}`,
    ...(rows.length > 0 ? [aligned([["scenario", "figure", "before", "now", "change", ""], ...rows])] : []),
  ].join("\n");
}

export function percent(part: number): string {
  return `${part >= 0 ? "+" : ""}${rounded(part * 100)}%`;
}

function changeOf(before: Row, row: Row, drift: number): Change {
  const part = before.median === 0 ? (row.median === 0 ? 0 : 1) : row.median / before.median - 1;
  const isKnown = Math.min(before.values.length, row.values.length) >= RUNS_FOR_A_RANGE;
  const isApart = row.least > before.most || row.most < before.least;
  const noise = Math.max(drift, isKnown ? DIFFERENCE_MIN : NOISE_UNKNOWN);
  const isClear = distance(before.median, row.median) > noise && (isKnown ? isApart : !isTiny(before, row));
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
