/**
 * The report: one HTML file that opens from disk and loads nothing. First what was found, then the charts,
 * then every figure, then what was configured.
 */
import { changes, circumstances, percent, summary } from "../compare.ts";
import { FLOORS_OF_DELIVERY } from "../ratios.ts";
import { type Results, type Row, rounded, withUnit } from "../results.ts";
import type { Scenario } from "../scenario.ts";
import {
  type Bar,
  bars,
  type Drawing,
  escaped,
  type Line,
  linear,
  lines,
  logarithmic,
  nines,
  quantileAxis,
  svg,
} from "./charts.ts";
import { STYLE } from "./style.ts";

type Part = { kind: Bar["kind"]; scenario: string; name: string; label: string; emails?: number };

export const DELIVERED: readonly Part[] = [
  { kind: "ours", scenario: "deliver", name: "e-mails", label: "Postrider" },
  { kind: "ours", scenario: "signed", name: "e-mails", label: "Postrider, each mail signed" },
  { kind: "floor", scenario: "ratios", name: "floors of delivery in a row", label: "bare stages in a row" },
  { kind: "peer", scenario: "peers", name: "usual: end to end", label: "the usual stack" },
  { kind: "peer", scenario: "peers", name: "Postfix: end to end", label: "Postfix" },
  { kind: "peer", scenario: "peers", name: "Haraka: end to end", label: "Haraka" },
];
const ACCEPTED: readonly Part[] = [
  { kind: "ours", scenario: "accept", name: "e-mails in batches", label: "Postrider, accepting only" },
  { kind: "ours", scenario: "deliver", name: "accepted meanwhile", label: "Postrider, while delivering" },
  { kind: "floor", scenario: "floor", name: "rows by unnest", label: "bare inserts" },
  { kind: "peer", scenario: "peers", name: "usual: accepted", label: "the usual stack" },
  { kind: "peer", scenario: "peers", name: "Postfix: accepted", label: "Postfix" },
  { kind: "peer", scenario: "peers", name: "Haraka: accepted", label: "Haraka" },
];
const COST: readonly Part[] = [
  { kind: "ours", scenario: "deliver", name: "CPU per thousand e-mails", label: "Postrider" },
  { kind: "peer", scenario: "peers", name: "usual: CPU per thousand e-mails", label: "the usual stack" },
  { kind: "peer", scenario: "peers", name: "Postfix: CPU per thousand e-mails", label: "Postfix" },
  { kind: "peer", scenario: "peers", name: "Haraka: CPU per thousand e-mails", label: "Haraka" },
];
const FLOORS: readonly Part[] = FLOORS_OF_DELIVERY.map(({ name, emails }) => ({
  kind: "floor",
  scenario: "floor",
  name,
  label: emails === 1 ? name : `${name}, x ${emails}`,
  emails,
}));
const TILES_MAX = 6;

