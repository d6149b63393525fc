/** Charts of time. What they show is also there in words for readers. */
import { useEffect, useRef, useState } from "preact/hooks";
import { count, dayName } from "../words.ts";
import type { Series } from "./plot.ts";

export type { Series };

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
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let isGone = false;
    let erase = () => {};
    // a quarter of the console's code, which most screens do without
    import("./plot.ts").then(
      ({ plot }) => {
        if (isGone) return;
        setMissing(false);
        erase = plot(element, days, series, most);
      },
      () => setMissing(true),
    );
    return () => {
      isGone = true;
      erase();
    };
  }, [days, series, most]);
  // the last value of each stands above the chart, where it would be taken for a sum
  const ends = new Set(series.map(({ values }) => lastOf(values)).filter((at) => at !== -1));
  const [end = -1] = ends;
  const dayOf = (at: number) => dayName(new Date(days[at] ?? 0));
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        {ends.size === 1 && <span>{dayOf(end)}:</span>}
        {series.map(({ name, colour, values, isDashed }) => (
          <span key={name} class="key">
            <i class={`c${colour} ${isDashed ? "dashed" : ""}`} />
            {name}
            {values.length > 0 && <b>{sayLast(values, unit)}</b>}
            {ends.size > 1 && lastOf(values) !== -1 && `on ${dayOf(lastOf(values))}`}
          </span>
        ))}
      </figcaption>
      {isMissing && <p class="muted">The chart could not be loaded. Reload the page.</p>}
      <div ref={place} class="plot" role="img" aria-label={inWords(title, days, series, unit)} />
    </figure>
  );
}

/** Where the last value is; -1: there is none. */
function lastOf(values: readonly (number | null)[]): number {
  return values.findLastIndex((value) => value !== null);
}

function sayLast(values: readonly (number | null)[], unit: string): string {
  const last = values[lastOf(values)];
  return last === undefined || last === null ? "" : `${count(last)}${unit}`;
}

function inWords(title: string, days: readonly string[], series: readonly Series[], unit: string): string {
  if (days.length === 0) return `${title}: no days yet`;
  const ends = series.map(({ name, values }) => `${name} ${sayLast(values, unit)}`).join(", ");
  return `${title} from ${days[0]} to ${days.at(-1)}; last: ${ends}`;
}
