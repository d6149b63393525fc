/** The charts of a study, for the report and for the console: what each shows, from which numbers. */
import type { Measure } from "../policy/evidence.ts";
import { dayPlus, percent, posterior, rates, wilson } from "../policy/evidence.ts";
import type { Level } from "../policy.ts";
import { BIN_MINUTES, FIRST_MS } from "../simulate.ts";
import type { StudyResult } from "../study.ts";
import { BINS_PER_DAY } from "../workload.ts";
import { type Chart, drawChart, drawTimeline, NARROW, type Point, type Stretch, WIDE } from "./chart.ts";
import { sayBin } from "./story.ts";
import { sayCount } from "./words.ts";

const DAY_MS = 86_400_000;
const LEVEL_PATTERNS: Record<Level, string> = {
  normal: "plain",
  frozen: "level",
  shrunk: "rising",
  paused: "crossed",
  probing: "upright",
};
const DELAY_DASHES = ["solid", "dashed", "dotted", "dashdot"] as const;
export const POLICY_COLORS = ["--blue", "--orange"];
export const LEVEL_COLORS: Record<Level, string> = {
  normal: "--green",
  frozen: "--blue",
  shrunk: "--orange",
  paused: "--red",
  probing: "--purple",
};

/** What became of the first workspace, and of all of them, under one policy; as HTML. */
export function figuresOf(outcome: StudyResult, days: number, runs: number, width = WIDE): string[] {
  const draw = (chart: Chart) => drawChart({ ...chart, width });
  return [
    draw(volumes(outcome, days)),
    ...(runs > 1 ? [draw(spreadOfCaps(outcome))] : []),
    levels(outcome, days, width),
    draw(evidenceChart(outcome, days, width)),
    ...(outcome.closeUps.length > 0 ? [closeUpCharts(outcome)] : []),
    draw(rateChart(outcome, "bounce")),
    draw(rateChart(outcome, "complaint")),
    draw(receiverChart(outcome, days)),
  ];
}

/** How long good mail waits, under all policies; null: none waited. */
export function delayFigure(outcomes: readonly StudyResult[], width = WIDE): string | null {
  const chart = delayChart(outcomes);
  return chart && drawChart({ ...chart, width });
}

function volumes({ shown }: StudyResult, days: number): Chart {
  const daily = (of: (day: (typeof shown.days)[number]) => number) =>
    shown.days.map((day, n): Point => [n + 0.5, of(day)]);
  const caps = shown.changes.map(({ bin, capDay }): Point => [bin / BINS_PER_DAY, capDay]);
  const first = shown.days[0]?.cap ?? 0;
  const last = caps.at(-1)?.[1] ?? first;
  const peak = Math.max(...shown.days.map(({ demand, cap, waiting }) => Math.max(demand, cap, waiting)));
  const least = Math.min(...shown.days.map(({ cap }) => cap));
  return {
    title: `Cap, demand and sent, by day (seed ${shown.seed})`,
    x: { label: "day", most: days, says: String },
    y: { label: "recipients", scale: peak > 60 * least ? "log" : "linear", says: sayCount },
    series: [
      { name: "sent", color: "--green", form: "area", points: daily(({ used }) => used) },
      {
        name: "demand",
        color: "--purple",
        form: "line",
        dash: "dotted",
        points: daily(({ demand }) => demand),
      },
      {
        name: "waiting at midnight",
        color: "--orange",
        form: "line",
        dash: "dashed",
        points: daily(({ waiting }) => waiting),
      },
      { name: "daily cap", color: "--blue", form: "step", points: [[0, first], ...caps, [days, last]] },
    ],
  };
}

function spreadOfCaps({ band, waitingBand }: StudyResult): Chart {
  return {
    title: "Daily cap and waiting mail over all workspaces",
    x: { label: "day", says: String },
    y: { label: "recipients a day", scale: "log", says: sayCount },
    bands: [
      {
        name: "cap, eight of ten workspaces",
        color: "--blue",
        points: band.map(({ low, high }, n) => [n, low, high] as const),
      },
      {
        name: "waiting, eight of ten workspaces",
        color: "--orange",
        points: waitingBand.map(({ low, high }, n) => [n, low, high] as const),
      },
    ],
    series: [
      {
        name: "cap, median",
        color: "--blue",
        form: "step",
        points: band.map(({ middle }, n): Point => [n, middle]),
      },
      {
        name: "waiting, median",
        color: "--orange",
        form: "line",
        dash: "dashed",
        points: waitingBand.map(({ middle }, n): Point => [n, middle]),
      },
    ],
    height: 240,
  };
}

