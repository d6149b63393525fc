/** The answer of a study in sentences, for somebody who reads nothing else. */
import {
  type Difference,
  type Differences,
  isSure,
  type MeasureName,
  type Measures,
  PAIRS_MIN,
} from "../measures.ts";
import type { Policy } from "../policy.ts";
import { DEFAULT_RECEIVERS } from "../receivers.ts";
import type { Study, StudyResult, SweepPoint } from "../study.ts";
import type { Scenario } from "../workload.ts";
import { sayCount, sayMeasured, sayPolicy } from "./words.ts";

export function summarise(study: Study): string[] {
  const { outcomes, scenario, runs, days, sweep } = study;
  const first = outcomes[0] as StudyResult;
  const second = outcomes[1];
  return [
    ...(second ? [ofTwo(first, second, runs)] : []),
    ...(sweep ? [ofSweep(sweep.parameter, sweep.points, runs)] : []),
    ...ofOne(first, scenario.value, runs, days, outcomes.length > 1),
    ...ofMove(first, scenario.value),
  ];
}

function ofOne(
  { name, measures }: StudyResult,
  scenario: Scenario,
  runs: number,
  days: number,
  isNamed: boolean,
): string[] {
  const policy = isNamed ? name : sayPolicy(name);
  const under = `Under ${policy}${policy.includes(",") ? "," : ""}`;
  const hasBad = scenario.streams.some(({ bad }) => bad);
  const sentences: string[] = [];
  if (scenario.target !== undefined) sentences.push(ofTarget(under, scenario.target, measures, runs, days));
  if (hasBad) sentences.push(...ofBad(under, measures));
  else sentences.push(ofGood(under, measures, runs, days));
  sentences.push(ofGoodMail(measures));
  if (over(measures, "refused"))
    sentences.push(
      `The quota refuses ${said(measures, "refused")} recipients: the plan is too small, not the cap.`,
    );
  return sentences;
}

function ofTarget(under: string, target: number, measures: Measures, runs: number, days: number): string {
  const { typical, low, high, worst } = measures.days_to_target;
  const who = runs === 1 ? "the workspace" : "a typical workspace";
  if (!isReached(typical)) return `${under} ${who} does not reach ${sayCount(target)} a day in ${days} days.`;
  const onDay = (day: number | null) => `on day ${sayMeasured("days_to_target", day)}`;
  const last = isReached(worst) ? onDay(worst) : `not in ${days} days`;
  const slowest = runs === 1 ? "" : `; the slowest of ${sayCount(runs)} ${last}`;
  const range = between("days_to_target", low, high);
  return `${under} ${who} may send ${sayCount(target)} a day ${onDay(typical)}${range}${slowest}.`;
}

function isReached(day: number | null): boolean {
  return day !== null && Number.isFinite(day);
}

function ofBad(under: string, measures: Measures): string[] {
  const { bad_before_freeze: first, bad_sent: all } = measures;
  const waits = over(measures, "bad_waiting_end")
    ? `; ${withRange(measures, "bad_waiting_end")} of it still wait at the end`
    : "";
  return [
    `${under} ${said(measures, "bad_before_freeze")} bad e-mails${between("bad_before_freeze", first.low, first.high)} go out before the first step, ${sayMeasured("bad_before_freeze", first.worst)} at worst; ${said(measures, "bad_sent")} in all, ${sayMeasured("bad_sent", all.worst)} at worst, of which ${said(measures, "bad_bounced")} bounce${waits}.`,
  ];
}

