/**
 * Charts as SVG text, drawn by hand so that a report is one file that loads nothing. Colours are CSS
 * variables of the page, which has a light and a dark set. No two lines differ by colour alone: each has a
 * dash and each dot a shape, so that a chart is read in grey too. Everything drawn comes with a title to
 * hover over.
 */
export type Point = readonly [x: number, y: number];

export type Series = {
  name: string;
  color: string;
  form: "line" | "step" | "area" | "dots" | "curve";
  points: readonly Point[];
  dash?: Dash;
  mark?: Mark;
  /** Said of each dot. */
  labels?: readonly string[];
};

/** How a line, or the outline of a dot, is told from the others without its colour. */
export type Dash = "solid" | "dashed" | "dotted" | "dashdot";
export type Mark = "circle" | "square" | "diamond";

const DASHES: Record<Dash, string> = { solid: "", dashed: "7 4", dotted: "2 3", dashdot: "9 3 2 3" };

/** A stretch of time with a value and how low it may be: a window that decided. */
export type Stretch = { from: number; to: number; value: number; low: number; label: string };

export type Chart = {
  title: string;
  x: Axis;
  y: Axis;
  series: readonly Series[];
  bands?: readonly {
    name: string;
    color: string;
    points: readonly (readonly [x: number, low: number, high: number])[];
  }[];
  limits?: readonly { name: string; color: string; at: number }[];
  stretches?: readonly Stretch[];
  moments?: readonly { at: number; label: string }[];
  width?: number;
  height?: number;
};

export type Axis = {
  label: string;
  scale?: "linear" | "log";
  most?: number;
  says: (value: number) => string;
};

export const WIDE = 880;
/** Two of these stand side by side. */
export const NARROW = 430;
const HEIGHT = 300;
const LEFT = 66;
const RIGHT = 24;
const TOP = 26;
const LIMIT_LABEL_PX = 12;
const BOTTOM = 40;
const TICKS = 5;
const CHAR_PX = 6.5;
const LOG_LEAST_SHARE = 1e-4;
/** What is least still stands above the axis. */
const LOG_FOOT = 0.8;

type Scale = { at: (value: number) => number; ticks: number[] };

export function drawChart(chart: Chart): string {
  const { width = WIDE, height = HEIGHT } = chart;
  const drawn: Point[] = [
    ...chart.series.flatMap(({ points }) => points),
    ...(chart.bands ?? []).flatMap(({ points }) =>
      points.flatMap(([x, low, high]): Point[] => [
        [x, low],
        [x, high],
      ]),
    ),
    ...(chart.limits ?? []).map(({ at }): Point => [Number.NaN, at]),
    ...(chart.stretches ?? []).flatMap(({ from, to, value, low }): Point[] => [
      [from, value],
      [to, low],
    ]),
  ];
  const xs = scaleOf(
    chart.x,
    drawn.map(([x]) => x),
    LEFT,
    width - RIGHT,
    false,
  );
  const ys = scaleOf(
    chart.y,
    drawn.map(([, y]) => y),
    height - BOTTOM,
    TOP,
    true,
  );
  const legend = [
    ...chart.series.map(({ name, color, dash, form }) =>
      keyOf(name, color, dash ?? "solid", form === "area"),
    ),
    ...(chart.bands ?? []).map(({ name, color }) => keyOf(name, color, "solid", true)),
    ...(chart.stretches?.length
      ? [keyOf("windows that decided, down to what is sure", "--ink", "solid", false)]
      : []),
  ].join("");
  return `<figure><figcaption>${escapeHtml(chart.title)}</figcaption>
<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeHtml(chart.title)}">
${axes(chart, xs, ys, width, height)}
${(chart.bands ?? []).map((band) => drawBand(band, xs, ys)).join("\n")}
${drawLimits(chart.limits ?? [], ys, width)}
${chart.series.map((series) => drawSeries(series, chart, xs, ys, height)).join("\n")}
${(chart.stretches ?? []).map((stretch) => drawStretch(stretch, xs, ys)).join("\n")}
${drawMoments(chart.moments ?? [], xs, height)}
</svg><div class="legend">${legend}</div></figure>`;
}

