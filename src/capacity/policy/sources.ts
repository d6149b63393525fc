/**
 * How many bounces and complaints of one source count. A source is the domain of a recipient. Strangers can
 * cause both: they type addresses that do not exist into a form, or sign up and complain. Their mail goes to
 * few domains, or to domains to which the sender has not written before. A bad list bounces everywhere.
 *
 * Promises: of a group of sources no more counts than its share of the sender's usual mail explains, and
 * `source_events` a day on top. A group is one source, the loudest few together, or all new ones. A workspace
 * is held back if the mail outside of the group is bad too. A group with more than half of the mail counts in
 * full.
 */

import type { DayCounts, SourceCounts } from "../../record/workspaces/caps.ts";
import { isDoubted, type LeftOut, type Measure, type Watch, type WeighedCounts } from "./evidence.ts";
import type { Policy } from "./file.ts";

/** So many together are few: an attack over more has to look like a list. */
const FEW_SOURCES = 10;
/** Both the rest and the group are samples: by so many standard deviations they may differ. */
const NOISE_WIDTHS = 2.5;
/** A group with more of the usual mail is the mail: what is left could not decide. */
const USUAL_SHARE_MAX = 0.75;
/** A group that comes on top of the usual mail is most of the mail beyond this share. */
const ADDED_SHARE_MAX = 0.5;
const BUSY_DAY_SHARE_MAX = 0.2;
const NAMES_SHOWN = 3;
const MEASURES = ["bounce", "complaint"] as const;
const MAIL = { bounce: "attempted", complaint: "fblDelivered" } as const;
const EVENT = { bounce: "bounced", complaint: "complained" } as const;

/** Events of a group of sources, of which more came than count. */
export type SuspiciousBurst = {
  day: string;
  /** The sources, the loudest first; of many only the first few. */
  source: string;
  measure: Measure;
  events: number;
  counted: number;
};

/** The counts with each source as heavy as it deserves. Bounces are weighed where they are doubted. */
export function weighed(
  policy: Policy,
  watch: Watch,
  days: readonly DayCounts[],
  now: number,
): readonly WeighedCounts[] {
  if (!days.some(({ sources = [] }) => sources.length > 0)) return days;
  const bursts = burstsOn(policy, days);
  if (bursts.length === 0) return days;
  const excessOn = excessOf(bursts, isDoubted(policy, watch, days, now));
  if (excessOn.size === 0) return days;
  return days.map((counts) => {
    const excess = excessOn.get(counts.day);
    if (!excess) return counts;
    const day = without(counts, excess);
    if (counts.bulk) day.bulk = without(counts.bulk, excess);
    return day;
  });
}

/** What is not to count of each day with a burst. */
function excessOf(bursts: readonly Burst[], weighsBounces: boolean): Map<string, LeftOut> {
  const excessOn = new Map<string, LeftOut>();
  for (const { day, measure, events, counted } of bursts) {
    if (measure === "bounce" && !weighsBounces) continue;
    const excess = excessOn.get(day) ?? { bounced: 0, complained: 0 };
    excessOn.set(day, excess);
    if (measure === "complaint") excess.complained += events - counted;
    else excess.bounced += events - counted;
  }
  return excessOn;
}

/** Nobody says in which stream the excess was: it counts in none. */
function without<C extends LeftOut>(counts: C, excess: LeftOut): C & { leftOut: LeftOut } {
  const bounced = Math.min(counts.bounced, excess.bounced);
  const complained = Math.min(counts.complained, excess.complained);
  return {
    ...counts,
    bounced: counts.bounced - bounced,
    complained: counts.complained - complained,
    leftOut: { bounced, complained },
  };
}

/** At most one a day and measure. */
export function suspiciousBursts(policy: Policy, days: readonly DayCounts[]): SuspiciousBurst[] {
  const found = burstsOn(policy, days).map(({ day, measure, groups, events, counted }) => {
    const source = wording(groups.flatMap(namesOf));
    return { day, source, measure, events, counted };
  });
  return found.sort((a, b) => (a.day < b.day ? -1 : a.day > b.day ? 1 : 0));
}

/** A burst as each look needs it: the groups are put into words where somebody reads them. */
type Burst = Omit<SuspiciousBurst, "source"> & { groups: readonly Group[] };

