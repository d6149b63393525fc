/**
 * A study as one HTML file that needs nothing else: what was asked, the numbers, and charts of how they came
 * about.
 */

import { MEASURE_NAMES, type MeasureName, meaningOf } from "../measures.ts";
import { percent } from "../policy/evidence.ts";
import type { Study, StudyResult, SweepPoint, TradeOff } from "../study.ts";
import type { Scenario } from "../workload.ts";
import { type Chart, drawChart, escapeHtml, NARROW, type Point } from "./chart.ts";
import { delayFigure, figuresOf, LEVEL_COLORS, POLICY_COLORS } from "./figures.ts";
import { sayBin, tellRun } from "./story.ts";
import { STYLE } from "./style.ts";
import { summarise } from "./summary.ts";
import { sayCount, sayMeasured } from "./words.ts";

const CHANGES_SHOWN_MAX = 60;
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
<section><h2>Waiting</h2>${delayFigure(outcomes) ?? "<p>No good mail waited.</p>"}</section>
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
${figuresOf(outcome, days, runs).join("\n")}
${reasons(outcome)}</section>`;
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
