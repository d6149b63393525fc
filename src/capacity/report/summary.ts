/** The answer of a study in sentences, for somebody who reads nothing else. */
import type { MeasureName, Measures } from "../measures.ts";
import type { Study, StudyResult } from "../study.ts";
import type { Scenario } from "../workload.ts";
import { sayCount, sayMeasured } from "./words.ts";

export function summarise(study: Study): string[] {
  const { outcomes, scenario, runs, days, sweep } = study;
  const first = outcomes[0] as StudyResult;
  const second = outcomes[1];
  return [
    ...(second ? ofTwo(first, second) : []),
    ...(sweep ? ofSweep(sweep.parameter, sweep.points) : []),
    ...ofOne(first, scenario.value, runs, days, outcomes.length > 1),
  ];
}

function ofOne(
  { name, measures }: StudyResult,
  scenario: Scenario,
  runs: number,
  days: number,
  isNamed: boolean,
): string[] {
  const under = isNamed ? `Under ${name}` : "Under this policy";
  const hasBad = scenario.streams.some(({ bad }) => bad);
  const sentences: string[] = [];
  if (scenario.target !== undefined)
    sentences.push(
      `${under} a typical workspace may send ${sayCount(scenario.target)} a day ${dayOf(measures)}; the slowest of ${runs} ${last(measures)}.`,
    );
  if (hasBad) sentences.push(...ofBad(under, measures));
  else sentences.push(ofGood(under, measures, runs, days));
  sentences.push(ofGoodMail(measures));
  if (over(measures, "refused"))
    sentences.push(
      `The quota refuses ${said(measures, "refused")} recipients: the plan is too small, not the cap.`,
    );
  return sentences;
}

function dayOf({ days_to_target: { typical, low, high } }: Measures): string {
  if (typical === null || !Number.isFinite(typical)) return "never in these days";
  return `on day ${sayMeasured("days_to_target", typical)}${between("days_to_target", low, high)}`;
}

function last({ days_to_target: { worst } }: Measures): string {
  return worst !== null && Number.isFinite(worst)
    ? `on day ${sayMeasured("days_to_target", worst)}`
    : "never";
}

function ofBad(under: string, measures: Measures): string[] {
  const { bad_before_freeze: first, bad_sent: all } = measures;
  return [
    `${under} ${said(measures, "bad_before_freeze")} bad e-mails${between("bad_before_freeze", first.low, first.high)} go out before the first step, ${sayMeasured("bad_before_freeze", first.worst)} at worst; ${said(measures, "bad_sent")} in all, ${sayMeasured("bad_sent", all.worst)} at worst, of which ${said(measures, "bad_bounced")} bounce.`,
  ];
}

function ofGood(
  under: string,
  { false_freezes_per_1000: held }: Measures,
  runs: number,
  days: number,
): string {
  const [low, high] = [Math.round(held.low ?? 0), Math.ceil(held.high ?? 0)];
  return `${under} ${sayMeasured("false_freezes_per_1000", held.typical)} of 1,000 such workspaces are held back in ${days} days (${low} to ${high} with 95% confidence, from ${sayCount(runs)}).`;
}

function ofGoodMail(measures: Measures): string {
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

/** What a manager would weigh; said where the intervals of the two do not meet. */
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

function ofTwo(first: StudyResult, second: StudyResult): string[] {
  const differences = COMPARED.flatMap((name) => {
    const [one, other] = [first.measures[name], second.measures[name]];
    if (one.typical === null || other.typical === null || one.typical === other.typical) return [];
    const isSure = (one.high ?? 0) < (other.low ?? 0) || (other.high ?? 0) < (one.low ?? 0);
    if (!isSure) return [];
    return [
      `${SHORT[name]}: ${sayMeasured(name, other.typical)} instead of ${sayMeasured(name, one.typical)}`,
    ];
  });
  if (differences.length === 0)
    return [`These runs show no difference between ${first.name} and ${second.name}.`];
  return [`${second.name} against ${first.name}: ${differences.join("; ")}.`];
}

function ofSweep(parameter: string, points: readonly { value: number; measures: Measures }[]): string[] {
  const [from, to] = [points[0], points.at(-1)];
  if (!from || !to) return [];
  const moved = COMPARED.flatMap((name) => {
    const [a, b] = [from.measures[name].typical, to.measures[name].typical];
    if (a === null || b === null || a === b) return [];
    return [`${SHORT[name]} from ${sayMeasured(name, a)} to ${sayMeasured(name, b)}`];
  });
  return [
    moved.length === 0
      ? `${parameter} from ${from.value} to ${to.value} changes nothing here.`
      : `${parameter} from ${from.value} to ${to.value}: ${moved.join("; ")}.`,
  ];
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