function burstsOn(policy: Policy, days: readonly DayCounts[]): Burst[] {
  const found: Burst[] = [];
  for (const measure of MEASURES) {
    let groupsOf: GroupsOf | null = null;
    for (let n = 0; n < days.length; n++) {
      const counts = days[n] as DayCounts;
      const total = counts[EVENT[measure]];
      if (total <= policy.evidence.source_events || !mayBurst(policy, measure, counts)) continue;
      const added = addedShareOn(days, n, policy.window_days, MAIL[measure]);
      if (added === null) continue;
      groupsOf ??= groupsIn(measure, policy, days);
      const burst = burstOf(policy, measure, counts, total, groupsOf(counts, added), added);
      if (burst) found.push(burst);
    }
  }
  return found;
}

/** No group has more events than all sources together, and so many are free. */
function mayBurst({ evidence }: Policy, measure: Measure, { sources }: DayCounts): boolean {
  if (!sources) return false;
  const event = EVENT[measure];
  let events = 0;
  for (const one of sources) events += Math.max(0, one[event]);
  return events > evidence.source_events;
}

/**
 * So much of the latest mail beyond its usual share a group may have on a day; null: most mail of the day
 * comes on top of that of the days before, and strangers do not send so much. Where it does so only against
 * the mean, as on a busy day of the sender's own, the group must show that it is not what came on top.
 */
function addedShareOn(
  days: readonly DayCounts[],
  place: number,
  windowDays: number,
  mail: "attempted" | "fblDelivered",
): number | null {
  let [before, daysWithMail, busiest, busy] = [0, 0, 0, 0];
  for (let n = Math.max(0, place - windowDays); n < place; n++) {
    const count = (days[n] as DayCounts)[mail];
    before += count;
    if (count > 0) daysWithMail++;
    busy = Math.max(busy, Math.min(busiest, count));
    busiest = Math.max(busiest, count);
  }
  if (daysWithMail === 0) return ADDED_SHARE_MAX;
  const count = (days[place] as DayCounts)[mail];
  const isMostAbove = (usual: number) => count - usual > ADDED_SHARE_MAX * count;
  // the busiest day may have been the first of the same list
  if (isMostAbove(busy === 0 ? busiest : busy)) return null;
  return isMostAbove(before / daysWithMail) ? BUSY_DAY_SHARE_MAX : ADDED_SHARE_MAX;
}

/** Sources that are judged together. `usual` is their share of the mail before the day, `latest` of late. */
type Group = {
  name: string;
  /** In place of the name; null: it is one source. */
  members: readonly Group[] | null;
  events: number;
  usual: number;
  latest: number;
  isKnown: boolean;
  /** It stands for sources that count only together with all new ones. */
  isRest: boolean;
};

/** Looks for what lets fewest events count: one group, or the loudest together. */
function burstOf(
  { evidence }: Policy,
  measure: Measure,
  counts: DayCounts,
  total: number,
  groups: readonly Group[],
  added: number,
): Burst | null {
  const free = evidence.source_events;
  let least = total;
  let loudest: Group | null = null;
  let loudestFew = 0;
  const few: Group[] = [];
  let [events, usual, latest] = [0, 0, 0];
  for (const group of groups) {
    const alone = isMinor(group.usual, group.latest, group.isKnown, added)
      ? countedOf(total, group.events, group.usual, free)
      : total;
    if (alone < least) {
      least = alone;
      loudest = group;
    }
    if (
      few.length >= FEW_SOURCES ||
      !isMinor(usual + group.usual, latest + group.latest, group.isKnown, added)
    )
      continue;
    few.push(group);
    events += group.events;
    usual += group.usual;
    latest += group.latest;
    const joined = countedOf(total, events, usual, free);
    if (joined < least) {
      least = joined;
      loudest = null;
      loudestFew = few.length;
    }
  }
  if (least >= total) return null;
  const loud = loudest ? [loudest] : few.slice(0, loudestFew);
  // complaints that were taken back later still count with their source
  const came = Math.min(eventsOf(loud), total);
  const counted = Math.max(0, Math.floor(least - (total - came)));
  return counted >= came ? null : { day: counts.day, groups: loud, measure, events: came, counted };
}

/** All events of the others, and of the group what is usual for its share and `free` on top. */
function countedOf(total: number, events: number, usual: number, free: number): number {
  const others = Math.max(0, total - events);
  return others + fairShare(usual, others) + free;
}

/** The events of sources with this share of the mail, if they are like the others. */
function fairShare(usual: number, others: number): number {
  const mean = (usual / (1 - usual)) * others;
  return mean + NOISE_WIDTHS * Math.sqrt(mean / (1 - usual));
}

