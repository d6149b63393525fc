/**
 * Charts of time, drawn by uPlot in the colours of the theme. What they show is also there as a table for
 * readers.
 */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { count, short } from "../words.ts";

const HEIGHT = 220;
const COLOURS = ["--accent", "--good", "--warn", "--bad", "--muted"];

export type Series = {
  name: string;
  values: readonly (number | null)[];
  /** One of the five colours of the style sheet. */
  colour: number;
  isDashed?: boolean;
  isStep?: boolean;
  isFilled?: boolean;
};

/** `days`: ISO dates, one for each value. */
export function Chart({
  title,
  days,
  series,
  unit = "",
  most,
}: {
  title: string;
  days: readonly string[];
  series: readonly Series[];
  unit?: string;
  /** Values above it leave the chart. */
  most?: number | undefined;
}) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let drawn: uPlot | null = null;
    const draw = () => {
      drawn?.destroy();
      drawn = new uPlot(optionsOf(element, series, most), dataOf(days, series), element);
    };
    draw();
    const resized = new ResizeObserver(() => drawn?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", draw);
    addEventListener("themechange", draw);
    return () => {
      resized.disconnect();
      system.removeEventListener("change", draw);
      removeEventListener("themechange", draw);
      drawn?.destroy();
    };
  }, [days, series, most]);
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        {series.map(({ name, colour, values, isDashed }) => (
          <span key={name} class="key">
            <i class={`c${colour} ${isDashed ? "dashed" : ""}`} />
            {name}
            {values.length > 0 && <b>{sayLast(values, unit)}</b>}
          </span>
        ))}
      </figcaption>
      <div ref={place} role="img" aria-label={inWords(title, days, series, unit)} />
    </figure>
  );
}

function sayLast(values: readonly (number | null)[], unit: string): string {
  const last = values.findLast((value) => value !== null);
  return last === undefined || last === null ? "" : `${count(last)}${unit}`;
}

function inWords(title: string, days: readonly string[], series: readonly Series[], unit: string): string {
  if (days.length === 0) return `${title}: no days yet`;
  const ends = series.map(({ name, values }) => `${name} ${sayLast(values, unit)}`).join(", ");
  return `${title} from ${days[0]} to ${days.at(-1)}; last: ${ends}`;
}

function dataOf(days: readonly string[], series: readonly Series[]): uPlot.AlignedData {
  return [
    days.map((day) => Date.parse(day) / 1000),
    ...series.map(({ values }) => [...values]),
  ] as uPlot.AlignedData;
}

function optionsOf(element: HTMLElement, series: readonly Series[], most = Infinity): uPlot.Options {
  const colour = (name: string) => resolved(element, name);
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_, __, highest) => [0, highest > 0 ? Math.min(most, highest * 1.1) : 1] } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    axes: [
      { ...axis, size: 30, values: (_, ticks) => ticks.map(sayDay) },
      { ...axis, size: 52, values: (_, ticks) => ticks.map(short) },
    ],
    series: [
      {},
      ...series.map(({ name, colour: n, isDashed, isStep, isFilled }): uPlot.Series => {
        const stroke = colour(COLOURS[n] as string);
        return {
          label: name,
          stroke,
          width: 2,
          points: { show: false },
          ...(isDashed && { dash: [6, 4] }),
          ...(isFilled && { fill: stroke.replace("rgb(", "rgba(").replace(")", ", 0.12)") }),
          ...(isStep && uPlot.paths.stepped && { paths: uPlot.paths.stepped({ align: 1 }) }),
        };
      }),
    ],
    plugins: [tooltip(series)],
  };
}

const dayNames = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

function sayDay(seconds: number): string {
  return dayNames.format(new Date(seconds * 1000));
}

/** A custom property as a colour: its text may be a light-dark(). */
function resolved(element: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function tooltip(series: readonly Series[]): uPlot.Plugin {
  const box = document.createElement("div");
  box.className = "chart-tip";
  return {
    hooks: {
      init: (chart) => void chart.over.append(box),
      setCursor: ({ cursor: { idx, left = -1 }, data, over }) => {
        const at = idx === null || idx === undefined ? undefined : data[0][idx];
        box.hidden = left < 0 || at === undefined;
        if (box.hidden || at === undefined) return;
        const day = new Date(at * 1000).toISOString().slice(0, 10);
        const lines = series.map(({ name, values }) => `${name}: ${values[idx as number] ?? "–"}`);
        box.textContent = [day, ...lines].join("\n");
        const isRight = left > over.clientWidth / 2;
        box.style.left = isRight ? "" : `${left + 12}px`;
        box.style.right = isRight ? `${over.clientWidth - left + 12}px` : "";
      },
    },
  };
}
