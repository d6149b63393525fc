/**
 * What has changed against an earlier run. A change is called one only when neither chance nor the machine
 * explains it.
 *
 * Chance: with four runs on each side the rounds of both are dealt anew (chance.ts); with fewer nobody can
 * tell, so the ranges must lie apart and the medians by more than half.
 *
 * The machine: in the floor nothing of ours can have changed, so what it moved, the machine did. A figure
 * must differ as it is, and also after its floor's move was taken off. Where no floor was measured in both, a
 * fifth is taken for its move. Memory, counts and ratios do not follow the speed of a machine; ratios are
 * judged by chance as rates are.
 */
import { CHANCE_MAX, canTell, chances, type Sides } from "./chance.ts";
import { TOTAL_UNIT } from "./figure.ts";
import { CPU_FLOOR, DELIVERY_FLOOR } from "./ratios.ts";
import { aligned, medianOf, type Results, type Row, rounded } from "./results.ts";

/** Less than this is nobody's business. */
const DIFFERENCE_MIN = 0.05;
const DIFFERENCE_MIN_UNKNOWN = 0.2;
/**
 * Single runs of one commit on a machine that others use too differed by a third, and by more beside a peer.
 */
const DIFFERENCE_MIN_FEW_RUNS = 0.5;

const RATES = ["/s"];
const DURATIONS = ["s", "ms", "us"];

export type Change = {
  row: Row;
  before: Row;
  /** Of the medians, as a part of the earlier one. */
  part: number;
  verdict: "no clear change" | "more" | "less" | "better" | "worse";
};

export function changes(earlier: Results, later: Results): Change[] {
  const pairs = pairsOf(earlier, later);
  const judged = pairs
    .filter(({ row }) => !isControl(row) && row.unit !== TOTAL_UNIT)
    .map((pair) => ({ ...pair, pace: paceOf(pair.row, pairs) }));
  const asMeasured = judged.map(({ before, row }) => ({ before: before.values, after: row.values }));
  const atOnePace = judged.map(({ before, row, pace }) => ({
    before: before.values,
    after: row.values.map((value) => value / (pace ?? 1)),
  }));
  const [measured, paced] = [differencesOf(asMeasured), differencesOf(atOnePace)];
  return judged.map(({ before, row, pace }, n) => {
    const both = [measured[n], paced[n]] as [Difference, Difference];
    const part = partOf(before.median, row.median);
    const isClear = both.every((one) => isLarge(one, pace !== null)) && both[0].part * both[1].part > 0;
    const isSeen = isClear && (both[0].chance !== null || !isTiny(before, row));
    return { row, before, part, verdict: isSeen ? direction(row.unit, part > 0) : "no clear change" };
  });
}

type Pair = { before: Row; row: Row };

function pairsOf(earlier: Results, later: Results): Pair[] {
  return later.rows.flatMap((row) => {
    const before = earlier.rows.find((one) => one.scenario === row.scenario && one.name === row.name);
    return before && before.unit === row.unit ? [{ before, row }] : [];
  });
}

function isControl(row: Row): boolean {
  return ["floor", "peers"].includes(row.scenario) || isFloor(row);
}

function isFloor({ name, unit }: Row): boolean {
  return unit !== "x" && /\bfloors? of\b|of the floor$/.test(name);
}

/** By how much the machine alone would have multiplied a figure; null: no floor tells. */
function paceOf(row: Row, pairs: readonly Pair[]): number | null {
  const { unit } = row;
  if (isCpu(row)) return floorPace(row, pairs, isCpu, CPU_FLOOR);
  if (![...RATES, ...DURATIONS].includes(unit)) return 1;
  const pace = floorPace(row, pairs, isRate, DELIVERY_FLOOR);
  return pace === null || isRate(row) ? pace : 1 / pace;
}

