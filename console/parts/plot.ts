/** Draws charts with uPlot, in the colours of the theme. */
import uPlot from "uplot";
import { count, dayName, short } from "../words.ts";

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

/** `days`: ISO dates, one for each value; values above `most` leave the chart. Hands back how to erase it. */
export function plot(
  element: HTMLElement,
  days: readonly string[],
  series: readonly Series[],
  most?: number,
): () => void {
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

function sayDay(seconds: number): string {
  return dayName(new Date(seconds * 1000));
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

function said(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : count(value);
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
        const lines = series.map(({ name, values }) => `${name}: ${said(values[idx as number])}`);
        box.textContent = [day, ...lines].join("\n");
        const isRight = left > over.clientWidth / 2;
        box.style.left = isRight ? "" : `${left + 12}px`;
        box.style.right = isRight ? `${over.clientWidth - left + 12}px` : "";
      },
    },
  };
}
