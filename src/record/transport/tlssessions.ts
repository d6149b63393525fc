/**
 * Counts of secured and unsecured connections to receivers, and which reports about them are still to be
 * sent.
 */
import { plainArray, texts } from "../db/arrays.ts";
import type { Sql } from "../db/connect.ts";
import { arrayOf, integer, type RowOf, text, typed } from "../db/rowshape.ts";

const tlsSessionsRow = {
  day: integer,
  domain: text,
  policy: text,
  /** Empty: nothing was wrong. */
  result: text,
  mxHost: text,
  mxIp: text,
  sourceIp: text,
  sessions: integer,
};
export type TlsSessions = RowOf<typeof tlsSessionsRow>;

const dueTlsReportRow = {
  day: integer,
  domain: text,
  tries: integer,
  sentTo: arrayOf(text),
};
export type DueTlsReport = RowOf<typeof dueTlsReportRow>;

export async function addTlsSessions(sql: Sql, counted: readonly TlsSessions[]): Promise<void> {
  const words = (pick: (one: TlsSessions) => string) => texts(sql, counted.map(pick));
  await sql`
    insert into tls_sessions as s (day, domain, policy, result, mx_host, mx_ip, source_ip, sessions)
    select day, domain, policy, result, mx_host, mx_ip, source_ip, sum(sessions)
    from unnest(${plainArray(counted.map(({ day }) => day))}::int[], ${words((c) => c.domain)},
      ${words((c) => c.policy)}, ${words((c) => c.result)}, ${words((c) => c.mxHost)},
      ${words((c) => c.mxIp)},
      ${words((c) => c.sourceIp)}, ${plainArray(counted.map(({ sessions }) => sessions))}::int[])
      as n(day, domain, policy, result, mx_host, mx_ip, source_ip, sessions)
    group by day, domain, policy, result, mx_host, mx_ip, source_ip
    order by day, domain, policy, result, mx_host, mx_ip, source_ip
    on conflict (day, domain, policy, result, mx_host, mx_ip, source_ip)
      do update set sessions = s.sessions + excluded.sessions`;
}

/** Every domain with counts of a day that is over gets a report, at a time of its own within `withinMs`. */
export async function planTlsReports(sql: Sql, today: number, now: Date, withinMs: number): Promise<void> {
  await sql`
    insert into tls_report_out (day, domain, due_at)
    select day, domain, ${now}::timestamptz + random() * ${withinMs} * interval '1 ms'
    from (select distinct day, domain from tls_sessions where day < ${today} order by day, domain) as over
    on conflict do nothing`;
}

/** Reports that are due, which nobody else takes until `againAt`. */
export async function takeTlsReports(
  sql: Sql,
  now: Date,
  againAt: Date,
  most: number,
): Promise<DueTlsReport[]> {
  return typed(sql, dueTlsReportRow)`
    with due as materialized (
      select day, domain from tls_report_out where due_at <= ${now}
      order by due_at limit ${most} for update skip locked
    )
    update tls_report_out r set due_at = ${againAt}, tries = least(r.tries + 1, 1000) from due
    where r.day = due.day and r.domain = due.domain
    returning r.day, r.domain, r.tries, r.sent_to as "sentTo"`;
}

/** Of a domain with ever new hosts the report says what happened most. */
const ROWS_OF_A_REPORT_MAX = 5_000;

export async function readTlsSessions(sql: Sql, day: number, domain: string): Promise<TlsSessions[]> {
  return typed(sql, tlsSessionsRow)`
    select day, domain, policy, result, mx_host as "mxHost", mx_ip as "mxIp", source_ip as "sourceIp",
           sessions::float8 as sessions
    from (select * from tls_sessions where day = ${day} and domain = ${domain}
      order by sessions desc, policy, result, mx_host, mx_ip, source_ip limit ${ROWS_OF_A_REPORT_MAX}) most
    order by policy, result, sessions desc`;
}

export async function noteTlsReportSent(
  sql: Sql,
  { day, domain }: Pick<DueTlsReport, "day" | "domain">,
  to: string,
): Promise<void> {
  await sql`
    update tls_report_out set sent_to = array_append(sent_to, ${to})
    where day = ${day} and domain = ${domain} and not ${to} = any(sent_to)`;
}

/** `againAt`: it is tried again; null: it is over. */
export async function endTlsReport(
  sql: Sql,
  { day, domain }: Pick<DueTlsReport, "day" | "domain">,
  result: string,
  againAt: Date | null,
): Promise<void> {
  await sql`
    update tls_report_out set due_at = ${againAt}, result = ${result} where day = ${day}
      and domain = ${domain}`;
}

/** Counts go after the reports about them. */
export async function dropOldTlsSessions(sql: Sql, beforeDay: number, most: number): Promise<number> {
  await sql`
    delete from tls_report_out where (day, domain) in (
      select day, domain from tls_report_out where day < ${beforeDay} limit ${most} for update skip locked)`;
  const dropped = await sql`
    delete from tls_sessions where ctid in (
      select ctid from tls_sessions where day < ${beforeDay} limit ${most} for update skip locked)`;
  return dropped.count;
}