export function page(results: Results, scenarios: readonly Scenario[], earlier: Results | null): string {
  const { machine, versions, options, rows } = results;
  const run = options as { seconds: number; runs: number; scenarios: string[] };
  const chosen = scenarios.filter(({ name }) => run.scenarios.includes(name));
  const missing = [...results.skipped, ...results.failed.map((one) => `failed: ${one}`)];
  const body = [
    `<header><h1>Postrider bench</h1><p>${escaped(String(machine.cpu))}, ${machine.cores} cores, ${machine.memory_gb} GB · commit ${escaped(String(machine.commit))} · ${escaped(String(machine.at).slice(0, 16).replace("T", " "))} UTC · ${plural(run.runs, "run")} of ${run.seconds} s for each load</p></header>`,
    tiles(rows),
    earlier ? comparison(earlier, results) : "",
    throughput(rows),
    section("Latency", chosen, (name) => latencyOf(results, name)),
    section("Over time", chosen, (name) => coursesOf(results, name, "rate")),
    section("Memory", chosen, (name) => coursesOf(results, name, "memory")),
    `<section><h2>Every figure</h2>${chosen.map(({ name, does }) => figuresOf(rows, name, does)).join("")}${figuresOf(rows, "ratios", "ours beside floors and peers of the same run")}</section>`,
    missing.length > 0
      ? `<section><h2>Not measured</h2><ul>${missing.map((one) => `<li>${escaped(one)}</li>`).join("")}</ul></section>`
      : "",
    `<section><h2>Conditions</h2>${facts({ ...machine, ...versions, ...choices(options) })}${results.exhibits
      .map(
        ({ name, text }) =>
          `<details><summary>${escaped(name)}</summary><pre>${escaped(text)}</pre></details>`,
      )
      .join("")}</section>`,
  ];
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Postrider bench, ${escaped(String(machine.commit))}</title><style>${STYLE}</style></head>
<body>${body.filter(Boolean).join("\n")}</body></html>
`;
}

function throughput(rows: readonly Row[]): string {
  const drawn = [
    barsFigure("From the request to the sink", rows, DELIVERED),
    barsFigure("Accepted and committed", rows, ACCEPTED),
    barsFigure("What the stages of delivery allow, each alone, in e-mails", rows, FLOORS),
    barsFigure("CPU for a thousand e-mails, all processes, the sink included: less is better", rows, COST),
  ].join("");
  return drawn === ""
    ? ""
    : `<section><h2>Throughput</h2><p>Everything on one machine, the same mail to the same sink, each committed before it is answered. Bars are medians, whiskers reach from the least to the most of all runs.</p>${drawn}</section>`;
}

/** The figures that somebody expects something of come first. */
function tiles(rows: readonly Row[]): string {
  const ratios = rows.filter(({ scenario }) => scenario === "ratios");
  const shown = [
    ...rows.filter(({ scenario, name }) => scenario === "deliver" && name === "e-mails"),
    ...ratios.filter(({ unit }) => unit === "x"),
    ...rows.filter(({ scenario, note }) => scenario !== "ratios" && scenario !== "deliver" && note),
  ].slice(0, TILES_MAX);
  if (shown.length === 0) return "";
  const tile = ({ scenario, name, median, unit, note, least, most }: Row) =>
    `<div class="tile"><b>${escaped(withUnit(median, unit))}</b><span>${escaped(scenario === "ratios" ? name : `${scenario}: ${name}`)}</span><small>${[...(most > least ? [`${rounded(least)} to ${rounded(most)}`] : []), ...(note ? [`wanted ${escaped(note)}`] : [])].join(", ")}</small></div>`;
  return `<div class="tiles">${shown.map(tile).join("")}</div>`;
}

function comparison(earlier: Results, results: Results): string {
  const clear = changes(earlier, results).filter(({ verdict }) => verdict !== "no clear change");
  const warnings = circumstances(earlier, results).map(
    (text) => `<p class="warning">Not the same ${escaped(text)}</p>`,
  );
  const rows = clear.map(
    ({ row, before, part, verdict }) =>
      `<tr class="${verdict}"><td>${escaped(row.scenario)}</td><td class="name">${escaped(row.name)}</td><td class="n">${withUnit(before.median, row.unit)}</td><td class="n">${withUnit(row.median, row.unit)}</td><td class="n">${percent(part)}</td><td>${verdict}</td></tr>`,
  );
  const head =
    "<tr><th>scenario</th><th>figure</th><th class=n>before</th><th class=n>now</th><th class=n>change</th><th></th></tr>";
  const found = clear.length === 0 ? "" : tableOf(head, rows);
  return `<section><h2>Against commit ${escaped(String(earlier.machine.commit))}</h2>${warnings.join("")}<p>${escaped(summary(earlier, results))}</p>${found}</section>`;
}

function barsFigure(caption: string, rows: readonly Row[], parts: readonly Part[]): string {
  const drawing = barsOf(rows, parts);
  return drawing === null ? "" : figureOf(caption, svg(drawing.height, drawing.content));
}

/** The figures of these parts that were measured; null when none was. */
export function barsOf(rows: readonly Row[], parts: readonly Part[]): Drawing | null {
  const found = parts.flatMap(({ kind, scenario, name, label, emails = 1 }) => {
    const row = rows.find((one) => one.scenario === scenario && one.name === name);
    if (!row) return [];
    const [value, least, most] = [row.median * emails, row.least * emails, row.most * emails];
    return [{ unit: row.unit, bar: { label, kind, value, least, most } }];
  });
  return found.length === 0
    ? null
    : bars(
        found.map(({ bar }) => bar),
        found[0]?.unit ?? "",
      );
}

/** A logarithmic axis: what is waited at worst is often a hundred times the usual. */
function latencyOf({ distributions }: Results, scenario: string): string {
  const own = distributions.filter((one) => one.scenario === scenario && one.points.some(([, ms]) => ms > 0));
  if (own.length === 0) return "";
  const all = own.flatMap(({ points }) => points.map(([, ms]) => ms)).filter((ms) => ms > 0);
  const drawn = own.map(
    ({ name, points }): Line => ({ label: name, points: points.map(([part, ms]) => [nines(part), ms]) }),
  );
  return lines(drawn, quantileAxis(), logarithmic(Math.min(...all), Math.max(...all), " ms"));
}

function coursesOf({ courses }: Results, scenario: string, about: "rate" | "memory"): string {
  const own = courses.filter(
    (one) => one.scenario === scenario && one.about === about && one.points.length > 1,
  );
  if (own.length === 0) return "";
  const most = Math.max(...own.flatMap(({ points }) => points.map(([, value]) => value)), 1);
  const last = Math.max(...own.flatMap(({ points }) => points.map(([second]) => second)));
  const drawn = own.map(({ name, points }): Line => ({ label: name, points }));
  const seconds = linear(last, " s");
  return lines(
    drawn,
    { ...seconds, most: last, ticks: seconds.ticks.filter((tick) => tick.at <= last) },
    linear(most, about === "rate" ? "/s" : " MB"),
    about === "rate",
  );
}

function section(title: string, chosen: readonly Scenario[], drawn: (scenario: string) => string): string {
  const found = chosen.map(({ name, does }) => figureOf(`${name}: ${does}`, drawn(name))).join("");
  return found === "" ? "" : `<section><h2>${title}</h2>${found}</section>`;
}

function figureOf(caption: string, drawn: string): string {
  return drawn === "" ? "" : `<figure><figcaption>${escaped(caption)}</figcaption>${drawn}</figure>`;
}

function figuresOf(rows: readonly Row[], scenario: string, does: string): string {
  const own = rows.filter((row) => row.scenario === scenario);
  if (own.length === 0) return "";
  const cells = own.map(
    ({ name, median, least, most, unit, note, values }) =>
      `<tr><td class="name">${escaped(name)}</td><td class="n">${escaped(withUnit(median, unit))}</td><td class="n">${rounded(least)}</td><td class="n">${rounded(most)}</td><td class="runs">${values.length > 1 ? values.map(rounded).join(" ") : ""}</td><td>${escaped(note ?? "")}</td></tr>`,
  );
  const head =
    "<tr><th>figure</th><th class=n>median</th><th class=n>least</th><th class=n>most</th><th>each run</th><th>wanted</th></tr>";
  return `<h3>${escaped(scenario)} <small>${escaped(does)}</small></h3>${tableOf(head, cells)}`;
}

/** Wider than a phone: it scrolls by itself, and not the page. */
function tableOf(head: string, rows: readonly string[]): string {
  return `<div class="wide"><table>${head}${rows.join("")}</table></div>`;
}

function facts(all: Record<string, unknown>): string {
  const cells = Object.entries(all).map(
    ([name, value]) => `<dt>${escaped(name)}</dt><dd>${escaped(String(value))}</dd>`,
  );
  return `<dl>${cells.join("")}</dl>`;
}

function choices(options: object): Record<string, string> {
  const said = Object.entries(options).filter(([, value]) => value !== undefined && value !== false);
  return Object.fromEntries(said.map(([name, value]) => [name, [value].flat().join(", ")]));
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