/** Of a floor that the scenario measures beside itself, else of the one that all have in common. */
function floorPace(
  { scenario }: Row,
  pairs: readonly Pair[],
  isAlike: (row: Row) => boolean,
  common: string,
): number | null {
  const floor =
    pairs.find(({ row }) => row.scenario === scenario && isFloor(row) && isAlike(row)) ??
    pairs.find(({ row }) => row.name === common);
  return floor && floor.before.median > 0 ? floor.row.median / floor.before.median || null : null;
}

/** Whoever shares the machine takes half of the time, but hardly makes a CPU slower. */
function isCpu({ name, unit }: Row): boolean {
  return DURATIONS.includes(unit) && /\bCPU\b|\bof which\b/.test(name);
}

function isRate({ unit }: Row): boolean {
  return RATES.includes(unit);
}

type Difference = {
  /** Of the medians, as a part of the earlier one. */
  part: number;
  isApart: boolean;
  /** That it is nothing; null: too few runs to tell. */
  chance: number | null;
};

function differencesOf(all: readonly Sides[]): Difference[] {
  const rounds = (pick: (sides: Sides) => readonly number[]) =>
    Math.max(0, ...all.map((one) => pick(one).length));
  const [before, after] = [rounds((one) => one.before), rounds((one) => one.after)];
  const isWhole = (one: Sides) => one.before.length === before && one.after.length === after;
  const told = canTell(before, after) ? all.filter(isWhole) : [];
  const chanceOf = new Map(chances(told).map((chance, n) => [told[n], chance]));
  return all.map((one) => ({
    part: partOf(medianOf(one.before), medianOf(one.after)),
    isApart:
      Math.min(...one.after) > Math.max(...one.before) || Math.max(...one.after) < Math.min(...one.before),
    chance: chanceOf.get(one) ?? null,
  }));
}

function isLarge({ part, isApart, chance }: Difference, hasFloor: boolean): boolean {
  // halved is as far as doubled
  const distance = part < 0 ? 1 / (1 + part) - 1 : part;
  if (chance === null) return isApart && distance > DIFFERENCE_MIN_FEW_RUNS;
  return chance <= CHANCE_MAX && distance > (hasFloor ? DIFFERENCE_MIN : DIFFERENCE_MIN_UNKNOWN);
}

function partOf(before: number, now: number): number {
  return before === now ? 0 : before === 0 ? 1 : now / before - 1;
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
  const changed =
    clear.length === 0
      ? `No clear change in ${all.length} figures.`
      : `${clear.length} of ${all.length} figures changed; for the others there is no clear change.`;
  return [changed, ...moves(earlier, later), ...doubts(earlier, later)].join(" ");
}

/** What the machine did to the floors, where it is more than a little. */
function moves(earlier: Results, later: Results): string[] {
  const floors = pairsOf(earlier, later).filter(({ row }) => isFloor(row) || row.name === CPU_FLOOR);
  const moved = floors
    .map(({ before, row }) => ({ row, part: partOf(before.median, row.median) }))
    .filter(({ part }) => Math.abs(part) > DIFFERENCE_MIN)
    .map(({ row, part }) => `${row.scenario}: ${row.name} ${percent(part)}`);
  return moved.length === 0 ? [] : [`The machine moved floors by itself (${moved.join("; ")}).`];
}

function doubts(earlier: Results, later: Results): string[] {
  const pairs = pairsOf(earlier, later);
  const rounds = ({ rows }: Results) => Math.max(0, ...rows.map(({ values }) => values.length));
  const blind = new Set(
    pairs.filter(({ row }) => !isControl(row) && paceOf(row, pairs) === null).map(({ row }) => row.scenario),
  );
  return [
    ...(canTell(rounds(earlier), rounds(later))
      ? []
      : ["Too few runs to see a change of less than half: take more (--runs 5) on both sides."]),
    ...(blind.size === 0
      ? []
      : [
          `No floor in both runs tells the machine from the code in ${[...blind].join(", ")}: run floor too.`,
        ]),
  ];
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
