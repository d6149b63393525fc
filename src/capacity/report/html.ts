/**
 * A study as one HTML file that needs nothing else: what was asked, the numbers, and charts of how they came about.
 */

import { MEASURE_NAMES, type MeasureName, meaningOf } from "../measures.ts";
import { dayPlus, type Measure, percent, posterior, rates, wilson } from "../policy/evidence.ts";
import type { Level } from "../policy.ts";
import { BIN_MINUTES } from "../simulate.ts";
import type { Study, StudyResult, SweepPoint, TradeOff } from "../study.ts";
import { BINS_PER_DAY } from "../workload.ts";
import { type Chart, drawChart, drawTimeline, escapeHtml, NARROW, type Point } from "./chart.ts";
import { STYLE } from "./style.ts";
import { sayCount, sayMeasured } from "./words.ts";

const CHANGES_SHOWN_MAX = 60;
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
  "bad_before_pause",
  "false_freezes_per_1000",
  "oscillations",
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
${numbers(outcomes)}
${outcomes.map((outcome, n) => outcomeSections(outcome, days, outcomes.length > 1 ? POLICY_COLORS[n] : undefined, runs)).join("\n")}
${delaySection(outcomes)}
${study.tradeOff ? tradeOffSection(study.tradeOff) : ""}
${study.sweep ? sweepSection(study.sweep.parameter, study.sweep.points) : ""}
<footer>Made by <code>postrider caps simulate</code>. The policy and the windows are those of the engine; the workload is made up. The same seed gives the same report.</footer>
</main></body></html>
`;
}

function numbers(outcomes: readonly StudyResult[]): string {
  const told = MEASURE_NAMES.filter((name) => outcomes.some(({ measures }) => measures[name].worst !== null));
  const head = outcomes.map(({ name }) => `<th colspan="2">${escapeHtml(name)}</th>`).join("");
  const rows = told.map((name) => {
    const cells = outcomes.map(
      ({ measures }) =>
        `<td>${sayMeasured(name, measures[name].typical)}</td><td>${sayMeasured(name, measures[name].worst)}</td>`,
    );
    return `<tr><td>${escapeHtml(meaningOf(name))}<code>${name}</code></td>${cells.join("")}</tr>`;
  });
  const kinds = outcomes.map(() => "<th>typical</th><th>worst</th>").join("");
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
${drawChart(rateChart(outcome, "bounce"))}
${drawChart(rateChart(outcome, "complaint"))}
${levels(outcome, days)}</section>`;
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
      { name: "demand", color: "--purple", form: "line", points: daily(({ demand }) => demand) },
      {
        name: "waiting at midnight",
        color: "--orange",
        form: "line",
        dashed: true,
        points: daily(({ waiting }) => waiting),
      },
      { name: "daily cap", color: "--blue", form: "step", points: [[0, first], ...caps, [days, last]] },
    ],
  };
}

function spreadOfCaps({ band }: StudyResult): Chart {
  return {
    title: "Daily cap over all workspaces",
    x: { label: "day", says: String },
    y: { label: "recipients a day", scale: "log", says: sayCount },
    bands: [
      {
        name: "eight of ten",
        color: "--blue",
        points: band.map(({ low, high }, n) => [n, low, high] as const),
      },
    ],
    series: [
      {
        name: "median",
        color: "--blue",
        form: "step",
        points: band.map(({ middle }, n): Point => [n, middle]),
      },
    ],
    height: 240,
  };
}

/** The week's rate as the policy sees it: probably (posterior mean), and surely between (Wilson). */
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
  const highest = Math.max(...seen.map(({ mean, lower }) => Math.max(mean, lower)));
  const most = Math.max(policy.shrink[measure], policy.pause[measure], highest) * 1.15;
  const told = seen.flatMap((one, n) => (one.sample.of > 0 ? [{ ...one, n }] : []));
  return {
    title: `${measure === "bounce" ? "Bounces" : "Complaints"} over ${policy.window_days} days, with the interval of ${percent(policy.evidence.confidence)} and the limits`,
    x: { label: "day", most: shown.days.length, says: String },
    y: { label: "rate", most, says: percent },
    bands: [
      {
        name: "surely between",
        color: "--purple",
        points: told.map(({ n, lower, upper }) => [n + 0.5, lower, Math.min(upper, most)] as const),
      },
    ],
    limits,
    series: [
      {
        name: "probably",
        color: "--purple",
        form: "line",
        points: told.map(({ n, mean }): Point => [n + 0.5, mean]),
        labels: told.map(
          ({ n, mean, sample }) => `day ${n}: probably ${percent(mean)}, ${sample.events} of ${sample.of}`,
        ),
      },
    ],
    height: 230,
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
      color: LEVEL_COLORS[level],
      says: `${level}, ${sayCount(capDay)} a day, from day ${from.toFixed(1)}`,
    };
  });
  const legend = Object.entries(LEVEL_COLORS)
    .map(([level, color]) => `<span><i style="background:var(${color})"></i>${level}</span>`)
    .join("");
  const rows = shown.changes
    .slice(0, CHANGES_SHOWN_MAX)
    .map(
      ({ bin, level, capDay, capHour, reason }) =>
        `<tr><td>${sayTime(bin)}</td><td><i class="dot" style="background:var(${LEVEL_COLORS[level]})"></i>${level}</td><td>${sayCount(capDay)}</td><td>${sayCount(capHour)}</td><td class="reason">${escapeHtml(reason)}</td></tr>`,
    );
  const more = shown.changes.length - CHANGES_SHOWN_MAX;
  return `<figure><figcaption>Levels (seed ${shown.seed})</figcaption>${drawTimeline(spans, days)}<div class="legend">${legend}</div></figure>
<details${rows.length <= 12 ? " open" : ""}><summary>${shown.changes.length} changes, with their reasons</summary><table><thead><tr><th>when</th><th>level</th><th>a day</th><th>an hour</th><th>why</th></tr></thead><tbody>${rows.join("")}</tbody></table>${more > 0 ? `<p>And ${more} more.</p>` : ""}</details>`;
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
          dashed: kind === "automation" && outcomes.length > 1,
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

function tradeOffSection(curves: readonly TradeOff[]): string {
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
          points: at,
          labels,
        },
      ];
    }),
    height: 320,
  };
  return `<section><h2>Trade-off</h2><p>Growth and every rate of harm of each policy, made stricter and looser by a factor. Nearer to the lower left is better; a curve that lies wholly below the other belongs to the better policy.</p>${drawChart(chart)}</section>`;
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
          { name: "worst", color: "--orange", form: "curve", points: worst },
          { name: "typical", color: "--blue", form: "curve", points: typical },
        ],
        width: NARROW,
        height: 220,
      }),
    ];
  });
  return `<section><h2>Sensitivity to <code>${escapeHtml(parameter)}</code></h2><div class="multiples">${charts.join("")}</div></section>`;
}

function sayTime(bin: number): string {
  const minutes = (bin % BINS_PER_DAY) * BIN_MINUTES;
  const clock = `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
  return `day ${Math.floor(bin / BINS_PER_DAY)}, ${clock}`;
}
