/**
 * Whether a workspace is healthy enough for its cap to grow, and what of that is unknown: what cannot be
 * heard is not taken for health. Growth asks for what is probably so; steps against a workspace are decided
 * in evidence.ts.
 */

import type { DayCounts } from "../../record/workspaces/caps.ts";
import { BULK } from "../../rules/stream.ts";
import { dayPlus, type Harm, illness, type Measure, percent } from "./evidence.ts";
import type { Policy } from "./file.ts";

/** Whether anyone would tell us. */
export type Heard = {
  /** Receivers refuse us directly; a smarthost may accept everything. */
  refusals: boolean;
  /** Bounces after delivery. */
  reports: boolean;
  complaints: boolean;
};

export const ALL_HEARD: Heard = { refusals: true, reports: true, complaints: true };

/** What cannot be heard is unknown, not fine. What was heard once can be. */
export function unknownOf(policy: Policy, days: readonly DayCounts[], to: string, heard: Heard): Measure[] {
  const from = dayPlus(to, 1 - policy.window_days);
  let [bounced, complained, delivered, fblDelivered, rated] = [0, 0, 0, 0, 0];
  for (const counts of days) {
    if (counts.day < from || counts.day > to) continue;
    bounced += counts.bounced;
    const own = counts.reported ?? counts;
    complained += own.complained;
    delivered += counts.delivered;
    fblDelivered += own.fblDelivered;
    for (const one of counts.postmaster ?? []) if (one.complaintRate !== null) rated += one.delivered ?? 0;
  }
  // a rate of nobody knows how much mail says nothing of the rest
  const heardOf = (heard.complaints ? fblDelivered : 0) + rated;
  const hearsBounces = heard.refusals || heard.reports || bounced > 0;
  const hearsComplaints =
    complained > 0 || ((heard.complaints || rated > 0) && heardOf >= policy.evidence.heard_share * delivered);
  return [...(hearsBounces ? [] : ["bounce" as const]), ...(hearsComplaints ? [] : ["complaint" as const])];
}

/** These send no report of a single complaint: what they count is counted nowhere else. */
const WITHOUT_REPORTS: readonly string[] = ["google"];

/**
 * Complaints that a provider counted itself are as good as those that it reports one by one. The same
 * complaint may come both ways, so of the two counts the larger holds, with the larger number of mail.
 */
export function withPostmaster(days: readonly DayCounts[]): readonly DayCounts[] {
  if (!days.some(({ postmaster = [] }) => postmaster.length > 0)) return days;
  return days.map((counts) => {
    const { complained, fblDelivered } = counts;
    const alone = countedBy(counts, (provider) => WITHOUT_REPORTS.includes(provider));
    const besides = countedBy(counts, (provider) => !WITHOUT_REPORTS.includes(provider));
    return {
      ...counts,
      complained: Math.max(complained, besides.complained) + alone.complained,
      fblDelivered: Math.max(fblDelivered, besides.fblDelivered) + alone.fblDelivered,
      reported: { complained, fblDelivered },
    };
  });
}

function countedBy({ postmaster = [] }: DayCounts, isMeant: (provider: string) => boolean) {
  let [complained, fblDelivered] = [0, 0];
  for (const { complaintRate, delivered, provider } of postmaster) {
    if (complaintRate === null || delivered === null || !isMeant(provider ?? "")) continue;
    complained += Math.round(complaintRate * delivered);
    fblDelivered += delivered;
  }
  return { complained, fblDelivered };
}

/** Why a workspace is not healthy enough to grow; empty: it is. */
export function ailments(policy: Policy, days: readonly DayCounts[], to: string): string[] {
  const { healthy } = policy;
  const from = dayPlus(to, 1 - policy.window_days);
  const ill = illness(policy, days, from, to);
  const found = ill === null ? [] : [`${ill}, growth needs less`];
  const last = days.find((counts) => counts.day === to);
  if (last && last.attempted > 0) {
    const shares = { blocked: last.blocked, soft: last.soft ?? 0, throttled: last.throttled ?? 0 };
    for (const name of ["blocked", "soft", "throttled"] as const) {
      const share = shares[name] / last.attempted;
      if (share >= healthy[name] && shares[name] > 0)
        found.push(
          `${percent(share)} ${NAMES[name]} on ${to}, growth needs less than ${percent(healthy[name])}`,
        );
    }
    const delivered = last.delivered / last.attempted;
    if (delivered < healthy.delivered)
      found.push(
        `${percent(delivered)} of what was tried on ${to} was delivered, growth needs ${percent(healthy.delivered)}`,
      );
  }
  return [...found, ...postmasterAilments(policy, days, from, to)];
}

const NAMES = {
  blocked: "blocked",
  soft: "refused softly",
  throttled: "told to slow down for reputation or rate",
} as const;

/**
 * A reputation as it was last heard; each rate by itself, since a mean would hide the domain that it is
 * about.
 */
function postmasterAilments(
  { healthy }: Policy,
  days: readonly DayCounts[],
  from: string,
  to: string,
): string[] {
  const found: string[] = [];
  const reputations = new Map<string, string>();
  for (const { day, postmaster = [] } of days) {
    if (day < from || day > to) continue;
    for (const { domain, provider, complaintRate, reputation } of postmaster) {
      const where = provider ?? "a provider";
      if (complaintRate !== null && complaintRate >= healthy.complaint)
        found.push(
          `${where} counts complaints of ${percent(complaintRate)} about ${domain} on ${day}, growth needs less than ${percent(healthy.complaint)}`,
        );
      if (reputation !== null) reputations.set(`${domain} at ${where}`, reputation);
    }
  }
  for (const [about, reputation] of reputations)
    if (reputation === "low" || reputation === "bad")
      found.push(`the reputation of ${about} is ${reputation}`);
  return found;
}

/** What a change was decided on, as it is kept beside it. */
export type DecidingNumbers = Record<string, number | string>;

export function numbersOfHarm(
  limit: number,
  { measure, since, days, sample, atLeast, isBulk }: Harm,
): DecidingNumbers {
  const { events, of } = sample;
  const about = { measure, since: new Date(since).toISOString(), days, events, of, at_least: atLeast, limit };
  return isBulk ? { ...about, stream: BULK } : about;
}

/** The day that has ended, and the window that ends with it. */
export function numbersOfHealth(
  { window_days }: Policy,
  days: readonly DayCounts[],
  ended: string,
): DecidingNumbers {
  const window = days.filter(({ day }) => day >= dayPlus(ended, 1 - window_days) && day <= ended);
  const total = (of: (counts: DayCounts) => number | undefined) =>
    window.reduce((sum, counts) => sum + (of(counts) ?? 0), 0);
  const last = window.find(({ day }) => day === ended);
  return {
    day: ended,
    used: last?.used ?? 0,
    delayed: last?.delayed ?? 0,
    window_days,
    attempted: total((counts) => counts.attempted),
    delivered: total((counts) => counts.delivered),
    bounced: total((counts) => counts.bounced),
    complained: total((counts) => counts.complained),
    fbl_delivered: total((counts) => counts.fblDelivered),
    blocked: total((counts) => counts.blocked),
    soft: total((counts) => counts.soft),
    throttled: total((counts) => counts.throttled),
  };
}
