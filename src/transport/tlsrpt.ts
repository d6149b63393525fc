/**
 * TLS reports (RFC 8460): who asks for them, what stands in one that we send, and what one that we get says.
 * Pure; what others wrote is bounded, and read as claims of whoever wrote it.
 */
import { parseMailbox } from "../address.ts";
import { DAY_MS } from "../clock.ts";
import type { HeardTlsReport } from "../record/transport/tlsreports.ts";
import type { TlsSessions } from "../record/transport/tlssessions.ts";
import { linesOf, type StsPolicy } from "./sts.ts";
import { isHostName } from "./web.ts";

export type ReportTaker = { kind: "mail"; address: string } | { kind: "web"; host: string; path: string };

const RECORD_CHARS_MAX = 4_096;
/** Whoever is named gets a report for each domain that names them: a domain cannot name many. */
const TARGETS_MAX = 2;
const FAILURES_MAX = 100;
const POLICIES_MAX = 20;
const TEXT_CHARS_MAX = 200;
/** What parsing costs is not bounded by bytes alone: as many names that differ take 5 ms. */
const VALUES_MAX = 10_000;

/** Whom the TXT records of `_smtp._tls.DOMAIN` name; without any, the domain asks for no reports. */
export function reportTargetsIn(records: readonly string[]): ReportTaker[] {
  const ours = records.filter((text) => /^v=TLSRPTv1\s*;/.test(text));
  if (ours.length !== 1) return [];
  const fields = (ours[0] as string).slice(0, RECORD_CHARS_MAX).split(";");
  const rua = fields.map(ruaIn).find((value) => value !== "") ?? "";
  return rua
    .split(",")
    .slice(0, TARGETS_MAX)
    .flatMap((uri) => targetIn(uri.trim()) ?? []);
}

/** No expression over the whole field: whoever writes it could make the search slow. */
function ruaIn(field: string): string {
  const equals = field.indexOf("=");
  return field.slice(0, Math.max(0, equals)).trim() === "rua" ? field.slice(equals + 1).trim() : "";
}

function targetIn(uri: string): ReportTaker | null {
  if (!URL.canParse(uri)) return null;
  const { protocol, hostname, port, username, password, pathname, search } = new URL(uri);
  if (protocol === "https:") {
    const isPlain = port === "" && username === "" && password === "" && isHostName(hostname);
    return isPlain ? { kind: "web", host: hostname, path: `${pathname}${search}` } : null;
  }
  if (protocol !== "mailto:") return null;
  try {
    const mailbox = parseMailbox(decodeURIComponent(pathname));
    return mailbox && { kind: "mail", address: mailbox.address };
  } catch {
    return null;
  }
}

export function nameOfTarget(target: ReportTaker): string {
  return target.kind === "mail" ? `mailto:${target.address}` : `https://${target.host}${target.path}`;
}

export type OwnReport = {
  /** Who reports: a name, and an address for questions. */
  organization: string;
  contact: string;
  domain: string;
  day: number;
  sessions: readonly TlsSessions[];
  /** Of the domain, as it is known now. */
  policy: StsPolicy | null;
};

/** The same for every attempt to send the same report. */
export function reportIdOf({
  organization,
  domain,
  day,
}: Pick<OwnReport, "organization" | "domain" | "day">): string {
  return `${dateOf(day)}.${domain}@${organization}`;
}

/** RFC 8460, 5.1. */
export function fileNameOf({
  organization,
  domain,
  day,
}: Pick<OwnReport, "organization" | "domain" | "day">): string {
  const begin = (day * DAY_MS) / 1_000;
  return `${organization}!${domain}!${begin}!${begin + DAY_MS / 1_000 - 1}!${day}.json.gz`;
}

export function reportText(report: OwnReport): string {
  const { organization, contact, day, sessions } = report;
  const types = [...new Set(sessions.map(({ policy }) => policy))];
  return JSON.stringify({
    "organization-name": organization,
    "date-range": {
      "start-datetime": `${dateOf(day)}T00:00:00Z`,
      "end-datetime": `${dateOf(day)}T23:59:59Z`,
    },
    "contact-info": contact,
    "report-id": reportIdOf(report),
    policies: types.map((type) => policyPart(report, type)),
  });
}

