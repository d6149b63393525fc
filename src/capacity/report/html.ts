/**
 * A study as one HTML file that needs nothing else: what was asked, the numbers, and charts of how they came
 * about.
 */

import { MEASURE_NAMES, type MeasureName, meaningOf } from "../measures.ts";
import { dayPlus, type Measure, percent, posterior, rates, wilson } from "../policy/evidence.ts";
import type { Level } from "../policy.ts";
import { BIN_MINUTES, FIRST_MS } from "../simulate.ts";
import type { Study, StudyResult, SweepPoint, TradeOff } from "../study.ts";
import { BINS_PER_DAY, type Scenario } from "../workload.ts";
import {
  type Chart,
  drawChart,
  drawTimeline,
  escapeHtml,
  NARROW,
  type Point,
  type Stretch,
} from "./chart.ts";
import { sayBin, tellRun } from "./story.ts";
import { STYLE } from "./style.ts";
import { summarise } from "./summary.ts";
import { sayCount, sayMeasured } from "./words.ts";

const CHANGES_SHOWN_MAX = 60;
const DAY_MS = 86_400_000;
const LEVEL_PATTERNS: Record<Level, string> = {
  normal: "plain",
  frozen: "level",
  shrunk: "rising",
  paused: "crossed",
  probing: "upright",
};
const DELAY_DASHES = ["solid", "dashed", "dotted", "dashdot"] as const;
const POLICY_COLORS = ["--blue", "--orange"];
const LEVEL_COLORS: Record<Level, string> = {
  normal: "--green",
  frozen: "--blue",
  shrunk: "--orange",
  paused: "--red",
  probing: "--purple",
};
const SWEPT: readonly MeasureName[] = [
  "days_to_target",
  "p99_delay_hours",
  "delayed_share",
  "bad_sent",
  "bad_before_freeze",
  "false_freezes_per_1000",
  "inbox_share",
  "listed_days",
  "sent",
];