/** Where nobody knows what is usual, most of the latest mail may be what is. */
function isMinor(usual: number, latest: number, isKnown: boolean, added: number): boolean {
  if (!isKnown) return latest <= added;
  return usual <= USUAL_SHARE_MAX && latest - usual <= added * (1 - usual);
}

function wording(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).join(", ");
  const others = names.length - NAMES_SHOWN;
  return others > 0 ? `${shown} and ${others} ${others === 1 ? "other" : "others"}` : shown;
}

/** The groups of a day, the loudest for their share first. Days are asked for in their order. */
type GroupsOf = (counts: DayCounts, added: number) => Group[];

function groupsIn(measure: Measure, { window_days }: Policy, days: readonly DayCounts[]): GroupsOf {
  const event = EVENT[measure];
  const latest = sharesIn(days.slice(-window_days), MAIL[measure]);
  const latestOf = ({ name, latest: known }: SourceCounts) =>
    (measure === "bounce" ? known : undefined) ?? latest.get(name)?.share ?? 0;
  const usualOf = measure === "bounce" ? usualAsCounted : usualBefore(days);
  return (counts, added) => {
    const known: Group[] = [];
    const strange: Group[] = [];
    for (const one of counts.sources ?? []) {
      const events = one[event];
      if (events <= 0) continue;
      const { name } = one;
      const usual = usualOf(counts, one);
      const share = latestOf(one);
      const isKnown = usual !== undefined;
      const isRest = one.isRest === true;
      const group = { name, members: null, events, usual: usual ?? share, latest: share, isKnown, isRest };
      if (usual === 0) strange.push(group);
      else if (!isRest) known.push(group);
    }
    const ofNew = measure === "bounce" ? counts.newSources : undefined;
    for (const group of together(strange, ofNew, added)) known.push(group);
    return known.sort(byLoudness);
  };
}

/** Of all mail of these days, that to each source: in objects, so that a name is looked up but once a day. */
function sharesIn(
  days: readonly DayCounts[],
  mail: "attempted" | "fblDelivered",
): ReadonlyMap<string, { share: number }> {
  let ofAll = 0;
  for (const counts of days) ofAll += counts[mail];
  const shares = new Map<string, { share: number }>();
  for (const { sources = [] } of days)
    for (const one of sources) {
      if (one[mail] <= 0) continue;
      const found = shares.get(one.name);
      if (found) found.share += one[mail] / ofAll;
      else shares.set(one.name, { share: one[mail] / ofAll });
    }
  return shares;
}

function usualAsCounted(_: DayCounts, { usual }: SourceCounts): number | undefined {
  return usual;
}

/** Of complaints each day knows what was delivered, so that what is usual follows from the days before. */
function usualBefore(
  days: readonly DayCounts[],
): (counts: DayCounts, one: SourceCounts) => number | undefined {
  const before = new Map<string, { delivered: number }>();
  let [allBefore, added] = [0, 0];
  return (counts, { name }) => {
    for (; added < days.length && (days[added] as DayCounts).day < counts.day; added++) {
      const day = days[added] as DayCounts;
      allBefore += day.fblDelivered;
      for (const one of day.sources ?? []) {
        const found = before.get(one.name);
        if (found) found.delivered += one.fblDelivered;
        else before.set(one.name, { delivered: one.fblDelivered });
      }
    }
    return allBefore === 0 ? undefined : (before.get(name)?.delivered ?? 0) / allBefore;
  };
}

/**
 * All new sources as one, unless most of the mail goes to new ones anyway: then the loudest of them are few
 * among many.
 */
function together(
  strange: readonly Group[],
  ofNew: DayCounts["newSources"],
  added: number,
): readonly Group[] {
  if (strange.length === 0) return [];
  const usual = ofNew?.usual ?? 0;
  let ofStrange = 0;
  for (const one of strange) ofStrange += one.latest;
  const latest = Math.max(ofNew?.latest ?? 0, ofStrange);
  if (!isMinor(usual, latest, true, added)) return strange.filter(({ isRest }) => !isRest);
  const shared = { usual, latest, isKnown: true, isRest: false };
  return [{ name: "", members: strange, events: eventsOf(strange), ...shared }];
}

function namesOf({ name, members }: Group): string[] {
  return members ? [...members].sort(byLoudness).map((one) => one.name) : [name];
}

function eventsOf(groups: readonly Group[]): number {
  let total = 0;
  for (const { events } of groups) total += events;
  return total;
}

function byLoudness(a: Group, b: Group): number {
  return b.events * a.usual - a.events * b.usual || b.events - a.events;
}
