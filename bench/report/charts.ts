/**
 * Charts as inline SVG, written by hand: bars with their range, and lines over a linear or a logarithmic
 * axis. Colours are CSS variables of the page (`--c0` and on), so that the charts follow its light and dark
 * dress.
 */
import { rounded, withUnit } from "../results.ts";

export const WIDTH = 720;
const COLOURS = 8;
const CHAR_WIDTH = 6.6;

export type Bar = {
  label: string;
  value: number;
  least: number;
  most: number;
  /** Ours stands out; floors are what nobody can pass. */
  kind: "ours" | "floor" | "peer";
};

const BAR_HEIGHT = 22;
const BAR_PITCH = 34;
const BAR_LEFT = 236;
const BAR_RIGHT = 110;

/** What is drawn, and how high it is. */
export type Drawing = { height: number; content: string };

/** One bar each, from zero, with a whisker from the least to the most of all runs. */
export function bars(rows: readonly Bar[], unit: string): Drawing {
  const top = Math.max(...rows.map((row) => row.most), 1e-9);
  const x = (value: number) => BAR_LEFT + (value / top) * (WIDTH - BAR_LEFT - BAR_RIGHT);
  const drawn = rows.map(({ label, value, least, most, kind }, n) => {
    const y = n * BAR_PITCH + 6;
    const middle = y + BAR_HEIGHT / 2;
    const whisker =
      most > least
        ? `<path class="whisker" d="M${at(x(least))} ${middle}H${at(x(most))}M${at(x(least))} ${middle - 4}v8M${at(x(most))} ${middle - 4}v8"/>`
        : "";
    return `<text class="label" x="${BAR_LEFT - 10}" y="${middle + 4}" text-anchor="end">${escaped(label)}</text>
<rect class="bar ${kind}" x="${BAR_LEFT}" y="${y}" width="${at(Math.max(1.5, x(value) - BAR_LEFT))}" height="${BAR_HEIGHT}" rx="3"><title>${escaped(label)}: ${withUnit(value, unit)} (${rounded(least)} to ${rounded(most)})</title></rect>${whisker}
<text class="value" x="${at(x(most) + 8)}" y="${middle + 4}">${escaped(withUnit(value, unit))}</text>`;
  });
  return { height: rows.length * BAR_PITCH + 6, content: drawn.join("\n") };
}

export type Line = { label: string; points: readonly [number, number][] };
export type Axis = {
  isLogarithmic: boolean;
  ticks: readonly { at: number; label: string }[];
  least: number;
  most: number;
};

const PLOT = { left: 76, right: 16, top: 12, bottom: 30, height: 230 };
const LEGEND_ROW = 20;

export function lines(all: readonly Line[], x: Axis, y: Axis, isFilled = false): string {
  const { left, right, top, bottom, height } = PLOT;
  const legend = legendOf(all.map(({ label }) => label));
  const plotTop = top + legend.height;
  const toX = scale(x, left, WIDTH - right);
  const toY = scale(y, plotTop + height, plotTop);
  const grid = y.ticks.map(
    (tick) =>
      `<path class="grid" d="M${left} ${at(toY(tick.at))}H${WIDTH - right}"/><text class="tick" x="${left - 8}" y="${at(toY(tick.at) + 4)}" text-anchor="end">${escaped(tick.label)}</text>`,
  );
  const below = x.ticks.map(
    (tick) =>
      `<text class="tick" x="${at(toX(tick.at))}" y="${plotTop + height + 18}" text-anchor="middle">${escaped(tick.label)}</text>`,
  );
  const drawn = all.map(({ label, points }, n) => {
    const path = points.map(([px, py], m) => `${m === 0 ? "M" : "L"}${at(toX(px))} ${at(toY(py))}`).join("");
    const first = points[0]?.[0] ?? 0;
    const last = points.at(-1)?.[0] ?? 0;
    const base = plotTop + height;
    const area = isFilled
      ? `<path class="area" style="fill:var(--c${n % COLOURS})" d="${path}L${at(toX(last))} ${base}L${at(toX(first))} ${base}Z"/>`
      : "";
    return `${area}<path class="line" style="stroke:var(--c${n % COLOURS})" d="${path}"><title>${escaped(label)}</title></path>`;
  });
  const frame = `<path class="axis" d="M${left} ${plotTop + height}H${WIDTH - right}"/>`;
  return svg(plotTop + height + bottom, [legend.drawn, ...grid, frame, ...below, ...drawn].join("\n"));
}

/** From zero to a round number that holds the most. */
export function linear(most: number, suffix = ""): Axis {
  const step = roundStep(most);
  const count = Math.max(1, Math.ceil(most / step));
  const ticks = Array.from({ length: count + 1 }, (_, n) => ({
    at: n * step,
    label: `${rounded(n * step)}${suffix}`,
  }));
  return { isLogarithmic: false, ticks, least: 0, most: count * step };
}

/** From the power of ten below the least to the one above the most. */
export function logarithmic(least: number, most: number, suffix = ""): Axis {
  const from = Math.floor(Math.log10(Math.max(least, 1e-3)));
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(most, 1e-3))));
  const ticks = Array.from({ length: to - from + 1 }, (_, n) => ({
    at: 10 ** (from + n),
    label: `${rounded(10 ** (from + n))}${suffix}`,
  }));
  return { isLogarithmic: true, ticks, least: 10 ** from, most: 10 ** to };
}

/**
 * Each nine of a quantile as wide as the one before: 0.9, 0.99, 0.999. The position of a quantile is `nines`
 * of it.
 */
export function quantileAxis(): Axis {
  const ticks = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999].map((one) => ({
    at: nines(one),
    label: `p${rounded(one * 100)}`,
  }));
  return { isLogarithmic: false, ticks, least: nines(0.5), most: nines(0.999) };
}

export function nines(quantile: number): number {
  return -Math.log10(1 - Math.min(quantile, 0.999));
}

function scale({ isLogarithmic, least, most }: Axis, from: number, to: number): (value: number) => number {
  const of = (value: number) => (isLogarithmic ? Math.log10(Math.max(value, least)) : value);
  const span = of(most) - of(least) || 1;
  return (value) => from + ((of(value) - of(least)) / span) * (to - from);
}

function roundStep(most: number): number {
  const rough = Math.max(most, 1e-9) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10);
}

function legendOf(labels: readonly string[]): { drawn: string; height: number } {
  let [x, row] = [PLOT.left, 0];
  const drawn = labels.map((label, n) => {
    const width = 24 + label.length * CHAR_WIDTH;
    if (x + width > WIDTH - PLOT.right && x > PLOT.left) [x, row] = [PLOT.left, row + 1];
    const y = PLOT.top + row * LEGEND_ROW;
    const entry = `<rect x="${at(x)}" y="${y}" width="10" height="10" rx="2" style="fill:var(--c${n % COLOURS})"/><text class="legend" x="${at(x + 15)}" y="${y + 9}">${escaped(label)}</text>`;
    x += width + 8;
    return entry;
  });
  return { drawn: drawn.join(""), height: (row + 1) * LEGEND_ROW };
}

export function svg(height: number, content: string): string {
  return `<svg viewBox="0 0 ${WIDTH} ${Math.ceil(height)}" role="img">${content}</svg>`;
}

function at(value: number): string {
  return String(Math.round(value * 10) / 10);
}

export function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`);
}
