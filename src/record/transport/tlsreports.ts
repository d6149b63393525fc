/**
 * TLS reports of others about our own domains. Who wrote one is their own claim, so nothing follows from it.
 */
import { newId } from "../../ids.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { integer, json, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const heardTlsReportRow = {
  organization: text,
  reportId: text,
  beginsAt: timestamp,
  endsAt: timestamp,
  domain: text,
  policy: text,
  succeeded: integer,
  failed: integer,
  failures: json<{ result: string; host: string | null; sessions: number; why: string | null }[]>(),
};
export type HeardTlsReport = RowOf<typeof heardTlsReportRow>;

/** `network`: from which it came. */
type ReceivedTlsReport = HeardTlsReport & { network: string };

/** Of one domain on one day. */
const REPORTS_OF_A_DAY_MAX = 200;
const LISTED_MAX = 1_000;

/**
 * Those that are known are not written again. Anybody may send as many as they like under any name, but not
 * from the networks of another: where a domain has its fill of a day, one of an organization that reported
 * from this network before goes before one of a stranger, and then one from a network with fewer before one
 * from that with most.
 */
export async function insertTlsReports(
  tx: Tx | Sql,
  heard: readonly ReceivedTlsReport[],
  now: Date,
): Promise<void> {
  for (const one of [...heard].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))) {
    await makeRoom(tx, one, now);
    await tx`
      insert into tls_report_in
        (id, domain, organization, report_id, begins_at, ends_at, policy, succeeded, failed, failures,
          network, received_at)
      select ${newId(now.getTime())}, ${one.domain}, ${one.organization}, ${one.reportId}, ${one.beginsAt},
        ${one.endsAt},
             ${one.policy}, ${one.succeeded}, ${one.failed}, ${JSON.stringify(one.failures)}::text::jsonb,
             ${one.network}, ${now}
      where (select count(*) from tls_report_in
        where domain = ${one.domain}
          and received_at > ${now}::timestamptz - interval '1 day') < ${REPORTS_OF_A_DAY_MAX}
      on conflict do nothing`;
  }
}

async function makeRoom(
  tx: Tx | Sql,
  { domain, organization, network }: ReceivedTlsReport,
  now: Date,
): Promise<void> {
  const isKnown = (name: Statement, from: Statement) => tx`exists (select from tls_report_in known
    where known.domain = ${domain} and known.organization = ${name} and known.network = ${from}
      and known.received_at <= ${now}::timestamptz - interval '1 day')`;
  const isThisKnown = isKnown(tx`${organization}`, tx`${network}`);
  await tx`
    with today as materialized (
      select id, organization, network, count(*) over (partition by network) as reports
      from tls_report_in where domain = ${domain} and received_at > ${now}::timestamptz - interval '1 day'
    ), ranked as (
      select id, reports, ${isKnown(tx`today.organization`, tx`today.network`)} as is_known from today
      where (select count(*) from today) >= ${REPORTS_OF_A_DAY_MAX}
    ), spare as (
      select id from ranked
      where (not is_known and ${isThisKnown})
        or (is_known <= ${isThisKnown} and reports > 1 + (select count(*) from today
          where network = ${network}))
      order by is_known, reports desc, id desc limit 1
    )
    delete from tls_report_in where id in (select id from tls_report_in
      where id in (select id from spare) for update skip locked)`;
}

/** Two that write the same reports write them in the same order. */
function keyOf({ domain, organization, reportId, policy, beginsAt }: HeardTlsReport): string {
  return JSON.stringify([domain, organization, reportId, policy, beginsAt]);
}

/** About a domain and those below it, the newest first. */
export async function listTlsReports(sql: Sql, domain: string): Promise<HeardTlsReport[]> {
  return typed(sql, heardTlsReportRow)`
    select domain, organization, report_id as "reportId", begins_at as "beginsAt", ends_at as "endsAt",
      policy,
           succeeded::float8 as succeeded, failed::float8 as failed, failures
    from tls_report_in where domain = ${domain} or right(domain, ${domain.length + 1}) = ${`.${domain}`}
    order by begins_at desc, organization, policy limit ${LISTED_MAX}`;
}

export async function dropOldTlsReports(tx: Tx | Sql, before: Date, most: number): Promise<number> {
  const dropped = await tx`
    delete from tls_report_in where id in (
      select id from tls_report_in where received_at < ${before} limit ${most} for update skip locked)`;
  return dropped.count;
}