function policyPart({ domain, policy, sessions }: OwnReport, type: string) {
  const ours = sessions.filter((one) => one.policy === type);
  const failed = ours.filter(({ result }) => result !== "");
  const known = type === "sts" && policy ? { "policy-string": linesOf(policy), "mx-host": policy.mx } : {};
  return {
    policy: { "policy-type": type, "policy-domain": domain, ...known },
    summary: {
      "total-successful-session-count": sum(ours.filter(({ result }) => result === "")),
      "total-failure-session-count": sum(failed),
    },
    "failure-details": failed
      .slice(0, FAILURES_MAX)
      .map(({ result, mxHost, mxIp, sourceIp, sessions: count }) => ({
        "result-type": result,
        ...(sourceIp !== "" && { "sending-mta-ip": sourceIp }),
        ...(mxHost !== "" && { "receiving-mx-hostname": mxHost }),
        ...(mxIp !== "" && { "receiving-ip": mxIp }),
        "failed-session-count": count,
      })),
  };
}

function sum(counted: readonly TlsSessions[]): number {
  return counted.reduce((all, { sessions }) => all + sessions, 0);
}

function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

/** Or why it is none. */
export function readTlsReport(text: string): HeardTlsReport[] | string {
  if (hasTooManyValues(text)) return `it has more than ${VALUES_MAX} values`;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "it is no JSON";
  }
  const range = fieldOf(value, "date-range");
  const beginsAt = dateIn(range, "start-datetime");
  const endsAt = dateIn(range, "end-datetime");
  const organization = textAt(value, "organization-name");
  const reportId = textAt(value, "report-id");
  if (!beginsAt || !endsAt || !organization || !reportId)
    return "it names no organization, no report-id or no date-range";
  const heard: HeardTlsReport[] = [];
  for (const one of listAt(value, "policies").slice(0, POLICIES_MAX)) {
    const policy = fieldOf(one, "policy");
    const summary = fieldOf(one, "summary");
    const domain = textAt(policy, "policy-domain")?.toLowerCase().replace(/\.$/, "") ?? "";
    if (!isHostName(domain)) continue;
    heard.push({
      organization,
      reportId,
      beginsAt,
      endsAt,
      domain,
      policy: textAt(policy, "policy-type") ?? "unknown",
      succeeded: countAt(summary, "total-successful-session-count"),
      failed: countAt(summary, "total-failure-session-count"),
      failures: listAt(one, "failure-details").slice(0, FAILURES_MAX).map(failureIn),
    });
  }
  return heard.length > 0 ? heard : "it names no policy of a domain";
}

/** What texts hold counts as well. */
function hasTooManyValues(text: string): boolean {
  let values = 0;
  for (let i = 0; i < text.length && values <= VALUES_MAX; i++)
    if (text[i] === "," || text[i] === "[" || text[i] === "{") values++;
  return values > VALUES_MAX;
}

function failureIn(value: unknown): HeardTlsReport["failures"][number] {
  return {
    result: textAt(value, "result-type") ?? "unknown",
    host: textAt(value, "receiving-mx-hostname"),
    sessions: countAt(value, "failed-session-count"),
    why: textAt(value, "failure-reason-code") ?? textAt(value, "additional-information"),
  };
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}

function listAt(value: unknown, name: string): unknown[] {
  const found = fieldOf(value, name);
  return Array.isArray(found) ? found : [];
}

/** Short, and without anything that a terminal obeys. */
function textAt(value: unknown, name: string): string | null {
  const found = fieldOf(value, name);
  if (typeof found !== "string") return null;
  const short = found
    .slice(0, TEXT_CHARS_MAX)
    .replace(/\p{C}+/gu, " ")
    .toWellFormed()
    .trim();
  return short === "" ? null : short;
}

/** Some write numbers as texts. */
function countAt(value: unknown, name: string): number {
  const found = Number(fieldOf(value, name));
  return Number.isSafeInteger(found) && found >= 0 ? found : 0;
}

function dateIn(value: unknown, name: string): Date | null {
  const date = new Date(textAt(value, name) ?? "");
  const year = date.getUTCFullYear();
  return year >= 2000 && year < 3000 ? date : null;
}