export type LevelSpan = {
  from: number;
  to: number;
  color: string;
  pattern: string;
  name: string;
  says: string;
};

/** A strip of spans over time; each kind has a pattern of its own, and its name where there is room. */
export function drawTimeline(spans: readonly LevelSpan[], end: number, width = WIDE): string {
  const at = (x: number) => LEFT + ((width - LEFT - RIGHT) * x) / end;
  const patterns = [...new Map(spans.map((span) => [span.pattern, span])).values()].map(drawPattern);
  const bars = spans.map(({ from, to, color, pattern, name, says }) => {
    const length = Math.max(1.5, at(to) - at(from));
    const box = `x="${px(at(from))}" y="4" width="${px(length)}" height="26"`;
    const label =
      length > name.length * CHAR_PX + 8
        ? `<text class="span" x="${px(at(from) + length / 2)}" y="21" text-anchor="middle">${name}</text>`
        : "";
    return `<g><title>${escapeHtml(says)}</title><rect ${box} fill="var(${color})" opacity="0.35"/><rect ${box} fill="url(#${pattern})" stroke="var(--ink)" stroke-width="0.6"/>${label}</g>`;
  });
  const ticks = linearTicks(0, end).map(
    (day) => `<text class="tick" x="${px(at(day))}" y="46" text-anchor="middle">${day}</text>`,
  );
  return `<svg viewBox="0 0 ${width} 52" role="img" aria-label="Levels over time"><defs>${patterns.join("")}</defs>${bars.join("")}${ticks.join("")}</svg>`;
}

function drawPattern({ pattern }: LevelSpan): string {
  const lines = PATTERNS[pattern] ?? "";
  return `<pattern id="${pattern}" width="8" height="8" patternUnits="userSpaceOnUse"><path d="${lines}" stroke="var(--ink)" stroke-width="1.1" fill="none" opacity="0.75"/></pattern>`;
}

const PATTERNS: Record<string, string> = {
  plain: "",
  rising: "M0,8 L8,0",
  crossed: "M0,8 L8,0 M0,0 L8,8",
  level: "M0,2 H8 M0,6 H8",
  upright: "M2,0 V8 M6,0 V8",
};

function keyOf(name: string, color: string, dash: Dash, isArea: boolean): string {
  const line = isArea
    ? `<rect width="22" height="10" y="1" fill="var(${color})" opacity="0.3"/>`
    : `<line x1="0" x2="22" y1="6" y2="6" stroke="var(${color})" stroke-width="2.4" stroke-dasharray="${DASHES[dash]}"/>`;
  return `<span><svg class="key" viewBox="0 0 22 12">${line}</svg>${escapeHtml(name)}</span>`;
}

function drawStretch({ from, to, value, low, label }: Stretch, xs: Scale, ys: Scale): string {
  const [x1, x2] = [xs.at(from), Math.max(xs.at(to), xs.at(from) + 3)];
  const [y, foot] = [px(ys.at(value)), px(ys.at(low))];
  return `<g><title>${escapeHtml(label)}</title><line x1="${px(x1)}" x2="${px(x2)}" y1="${y}" y2="${y}" stroke="var(--ink)" stroke-width="3"/><line x1="${px(x2)}" x2="${px(x2)}" y1="${y}" y2="${foot}" stroke="var(--ink)" stroke-width="1.4"/><line x1="${px(x2 - 4)}" x2="${px(x2 + 4)}" y1="${foot}" y2="${foot}" stroke="var(--ink)" stroke-width="1.4"/></g>`;
}

