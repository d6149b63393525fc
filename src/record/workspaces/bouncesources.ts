/**
 * Which domains the bounces of a workspace come from. Nothing is counted for it: whoever bounced hard is
 * suppressed, and that row says when and where. It is read for the few workspaces whose bounces are doubted.
 */

import { identity, parseMailbox } from "../../address.ts";
import { DAY_MS } from "../../clock.ts";
import { floorId } from "../../ids.ts";
import { plainArray } from "../db/arrays.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { integer, orNull, type RowOf, text, typed } from "../db/rowshape.ts";

/** So many e-mails, and not older ones, show where the mail of a workspace goes of late. */
export const LATEST_MAX = 1_000;
const LATEST_DAYS = 7;
/**
 * Of each day and kind, so many are told apart: the policy leaves out what came of one or of a few, and all
 * new ones together. More held the keeper: each domain was an object on each of 30 days.
 */
const LOUDEST_MAX = 50;

/**
 * Bounces of one domain, of mail that was first tried on a day. The rest of the domains without usual mail
 * have no name; the rest of the others is left out, so that it counts in full.
 */
const bounceSourceRow = {
  day: text,
  name: orNull(text),
  bounced: integer,
};
export type BounceSource = RowOf<typeof bounceSourceRow>;
/** Of mail, by the domain of the first recipient. */
export type SourceShares = ReadonlyMap<string, number>;
/** Of the latest mail before a day, and how much goes to domains that are not in it, then and of late. */
export type UsualSources = { shares: SourceShares; newSources: { usual: number; latest: number } };
/**
 * `latest`: of the latest mail. What is usual stays what it was when the day began: `today`, and for all days
 * before it `earlier`, which was that of yesterday. null: there was no mail.
 */
export type BounceSources = {
  bounces: BounceSource[];
  latest: SourceShares;
  today: UsualSources | null;
  earlier: UsualSources | null;
};

/** Of one workspace, of the last days. */
export async function bounceSources(
  sql: Sql | Tx,
  workspaceId: string,
  now: number,
  days: number,
): Promise<BounceSources> {
  const since = Math.floor(now / DAY_MS) - days + 1;
  const midnight = Math.floor(now / DAY_MS) * DAY_MS;
  const [latest, beforeToday, beforeYesterday] = await Promise.all([
    latestDomains(sql, workspaceId, now, null),
    latestDomains(sql, workspaceId, midnight, floorId(midnight)),
    latestDomains(sql, workspaceId, midnight - DAY_MS, floorId(midnight - DAY_MS)),
  ]);
  const sources = { latest: sharesOf(latest), today: usualIn(beforeToday, latest) };
  const earlier = usualIn(beforeYesterday, latest);
  const shares = [sources.today?.shares ?? sources.latest, earlier?.shares ?? sources.latest] as const;
  const known = [...new Set(shares.flatMap((some) => [...some.keys()]))].filter((name) => name !== "");
  const sharesOn = (some: SourceShares) => plainArray(known.map((name) => some.get(name) ?? 0));
  // ids are made in the order of time: those of older rows are not looked at
  const bounces = await typed(sql, bounceSourceRow)`
    with bounced as (
      select counted_day, split_part(identity, '@', -1) as name, count(*) as bounced
      from suppressed_address
      where workspace_id = ${workspaceId} and id >= ${floorId(since * DAY_MS)} and reason = 'bounce'
        and counted_day >= ${since} and undone_at is null and identity is not null
      group by 1, 2
    ), known as materialized (
      select * from unnest(${plainArray(known.map((name) => JSON.stringify(name)))}::text[],
        ${sharesOn(shares[0])}::float8[], ${sharesOn(shares[1])}::float8[]) as k(name, of_today, of_earlier)
    ), shared as (
      select counted_day, name, bounced, coalesce(
          case when counted_day = ${midnight / DAY_MS} then of_today else of_earlier end, 0) as share
      from bounced left join known using (name)
    ), ranked as (
      select *, least(
          row_number() over (partition by counted_day, share > 0 order by bounced desc, name),
          row_number() over (partition by counted_day, share > 0
            order by bounced / nullif(share, 0) desc, bounced desc, name)) as place
      from shared
    )
    select to_char(date '1970-01-01' + counted_day, 'YYYY-MM-DD') as day,
      case when place <= ${LOUDEST_MAX} then name end as name, sum(bounced)::int as bounced
    from ranked where place <= ${LOUDEST_MAX} or share = 0
    group by 1, 2 order by 1, 2`;
  return { bounces, ...sources, earlier };
}

/** Of the latest mail at a time, with ids below one. */
async function latestDomains(
  sql: Sql | Tx,
  workspaceId: string,
  at: number,
  below: string | null,
): Promise<string[]> {
  const rows = await typed(sql, { first: orNull(text) })`
    select head -> 'to' ->> 0 as first from email
    where workspace_id = ${workspaceId} and id >= ${floorId(at - LATEST_DAYS * DAY_MS)}
      ${below === null ? sql`` : sql`and id < ${below}`}
    order by id desc limit ${LATEST_MAX}`;
  return rows.map(({ first }) => domainOf(first ?? ""));
}

function sharesOf(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const [name, count] of counts) counts.set(name, count / names.length);
  return counts;
}

/**
 * How much mail usually goes to a domain that has had none: the share of domains that had one e-mail, as Good
 * and Turing estimate it.
 */
function usualIn(before: readonly string[], latest: readonly string[]): UsualSources | null {
  if (before.length === 0 || latest.length === 0) return null;
  const shares = sharesOf(before);
  const once = [...shares.values()].filter((share) => Math.round(share * before.length) === 1).length;
  const isNew = latest.filter((name) => !shares.has(name)).length;
  return { shares, newSources: { usual: once / before.length, latest: isNew / latest.length } };
}

function domainOf(text: string): string {
  const mailbox = parseMailbox(text);
  return mailbox ? (identity(mailbox.address).split("@").at(-1) ?? "") : "";
}
