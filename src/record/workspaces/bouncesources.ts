/**
 * Which domains the bounces of a workspace come from. Nothing is counted for it: whoever bounced hard is suppressed, and
 * that row says when and where. It is read for the few workspaces whose bounces are doubted.
 */

import { identity, parseMailbox } from "../../address.ts";
import { DAY_MS } from "../../clock.ts";
import { floorId } from "../../ids.ts";
import type { Sql, Tx } from "../db/connect.ts";

/** So many e-mails, and not older ones, show where the mail of a workspace goes of late. */
export const LATEST_MAX = 1_000;
const LATEST_DAYS = 7;

/** Bounces of one domain, of mail that was first tried on a day. */
export type BounceSource = { day: string; name: string; bounced: number };
/** `shares`: of the latest mail, by the domain of the first recipient. */
export type BounceSources = { bounces: BounceSource[]; shares: ReadonlyMap<string, number> };

/** Of one workspace, of the last days. */
export async function bounceSources(
  sql: Sql | Tx,
  workspaceId: string,
  now: number,
  days: number,
): Promise<BounceSources> {
  const since = Math.floor(now / DAY_MS) - days + 1;
  // ids are made in the order of time: those of older rows are not looked at
  const bounces = await sql<BounceSource[]>`
    select to_char(date '1970-01-01' + counted_day, 'YYYY-MM-DD') as day, split_part(identity, '@', 2) as name,
           count(*)::int as bounced
    from suppressed_address
    where workspace_id = ${workspaceId} and id >= ${floorId(since * DAY_MS)} and reason = 'bounce'
      and counted_day >= ${since} and undone_at is null and identity is not null
    group by 1, 2 order by 1, 2`;
  if (bounces.length === 0) return { bounces, shares: new Map() };
  const latest = await sql<{ first: string | null }[]>`
    select head -> 'to' ->> 0 as first from email
    where workspace_id = ${workspaceId} and id >= ${floorId(now - LATEST_DAYS * DAY_MS)}
    order by id desc limit ${LATEST_MAX}`;
  return { bounces, shares: sharesOf(latest.map(({ first }) => domainOf(first ?? ""))) };
}

function sharesOf(names: readonly string[]): Map<string, number> {
  const shares = new Map<string, number>();
  for (const name of names) shares.set(name, (shares.get(name) ?? 0) + 1 / names.length);
  return shares;
}

function domainOf(text: string): string {
  const mailbox = parseMailbox(text);
  return mailbox ? (identity(mailbox.address).split("@").at(-1) ?? "") : "";
}