function ofGood(
  under: string,
  { false_freezes_per_1000: held, over_limit_per_1000: over }: Measures,
  runs: number,
  days: number,
): string {
  const bad = Math.round(((over.typical ?? 0) * runs) / 1_000);
  const isOver = `${sayCount(bad)} of ${sayCount(runs)} ${bad === 1 ? "sends" : "send"} mail over a limit`;
  if (held.typical === null) return `${under} no workspace is good: ${isOver}.`;
  if (runs === 1)
    return `${under} the workspace is ${held.typical > 0 ? "" : "not "}held back in ${days} days; more \`--runs\` say how often.`;
  const [low, high] = [held.low, held.high].map((one) => sayMeasured("false_freezes_per_1000", one));
  return `${under} ${sayMeasured("false_freezes_per_1000", held.typical)} of 1,000 such workspaces are held back in ${days} days (${low} to ${high} with 95% confidence, from ${sayCount(runs - bad)})${bad > 0 ? `; ${isOver}, not counted here` : ""}.`;
}

function ofGoodMail(measures: Measures): string {
  if (measures.inbox_share.typical === null) return "No good mail is sent in these days.";
  const waits = measures.delayed_share.typical ?? 0;
  const blocked = over(measures, "listed_days")
    ? `, and its address is on a blocklist for ${said(measures, "listed_days")} days`
    : "";
  const waiting =
    waits < 0.0005
      ? "no good mail waits over an hour"
      : `${said(measures, "delayed_share")} of good mail waits over an hour`;
  return `Typically ${waiting}, and ${said(measures, "inbox_share")} of it reaches an inbox${blocked}.`;
}

const WEEK_DAYS = 7;

/**
 * Who moves here from another sender: how much stays there and how long, how the caps rise, and what makes it
 * quicker.
 */
function ofMove({ measures, band, policy }: StudyResult, scenario: Scenario): string[] {
  if (!over(measures, "elsewhere")) return [];
  const wanted = scenario.streams.reduce((sum, { per_day_max = 0 }) => sum + per_day_max, 0);
  const known = scenario.receivers === "indifferent" ? {} : scenario.receivers;
  const { unnoticed_per_day, comfortable_ramp } = { ...DEFAULT_RECEIVERS, ...known };
  const full = band.findIndex(({ middle }) => middle >= (scenario.target ?? wanted));
  const weeks = band.flatMap(({ middle }, day) =>
    day % WEEK_DAYS === 0 && (full < 0 || day < full) ? [`${sayCount(middle)} on day ${day}`] : [],
  );
  const all = full < 0 ? [] : [`${sayCount(band[full]?.middle ?? 0)} on day ${full}`];
  return [
    `Of ${sayCount(wanted)} recipients a day the cap takes ${[...weeks, ...all].join(", ")}. The rest must stay with the sender of before: ${withRange(measures, "elsewhere")} recipients in these days.`,
    ...ofCeiling(policy, scenario, band.at(-1)?.middle ?? 0),
    `What to do: on a new address these caps are the warm-up. A \`caps set --minimum\` above them is slower in the end, since receivers throttle what goes beyond ${sayCount(unnoticed_per_day)} a day and ${comfortable_ramp} times what they are used to, and blocklist who goes on. An address that has sent N a day for weeks may start with \`caps set --minimum N\`.`,
  ];
}

/** Days differ: whoever wants as much as the ceiling on a usual day has no room on others. */
function ofCeiling({ ceiling }: Policy, { plan, streams }: Scenario, cap: number): string[] {
  const moving = streams.flatMap(({ share_of_cap: share, per_day_max: most }) =>
    share === undefined || most === undefined ? [] : [{ share, most }],
  );
  const left = moving.reduce((sum, { share, most }) => sum + Math.max(0, most - share * cap), 0);
  if (left < 1 || cap < ceiling[plan]) return [];
  const needed = Math.max(...moving.map(({ share, most }) => Math.ceil(most / share)));
  return [
    `At the end ${sayCount(left)} a day still have no room: ${sayCount(cap)} is the ceiling of the plan ${plan}. \`caps set --minimum ${needed}\` lifts the cap over it then.`,
  ];
}