/** How far evidence has come: what decides, beside the line at which it does. */
function evidenceChart({ shown, watched }: StudyResult, days: number, width: number): Chart {
  // a step is taken between two hours, and leaves nothing of the evidence
  const steps = (measure: Measure) =>
    shown.changes.flatMap(({ bin, harm }): Point[] =>
      harm?.measure === measure ? [[bin / BINS_PER_DAY, 1]] : [],
    );
  const of = (measure: Measure) =>
    [...highest(watched, measure, width), ...steps(measure)].sort((a, b) => a[0] - b[0]);
  return {
    title: `Evidence for a step, by the hour (seed ${shown.seed}): it is taken at 100%`,
    x: { label: "day", most: days, says: (day) => String(Number(day.toFixed(1))) },
    y: { label: "of what a step needs", most: 1.1, says: (share) => `${Math.round(share * 100)}%` },
    limits: [{ name: "step", color: "--red", at: 1 }],
    series: [
      { name: "bounces", color: "--blue", form: "line", points: of("bounce") },
      { name: "complaints", color: "--orange", form: "line", dash: "dashed", points: of("complaint") },
    ],
    height: 200,
  };
}

/** More points than pixels are not seen: of hours that fall together the one with most evidence is drawn. */
function highest(watched: StudyResult["watched"], measure: Measure, most: number): Point[] {
  const together = Math.ceil(watched.length / most);
  const points: Point[] = [];
  for (let n = 0; n < watched.length; n += together) {
    const some = watched.slice(n, n + together);
    const one = some.reduce((high, next) => (next[measure] > high[measure] ? next : high));
    points.push([one.hour / 24, one[measure]]);
  }
  return points;
}

/** The first pauses, five minutes by five minutes: what had gone when it was stopped. */
function closeUpCharts({ closeUps, shown }: StudyResult): string {
  const charts = closeUps.map(({ bin, bins }) => {
    const hours = (at: number) => ((at - bin) * BIN_MINUTES) / 60;
    return drawChart({
      title: `Paused on ${sayBin(bin)}`,
      x: { label: "hours from the pause", says: (hour) => String(Number(hour.toFixed(1))) },
      y: { label: "recipients in five minutes", says: sayCount },
      series: [
        {
          name: "sent",
          color: "--green",
          form: "area",
          points: bins.map((one): Point => [hours(one.bin), one.sent]),
        },
        {
          name: "bounced at once",
          color: "--red",
          form: "line",
          dash: "dashed",
          points: bins.map((one): Point => [hours(one.bin), one.bounced]),
        },
      ],
      moments: [{ at: 0, label: "paused" }],
      width: NARROW,
      height: 220,
    });
  });
  const pauses = shown.changes.filter(({ level }) => level === "paused").length;
  const more = pauses > closeUps.length ? `<p>Pauses not drawn: ${pauses - closeUps.length}.</p>` : "";
  return `<div class="multiples">${charts.join("")}</div>${more}`;
}

/** The week's rate as growth sees it, and the windows that steps were taken on beside their limits. */
function rateChart({ shown, policy }: StudyResult, measure: Measure): Chart {
  const seen = shown.days.map((day, n) => {
    const known = shown.days.slice(0, n + 1);
    const sample = rates(known, dayPlus(day.day, 1 - policy.window_days), day.day)[measure];
    return {
      sample,
      ...wilson(sample, policy.evidence.confidence),
      mean: posterior(policy, measure, sample),
    };
  });
  const limits = (["healthy", "freeze", "pause", "shrink"] as const).map((name) => ({
    name: `${name} ${percent(policy[name][measure])}`,
    color: { healthy: "--green", freeze: "--blue", pause: "--red", shrink: "--orange" }[name],
    at: policy[name][measure],
  }));
  const told = seen.flatMap((one, n) => (one.sample.of > 0 ? [{ ...one, n }] : []));
  const least = policy.healthy[measure] / 20;
  return {
    title: `${measure === "bounce" ? "Bounces" : "Complaints"}: the windows that decided, and the rate over ${policy.window_days} days with its interval of ${percent(policy.evidence.confidence)}`,
    x: { label: "day", most: shown.days.length, says: String },
    y: { label: "rate", scale: "log", says: percent },
    bands: [
      {
        name: `interval over ${policy.window_days} days`,
        color: "--purple",
        points: told.map(({ n, lower, upper }) => [n + 0.5, Math.max(least, lower), upper] as const),
      },
    ],
    limits,
    stretches: stretchesOf(shown, measure),
    series: [
      {
        name: `probably, over ${policy.window_days} days`,
        color: "--purple",
        form: "line",
        points: told.map(({ n, mean }): Point => [n + 0.5, mean]),
        labels: told.map(
          ({ n, mean, sample }) => `day ${n}: probably ${percent(mean)}, ${sample.events} of ${sample.of}`,
        ),
      },
    ],
    height: 270,
  };
}