export function htmlReport(study: Study): string {
  const { scenario, days, seed, runs, outcomes } = study;
  const names = outcomes.map(({ name, version }) => `${name} (${version})`).join(" against ");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sending caps: ${escapeHtml(scenario.name)}</title><style>${STYLE}</style></head><body><main>
<header><p class="kicker">Postrider · sending caps, simulated</p><h1>${escapeHtml(scenario.name)}</h1>
<p>${escapeHtml(scenario.value.description)}</p>
<p class="facts"><b>${escapeHtml(names)}</b> · plan ${scenario.value.plan} · ${days} days · ${runs} ${runs === 1 ? "workspace" : "workspaces"} from seed ${seed}</p></header>
<section class="answer">${summarise(study)
    .map((sentence) => `<p>${escapeHtml(sentence)}</p>`)
    .join("")}</section>
${numbers(outcomes)}
${outcomes.map((outcome, n) => outcomeSections(outcome, days, outcomes.length > 1 ? POLICY_COLORS[n] : undefined, runs)).join("\n")}
${delaySection(outcomes)}
${study.tradeOff ? tradeOffSection(study.tradeOff, scenario.value) : ""}
${study.sweep ? sweepSection(study.sweep.parameter, study.sweep.points) : ""}
<footer>Made by <code>postrider caps simulate</code>. The policy and the windows are those of the engine; the workload is made up. The same seed gives the same report.</footer>
</main></body></html>
`;
}

function numbers(outcomes: readonly StudyResult[]): string {
  const told = MEASURE_NAMES.filter((name) => outcomes.some(({ measures }) => measures[name].worst !== null));
  const head = outcomes.map(({ name }) => `<th colspan="3">${escapeHtml(name)}</th>`).join("");
  const rows = told.map((name) => {
    const cells = outcomes.map(
      ({ measures }) =>
        `<td>${sayMeasured(name, measures[name].typical)}</td><td>${sayMeasured(name, measures[name].low)} to ${sayMeasured(name, measures[name].high)}</td><td>${sayMeasured(name, measures[name].worst)}</td>`,
    );
    return `<tr><td>${escapeHtml(meaningOf(name))}<code>${name}</code></td>${cells.join("")}</tr>`;
  });
  const kinds = outcomes.map(() => "<th>typical</th><th>95%</th><th>worst</th>").join("");
  return `<section><h2>In numbers</h2><table class="numbers"><thead><tr><th></th>${head}</tr><tr><th></th>${kinds}</tr></thead><tbody>${rows.join("")}</tbody></table></section>`;
}

function outcomeSections(
  outcome: StudyResult,
  days: number,
  accent: string | undefined,
  runs: number,
): string {
  const title = `<h2>${accent ? `<i class="dot" style="background:var(${accent})"></i>` : ""}Under “${escapeHtml(outcome.name)}”</h2>`;
  return `<section>${title}
${drawChart(volumes(outcome, days))}
${runs > 1 ? drawChart(spreadOfCaps(outcome)) : ""}
${levels(outcome, days)}
${drawChart(evidenceChart(outcome, days))}
${outcome.closeUps.length > 0 ? closeUpCharts(outcome) : ""}
${drawChart(rateChart(outcome, "bounce"))}
${drawChart(rateChart(outcome, "complaint"))}
${drawChart(receiverChart(outcome, days))}
${reasons(outcome)}</section>`;
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
function evidenceChart({ shown, watched }: StudyResult, days: number): Chart {
  // a step is taken between two hours, and leaves nothing of the evidence
  const steps = (measure: Measure) =>
    shown.changes.flatMap(({ bin, harm }): Point[] =>
      harm?.measure === measure ? [[bin / BINS_PER_DAY, 1]] : [],
    );
  const of = (measure: Measure) =>
    [...watched.map((one): Point => [one.hour / 24, one[measure]]), ...steps(measure)].sort(
      (a, b) => a[0] - b[0],
    );
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

function levels({ shown }: StudyResult, days: number): string {
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
  return `<figure><figcaption>Levels (seed ${shown.seed})</figcaption>${drawTimeline(joined(spans), days)}</figure>`;
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

function reasons({ shown }: StudyResult): string {
  const rows = shown.changes
    .slice(0, CHANGES_SHOWN_MAX)
    .map(
      ({ bin, level, capDay, capHour, reason }) =>
        `<tr><td>${sayBin(bin)}</td><td><i class="dot" style="background:var(${LEVEL_COLORS[level]})"></i>${level}</td><td>${sayCount(capDay)}</td><td>${sayCount(capHour)}</td><td class="reason">${escapeHtml(reason)}</td></tr>`,
    );
  const more = shown.changes.length - CHANGES_SHOWN_MAX;
  const others = tellRun({ ...shown, changes: [] }).slice(1);
  const said = others.map((line) => `<p>${escapeHtml(line.trim())}</p>`).join("");
  return `${said}<details${rows.length <= 12 ? " open" : ""}><summary>${shown.changes.length} changes, with their reasons</summary><table><thead><tr><th>when</th><th>level</th><th>a day</th><th>an hour</th><th>why</th></tr></thead><tbody>${rows.join("")}</tbody></table>${more > 0 ? `<p>And ${more} more.</p>` : ""}</details>`;
}

function delaySection(outcomes: readonly StudyResult[]): string {
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
  if (series.length === 0) return "<section><h2>Waiting</h2><p>No good mail waited.</p></section>";
  const chart: Chart = {
    title: "Share of good mail that waits longer than so many hours",
    x: { label: "hours", scale: "log", says: (hours) => String(Number(hours.toPrecision(2))) },
    y: { label: "share", says: percent },
    series,
    height: 240,
  };
  return `<section><h2>Waiting</h2>${drawChart(chart)}</section>`;
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

function tradeOffSection(curves: readonly TradeOff[], { streams }: Scenario): string {
  const isBad = streams.some(({ bad }) => bad);
  const about = isBad
    ? "Bad mail is that of this scenario, good mail that of clean-start."
    : "Good mail is that of this scenario, bad mail that of bought-list with bounces of 10%.";
  const chart: Chart = {
    title: "What is let through against what is held back, each policy from strict to loose",
    x: { label: "bad mail sent", says: sayCount },
    y: { label: "good mail that waits over an hour", says: percent },
    series: curves.flatMap(({ name, points }, n) => {
      const color = POLICY_COLORS[n] as string;
      const at = points.map(({ badSent, delayedShare }): Point => [badSent, delayedShare]);
      const labels = points.map(
        ({ factor, badSent, delayedShare }) =>
          `${name} ×${factor}: ${sayCount(badSent)} bad sent, ${percent(delayedShare)} of good mail waits`,
      );
      return [
        {
          name: `${name} at ×${points[0]?.factor} to ×${points.at(-1)?.factor}`,
          color,
          form: "curve" as const,
          mark: n === 0 ? ("circle" as const) : ("square" as const),
          points: at,
          labels,
        },
      ];
    }),
    height: 320,
  };
  return `<section><h2>Trade-off</h2><p>Growth and every rate of harm of each policy, made stricter and looser by a factor. ${about} Nearer to the lower left is better; a curve that lies wholly below the other belongs to the better policy.</p>${drawChart(chart)}</section>`;
}

function sweepSection(parameter: string, points: readonly SweepPoint[]): string {
  const charts = SWEPT.flatMap((name): string[] => {
    const found = (which: "typical" | "worst") =>
      points.flatMap(({ value, measures }): Point[] => {
        const one = measures[name][which];
        return one !== null && Number.isFinite(one) ? [[value, one]] : [];
      });
    const [typical, worst] = [found("typical"), found("worst")];
    if (typical.length + worst.length === 0 || [...typical, ...worst].every(([, y]) => y === 0)) return [];
    return [
      drawChart({
        title: meaningOf(name),
        x: { label: parameter, says: (value) => String(Number(value.toPrecision(4))) },
        y: { label: "", says: (value) => sayMeasured(name, value) },
        series: [
          { name: "worst", color: "--orange", form: "curve", dash: "dashed", mark: "square", points: worst },
          { name: "typical", color: "--blue", form: "curve", points: typical },
        ],
        width: NARROW,
        height: 220,
      }),
    ];
  });
  return `<section><h2>Sensitivity to <code>${escapeHtml(parameter)}</code></h2><div class="multiples">${charts.join("")}</div></section>`;
}