/** What a manager would weigh; said where the seeds, each against itself, can show that it differs. */
const COMPARED: readonly MeasureName[] = [
  "days_to_target",
  "bad_before_freeze",
  "bad_sent",
  "delayed_share",
  "inbox_share",
  "listed_days",
  "false_freezes_per_1000",
  "sent",
];
const SHORT: Partial<Record<MeasureName, string>> = {
  days_to_target: "days to the target",
  bad_before_freeze: "bad mail before the first step",
  bad_sent: "bad mail in all",
  delayed_share: "good mail that waits over an hour",
  inbox_share: "good mail that reaches an inbox",
  listed_days: "days on a blocklist",
  false_freezes_per_1000: "good workspaces of 1,000 held back",
  sent: "mail sent",
};

function ofTwo(first: StudyResult, second: StudyResult, runs: number): string {
  const differences = sureOf(second.difference, first.measures, second.measures).map(
    ({ name, by }) =>
      `${SHORT[name]}: ${said(second.measures, name)} instead of ${said(first.measures, name)}${by}`,
  );
  return differences.length === 0
    ? `${noneSeen(runs)} between ${first.name} and ${second.name}.`
    : `${second.name} against ${first.name}: ${differences.join("; ")}.`;
}

function ofSweep(parameter: string, points: readonly SweepPoint[], runs: number): string {
  const [from, to] = [points[0], points.at(-1)];
  if (!from || !to) return "";
  const moved = sureOf(to.difference, from.measures, to.measures).map(
    ({ name, by }) =>
      `${SHORT[name]} from ${withRange(from.measures, name)} to ${withRange(to.measures, name)}${by}`,
  );
  return moved.length === 0
    ? `${noneSeen(runs)} between ${parameter} ${from.value} and ${to.value}.`
    : `${parameter} from ${from.value} to ${to.value}, with 95% confidence: ${moved.join("; ")}.`;
}

function noneSeen(runs: number): string {
  if (runs >= PAIRS_MIN) return `There is no difference that ${sayCount(runs)} seeds can show`;
  return `${runs} ${runs === 1 ? "seed is" : "seeds are"} too few to show a difference (${PAIRS_MIN} or more can)`;
}

type SureDifference = { name: MeasureName; by: string };

function sureOf(found: Differences | null, before: Measures, after: Measures): SureDifference[] {
  if (found === null) return [];
  return COMPARED.filter(
    (name) =>
      before[name].typical !== null &&
      after[name].typical !== null &&
      said(before, name) !== said(after, name) &&
      isSure(found[name]),
  ).map((name) => {
    const by = sayDifference(name, found[name]);
    return { name, by: by && ` (${by})` };
  });
}

/** `2 to 3 less`; nothing where one of them never comes. */
export function sayDifference(name: MeasureName, { low, high }: Difference): string {
  const [one, other] = [low ?? 0, high ?? 0];
  if (!Number.isFinite(one) || !Number.isFinite(other)) return "";
  const sizes = [Math.abs(one), Math.abs(other)].sort((a, b) => a - b) as [number, number];
  // a difference of two shares is no share of either
  const isShare = name.endsWith("_share");
  const [least, most] = sizes.map((size) => sayMeasured(name, size).replace("%", ""));
  const size = `${least === most ? least : `${least} to ${most}`}${isShare ? " points" : ""}`;
  return `${size} ${one > 0 ? "more" : "less"}`;
}

/** `11 (10 to 12)` */
export function withRange(measures: Measures, name: MeasureName): string {
  const { low, high } = measures[name];
  if (low === null || high === null || low === high) return said(measures, name);
  return `${said(measures, name)} (${sayMeasured(name, low)} to ${sayMeasured(name, high)})`;
}

function said(measures: Measures, name: MeasureName): string {
  return sayMeasured(name, measures[name].typical);
}

function over(measures: Measures, name: MeasureName): boolean {
  return (measures[name].typical ?? 0) > 0;
}

function between(name: MeasureName, low: number | null, high: number | null): string {
  if (low === null || high === null || low === high) return "";
  return ` (${sayMeasured(name, low)} to ${sayMeasured(name, high)} with 95% confidence)`;
}