function drawMoments(moments: NonNullable<Chart["moments"]>, xs: Scale, height: number): string {
  return moments
    .map(
      ({ at, label }) =>
        `<line x1="${px(xs.at(at))}" x2="${px(xs.at(at))}" y1="${TOP}" y2="${height - BOTTOM}" stroke="var(--ink)" stroke-dasharray="2 2"/><text class="moment" x="${px(xs.at(at) + 4)}" y="${TOP + 10}">${escapeHtml(label)}</text>`,
    )
    .join("");
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

function axes({ x, y }: Chart, xs: Scale, ys: Scale, width: number, height: number): string {
  const bottom = height - BOTTOM;
  const rows = ys.ticks.map(
    (tick) =>
      `<line class="grid" x1="${LEFT}" x2="${width - RIGHT}" y1="${px(ys.at(tick))}" y2="${px(ys.at(tick))}"/>` +
      `<text class="tick" x="${LEFT - 8}" y="${px(ys.at(tick) + 4)}" text-anchor="end">${escapeHtml(y.says(tick))}</text>`,
  );
  const columns = xs.ticks.map(
    (tick) =>
      `<text class="tick" x="${px(xs.at(tick))}" y="${bottom + 17}" text-anchor="middle">${escapeHtml(x.says(tick))}</text>`,
  );
  return `${rows.join("")}${columns.join("")}<line class="axis" x1="${LEFT}" x2="${width - RIGHT}" y1="${bottom}" y2="${bottom}"/>
<text class="label" x="${width - RIGHT}" y="${height - 6}" text-anchor="end">${escapeHtml(x.label)}</text>
<text class="label" x="${LEFT - 8}" y="12">${escapeHtml(y.label)}</text>`;
}

function drawBand(
  { name, color, points }: NonNullable<Chart["bands"]>[number],
  xs: Scale,
  ys: Scale,
): string {
  if (points.length === 0) return "";
  const upper = points.map(([x, , high]) => `${px(xs.at(x))},${px(ys.at(high))}`);
  const lower = points.map(([x, low]) => `${px(xs.at(x))},${px(ys.at(low))}`).reverse();
  return `<polygon points="${[...upper, ...lower].join(" ")}" fill="var(${color})" opacity="0.16"><title>${escapeHtml(name)}</title></polygon>`;
}

/** Names of limits that lie together are moved apart, and lie above the lines of the others. */
function drawLimits(limits: NonNullable<Chart["limits"]>, ys: Scale, width: number): string {
  const upwards = [...limits].sort((a, b) => a.at - b.at);
  const lines = upwards.map(({ name, color, at }) => {
    const y = px(ys.at(at));
    return `<line x1="${LEFT}" x2="${width - RIGHT}" y1="${y}" y2="${y}" stroke="var(${color})" stroke-width="1.2" stroke-dasharray="5 4"><title>${escapeHtml(name)}</title></line>`;
  });
  let above = Number.POSITIVE_INFINITY;
  const names = upwards.map(({ name, color, at }) => {
    above = Math.min(ys.at(at) - 3, above - LIMIT_LABEL_PX);
    return `<text class="limit" x="${width - RIGHT - 3}" y="${px(above)}" text-anchor="end" color="var(${color})">${escapeHtml(name)}</text>`;
  });
  return [...lines, ...names].join("\n");
}

function drawSeries(series: Series, { x, y }: Chart, xs: Scale, ys: Scale, height: number): string {
  const { name, color, form, points, dash = "solid", mark = "circle", labels } = series;
  if (points.length === 0) return "";
  const at = points.map(([px_, py]): Point => [xs.at(px_), ys.at(py)]);
  const says = (n: number) => {
    const [valueX, valueY] = points[n] as Point;
    return escapeHtml(labels?.[n] ?? `${name}: ${y.says(valueY)} at ${x.label} ${x.says(valueX)}`);
  };
  const stroke = `stroke="var(${color})" stroke-width="2" fill="none" stroke-linejoin="round" stroke-dasharray="${DASHES[dash]}"`;
  const dots = (radius: number, opacity: number) =>
    at
      .map(
        ([cx, cy], n) =>
          `<path d="${outline(opacity === 0 ? "circle" : mark, cx, cy, radius)}" fill="var(${color})" opacity="${opacity}"><title>${says(n)}</title></path>`,
      )
      .join("");
  if (form === "dots") return dots(4.5, 1);
  if (form === "curve") return `<path d="${lineOf(at)}" ${stroke}/>${dots(4.5, 1)}`;
  // what cannot be seen can be hovered over
  const hover = dots(6, 0);
  if (form === "step") return `<path d="${stepsOf(at)}" ${stroke}/>${hover}`;
  if (form === "line") return `<path d="${lineOf(at)}" ${stroke}/>${hover}`;
  const floor = height - BOTTOM;
  const [first, last] = [at[0] as Point, at.at(-1) as Point];
  const area = `${lineOf(at)} L${px(last[0])},${floor} L${px(first[0])},${floor} Z`;
  return `<path d="${area}" fill="var(${color})" opacity="0.28"/><path d="${lineOf(at)}" ${stroke}/>${hover}`;
}

function outline(mark: Mark, x: number, y: number, r: number): string {
  if (mark === "square") return `M${px(x - r)},${px(y - r)} h${2 * r} v${2 * r} h${-2 * r} Z`;
  if (mark === "diamond") return `M${px(x)},${px(y - r)} l${r},${r} l${-r},${r} l${-r},${-r} Z`;
  return `M${px(x - r)},${px(y)} a${r},${r} 0 1 0 ${2 * r},0 a${r},${r} 0 1 0 ${-2 * r},0 Z`;
}

function lineOf(points: readonly Point[]): string {
  return points.map(([x, y], n) => `${n === 0 ? "M" : "L"}${px(x)},${px(y)}`).join(" ");
}

function stepsOf(points: readonly Point[]): string {
  return points.map(([x, y], n) => (n === 0 ? `M${px(x)},${px(y)}` : `H${px(x)} V${px(y)}`)).join(" ");
}

/** `fromZero`: the axis of amounts begins at nothing; on a logarithmic one nothing is drawn at its foot. */
function scaleOf(
  axis: Axis,
  values: readonly number[],
  start: number,
  end: number,
  fromZero: boolean,
): Scale {
  const known = values.filter(Number.isFinite);
  const most = axis.most ?? Math.max(...known, 0);
  if (axis.scale === "log") {
    const positive = known.filter((value) => value > 0);
    const least = Math.max(Math.min(...positive, most || 1) * LOG_FOOT, (most || 1) * LOG_LEAST_SHARE);
    const [low, high] = [Math.log10(least), Math.log10(Math.max(most, least * 10))];
    const at = (value: number) =>
      start + ((Math.log10(Math.max(value, least)) - low) / (high - low)) * (end - start);
    return { at, ticks: logTicks(low, high) };
  }
  const low = fromZero ? 0 : Math.min(...known, most);
  const ticks = linearTicks(low, most > low ? most : low + 1);
  const high = fromZero ? Math.max(most, ticks.at(-1) ?? 1) || 1 : Math.max(most, low + 1e-9);
  return {
    at: (value) => start + ((value - low) / (high - low)) * (end - start),
    ticks: ticks.filter((tick) => tick <= high),
  };
}

function linearTicks(low: number, high: number): number[] {
  const raw = (high - low) / TICKS;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power;
  const ticks: number[] = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9; n++)
    ticks.push(Number((n * step).toPrecision(12)));
  return ticks;
}

function logTicks(low: number, high: number): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++)
    for (const factor of high - low < 2.5 ? [1, 3] : [1]) {
      const value = factor * 10 ** power;
      if (Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9) ticks.push(value);
    }
  return ticks;
}

function px(value: number): string {
  return value.toFixed(1);
}