function stretchesOf({ changes }: StudyResult["shown"], measure: Measure): Stretch[] {
  return changes.flatMap(({ bin, harm, level }): Stretch[] => {
    if (harm?.measure !== measure) return [];
    const { events, of } = harm.sample;
    return [
      {
        from: (harm.since - FIRST_MS) / DAY_MS,
        to: bin / BINS_PER_DAY,
        value: events / of,
        low: harm.atLeast,
        label: `${sayBin(bin)}, ${level}: ${events} of ${of}, surely over ${percent(harm.atLeast)}`,
      },
    ];
  });
}

function receiverChart({ shown }: StudyResult, days: number): Chart {
  const daily = (of: (day: (typeof shown.days)[number]) => number) =>
    shown.days.map((day, n): Point => [n + 0.5, of(day)]);
  return {
    title: `Receivers (seed ${shown.seed}): reputation of the address, and mail held back`,
    x: { label: "day", most: days, says: String },
    y: { label: "share", most: 1, says: percent },
    series: [
      { name: "reputation", color: "--green", form: "line", points: daily(({ reputation }) => reputation) },
      {
        name: "throttled",
        color: "--orange",
        form: "line",
        dash: "dashed",
        points: daily(({ throttled, used }) => (used > 0 ? Math.min(1, throttled / used) : 0)),
      },
      {
        name: "refused for the address",
        color: "--red",
        form: "line",
        dash: "dotted",
        points: daily(({ blocked, attempted }) => (attempted > 0 ? Math.min(1, blocked / attempted) : 0)),
      },
    ],
    height: 200,
  };
}

function levels({ shown }: StudyResult, days: number, width: number): string {
  const turns = [{ bin: 0, level: "normal" as Level, capDay: shown.days[0]?.cap ?? 0 }, ...shown.changes];
  const spans = turns.map(({ bin, level, capDay }, n) => {
    const from = bin / BINS_PER_DAY;
    const to = (turns[n + 1]?.bin ?? days * BINS_PER_DAY) / BINS_PER_DAY;
    return {
      from,
      to,
      name: level,
      color: LEVEL_COLORS[level],
      pattern: LEVEL_PATTERNS[level],
      says: `${level}, ${sayCount(capDay)} a day, from ${sayBin(bin)}`,
    };
  });
  return `<figure><figcaption>Levels (seed ${shown.seed})</figcaption>${drawTimeline(joined(spans), days, width)}</figure>`;
}

/** Spans of the same level next to each other are one. */
function joined<T extends { from: number; to: number; name: string }>(spans: readonly T[]): T[] {
  const kept: T[] = [];
  for (const span of spans) {
    const last = kept.at(-1);
    if (last?.name === span.name) kept[kept.length - 1] = { ...last, to: span.to };
    else kept.push(span);
  }
  return kept;
}

function delayChart(outcomes: readonly StudyResult[]): Chart | null {
  const series = outcomes.flatMap(({ name, delays }, n) =>
    (["transactional", "automation"] as const).flatMap((kind) => {
      const points = stillWaiting(delays[kind]);
      if (points.length < 2) return [];
      const color =
        outcomes.length > 1 ? (POLICY_COLORS[n] as string) : kind === "automation" ? "--orange" : "--blue";
      const label = outcomes.length > 1 ? `${kind}, ${name}` : kind;
      return [
        {
          name: label,
          color,
          form: "line" as const,
          dash: DELAY_DASHES[n * 2 + (kind === "automation" ? 1 : 0)] ?? ("solid" as const),
          points,
        },
      ];
    }),
  );
  if (series.length === 0) return null;
  return {
    title: "Share of good mail that waits longer than so many hours",
    x: { label: "hours", scale: "log", says: (hours) => String(Number(hours.toPrecision(2))) },
    y: { label: "share", says: percent },
    series,
    height: 240,
  };
}

/** Few points are enough to see the curve by: as many as change it by a pixel. */
function stillWaiting(delays: readonly number[]): Point[] {
  const total = delays.reduce((sum, count) => sum + count, 0);
  const points: Point[] = [];
  let left = total;
  let drawn = 1;
  for (let bins = 0; bins < delays.length; bins++) {
    left -= delays[bins] ?? 0;
    const share = left / total;
    if (drawn - share < 0.003 && bins !== delays.length - 1 && bins > 0) continue;
    points.push([((bins + 1) * BIN_MINUTES) / 60, Math.max(0, share)]);
    drawn = share;
  }
  return points;
}
