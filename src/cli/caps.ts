/** `postrider caps`: what the sending caps are, why, and what they will be; and setting them by hand. */
import { InvalidArgumentError } from "commander";
import { countsToJudge, overrideOf, setOverride, stateOf } from "../capacity/caps.ts";
import { fitCounts } from "../capacity/fit.ts";
import { forecast, type QuotaAhead } from "../capacity/forecast.ts";
import { heardWith } from "../capacity/heard.ts";
import { policyInForce } from "../capacity/inforce.ts";
import { heldParts } from "../capacity/parts.ts";
import { dayOf } from "../capacity/policy/evidence.ts";
import { unknownOf } from "../capacity/policy/health.ts";
import { suspiciousBursts } from "../capacity/policy/sources.ts";
import { effective, type Level, type Override, type Policy } from "../capacity/policy.ts";
import { readPolicy } from "../capacity/policyfile.ts";
import { sayCount } from "../capacity/report/words.ts";
import { messageOf } from "../caught.ts";
import type { Config } from "../config.ts";
import { keysOf } from "../names.ts";
import {
  type CapacityRow,
  type CapChangeRow,
  countsOfAll,
  findCapacity,
  listCapChanges,
  noteCapUse,
  type TimeSpan,
} from "../record/workspaces/caps.ts";
import { readAccount } from "../record/workspaces/ledgers.ts";
import { advance, sum } from "../rules/ledger.ts";
import type { Overrides } from "../rules/plans.ts";
import type { Context } from "./context.ts";
import {
  CommandError,
  complain,
  type OutputOptions,
  say,
  table,
  time,
  UsageError,
  unknownWorkspace,
} from "./print.ts";
import { instantOf } from "./time.ts";

const HISTORY_SHOWN = 500;
const UNIT_MS: Record<string, number> = { h: 3_600_000, d: 86_400_000 };

type CapsOf = OutputOptions & { workspace: string };
type HistoryOptions = CapsOf & { from?: Date; to?: Date };
type ForecastOptions = CapsOf & { days: number; policy?: Policy };
type FitOptions = OutputOptions & { days: number };
type SetOptions = CapsOf & {
  minimum?: number;
  maximum?: number;
  fixed?: number;
  fixedHour?: number;
  until?: string;
  clear?: boolean;
  by: string;
  reason: string;
};

export async function show(context: Context, options: CapsOf) {
  const { sql, clock, config } = context;
  const now = clock.now();
  const row = await capacityOf(context, options.workspace);
  const account = await readAccount(sql, options.workspace);
  if (!account) throw unknownWorkspace(options.workspace);
  const { ledger, allowance } = account;
  advance(ledger, now);
  const { policy } = await policyInForce(sql);
  const state = stateOf(row, policy);
  const override = overrideOf(row);
  const caps = effective(policy, row.plan, state, override, now);
  await noteCapUse(sql, [options.workspace]);
  const days = await countsToJudge(sql, policy, row, now);
  const about = { policy, plan: row.plan, capDay: caps.day, now };
  const shown = {
    level: state.level,
    cap_day: { used: ledger.capDayUsed, limit: allowance.capDay, grown: state.capDay },
    cap_hour: { used: sum(ledger.hourUsed), limit: allowance.capHour, grown: state.capHour },
    waiting: { transactional: ledger.waiting, automation: ledger.waitingBulk },
    only_transactional: caps.bulkPaused,
    override,
    evaluated_on: state.evaluatedOn,
    hears_reports: config.bounceDomain !== null,
    unknown: unknownOf(policy, days, dayOf(now), heardWith(config)),
    suspicious: suspiciousBursts(policy, days),
    held: heldParts(state.parts ?? {}, about, override),
  };
  const summary = summaryOf(shown);
  say(options, { summary, ...shown }, [...summary, "", ...linesOf(shown, reportsInWords(config))].join("\n"));
}

type ShownCaps = {
  level: Level;
  cap_day: { used: number; limit: number; grown: number };
  cap_hour: { used: number; limit: number; grown: number };
  waiting: { transactional: number; automation: number };
  only_transactional: boolean;
  override: Override | null;
  unknown: readonly string[];
  suspicious: ReturnType<typeof suspiciousBursts>;
  held: ReturnType<typeof heldParts>;
};

function summaryOf({
  level,
  cap_day: day,
  cap_hour: hour,
  waiting,
  only_transactional,
}: ShownCaps): string[] {
  const waits = waiting.transactional + waiting.automation;
  return [
    `The cap is ${sayCount(day.limit)} recipients a day and ${sayCount(hour.limit)} an hour; ${sayCount(day.used)} of the day and ${sayCount(hour.used)} of the hour are used.`,
    `The level is ${level}${only_transactional ? ": only transactional mail goes" : ""}, and ${waits === 0 ? "nothing waits" : `${sayCount(waits)} ${waits === 1 ? "e-mail waits" : "e-mails wait"}`}.`,
  ];
}

function linesOf(shown: ShownCaps, reports: string): string[] {
  const { level, cap_day: day, cap_hour: hour, waiting, only_transactional, override } = shown;
  const { unknown, suspicious, held } = shown;
  return [
    table(
      [
        ["day", day.used, day.limit, day.grown],
        ["hour", hour.used, hour.limit, hour.grown],
      ],
      ["", "used", "cap", "as grown"],
    ),
    `level: ${level}${only_transactional ? "; only transactional mail is sent" : ""}`,
    ...held.map(({ says }) => `held back: ${says}`),
    `waiting: ${sayCount(waiting.transactional)} transactional, ${sayCount(waiting.automation)} of automations`,
    `override: ${override ? overrideText(override) : "none"}`,
    `bounces and complaints after delivery: ${reports}`,
    ...(unknown.length > 0
      ? [`unknown: ${unknown.map((one) => `${one}s`).join(", ")}; growth is slow until they are known`]
      : []),
    ...suspicious.map(
      ({ day, source, measure, events, counted }) =>
        `suspicious: ${events} ${measure}s from ${source} on ${day}, of which ${counted} count`,
    ),
  ];
}

function reportsInWords({ bounceDomain, feedbackAddresses }: Config): string {
  if (bounceDomain !== null) return "received";
  const heard = feedbackAddresses.length > 0 ? "only complaints at FEEDBACK_ADDRESSES are" : "not";
  return `${heard} received, BOUNCE_DOMAIN is not set`;
}

export async function set(context: Context, options: SetOptions) {
  const { sql, clock, keyring, reservations } = context;
  const now = clock.now();
  const override = options.clear ? null : overrideIn(options, now);
  const by = { name: options.by, reason: options.reason };
  const { policy } = await policyInForce(sql);
  const changed = await setOverride(sql, policy, options.workspace, override, by, now);
  if (!changed) throw unknownWorkspace(options.workspace);
  if (changed.version > 0) await keyring.forget(changed.handle, changed.version);
  await reservations.forget(changed.handle);
  const account = await readAccount(sql, options.workspace);
  const { capDay, capHour } = account?.allowance ?? { capDay: 0, capHour: 0 };
  const { limits } = await capacityOf(context, options.workspace);
  const lines = [
    `Caps: ${capDay} a day, ${capHour} an hour.`,
    ...ineffectiveUnder(limits, options.workspace),
  ];
  say(options, { cap_day: capDay, cap_hour: capHour, override }, lines.join("\n"));
}

const CAP_LIMITS = { cap_day: "daily", cap_hour: "hourly" } as const;

/** A limit of the workspace goes before what `caps set` says of the same cap. */
function ineffectiveUnder(limits: Overrides, id: string): string[] {
  return keysOf(CAP_LIMITS)
    .filter((name) => limits[name] !== undefined)
    .map(
      (name) =>
        `\`caps set\` has no effect on the ${CAP_LIMITS[name]} cap: the workspace has its own limit of ${name}. ` +
        `Remove it with \`postrider workspace set ${id} --limit ${name}=default\`.`,
    );
}

function overrideText({ minimum, maximum, fixed, fixedHour, until, by, reason }: Override): string {
  const parts = [
    minimum === null ? null : `at least ${minimum} a day`,
    maximum === null ? null : `at most ${maximum} a day`,
    fixed === null ? null : `${fixed} a day`,
    fixedHour === null ? null : `${fixedHour} an hour`,
  ].filter((part) => part !== null);
  const end = until === null ? "" : ` until ${new Date(until).toISOString()}`;
  return `${parts.join(", ")}${end}, by ${by}: ${reason}`;
}

function overrideIn(
  { minimum, maximum, fixed, fixedHour, until, by, reason }: SetOptions,
  now: number,
): Override {
  if ([minimum, maximum, fixed, fixedHour].every((value) => value === undefined))
    throw new UsageError("Nothing to change: give --minimum, --maximum, --fixed, --fixed-hour or --clear.");
  if (minimum !== undefined && maximum !== undefined && minimum > maximum)
    throw new CommandError("--minimum must not be larger than --maximum.");
  return {
    minimum: minimum ?? null,
    maximum: maximum ?? null,
    fixed: fixed ?? null,
    fixedHour: fixedHour ?? null,
    until: until === undefined ? null : readEnd(until, now),
    by,
    reason,
  };
}

export async function history(context: Context, options: HistoryOptions) {
  const span = { from: options.from ?? null, to: options.to ?? null };
  if (span.from && span.to && span.from >= span.to) throw new CommandError("--from must be before --to.");
  await capacityOf(context, options.workspace);
  const found = await listCapChanges(context.sql, options.workspace, HISTORY_SHOWN + 1, span);
  const rows = found.slice(0, HISTORY_SHOWN);
  const summary = historyInWords(rows, await levelBefore(context, options.workspace, found, span), span);
  if (found.length > rows.length) {
    const left = `Only the newest ${HISTORY_SHOWN} changes are listed. For older ones give --to ${time(rows.at(-1)?.at ?? null)}.`;
    if (options.json) complain(left);
    summary.push(left);
  }
  const text = table(
    rows.map((row) => [
      time(row.at),
      `${row.dayBefore} -> ${row.dayAfter}`,
      `${row.hourBefore} -> ${row.hourAfter}`,
      row.level,
      row.by,
      row.version,
      row.reason,
      numbersIn(row.counts),
    ]),
    ["when", "a day", "an hour", "level", "by", "policy", "why", "numbers"],
  );
  say(options, rows, [...summary, "", text].join("\n"));
}

/** The level that the oldest row shown was taken at: the step to it may be older than the span. */
async function levelBefore(
  { sql }: Context,
  workspace: string,
  found: readonly CapChangeRow[],
  { from }: TimeSpan,
): Promise<string> {
  const [older] =
    found.length > HISTORY_SHOWN
      ? found.slice(HISTORY_SHOWN)
      : from === null
        ? []
        : await listCapChanges(sql, workspace, 1, { from: null, to: from });
  return older?.level ?? "normal";
}

function historyInWords(rows: readonly CapChangeRow[], before: string, { from, to }: TimeSpan): string[] {
  const span = `${from ? ` from ${time(from)}` : ""}${to ? ` until ${time(to)}` : ""}`;
  const [newest, oldest] = [rows[0], rows.at(-1)];
  if (!newest || !oldest)
    return [`The caps did not change${span}${before === "normal" ? "" : `; the level was ${before}`}.`];
  const steps = (["frozen", "paused", "shrunk"] as const).flatMap((level) => {
    const times = rows.filter(
      (row, n) => row.level === level && (rows[n + 1]?.level ?? before) !== level,
    ).length;
    return times === 0 ? [] : [`${level} ${timesInWords(times)}`];
  });
  const inParts = rows.filter(isStepAgainstPart).length;
  const taken = [
    ...(before === "normal" ? [] : [`it was ${before} before`]),
    ...(steps.length === 0 ? [] : [`it was ${steps.join(", ")}`]),
    ...(inParts === 0 ? [] : [`a part of its mail was held back ${timesInWords(inParts)}`]),
    ...(steps.length + inParts === 0 ? ["no step was taken against it"] : []),
    ...(newest.level === "normal" ? [] : [`at the end it was ${newest.level}`]),
  ];
  return [
    `${rows.length === 1 ? "1 change" : `${sayCount(rows.length)} changes`}${span}: the cap went from ${sayCount(oldest.dayBefore)} to ${sayCount(newest.dayAfter)} a day; ${taken.join("; ")}.`,
  ];
}

function timesInWords(times: number): string {
  return times === 1 ? "once" : `${sayCount(times)} times`;
}

/** See parts.ts: how its level changes otherwise is the way back. */
function isStepAgainstPart({ counts }: CapChangeRow): boolean {
  const { part, events } = (counts ?? {}) as { part?: unknown; events?: unknown };
  return part !== undefined && events !== undefined;
}

/** `events=43 of=120 limit=0.06` */
function numbersIn(counts: unknown): string | null {
  if (counts === null || typeof counts !== "object") return null;
  const numbers = Object.entries(counts).filter(([, value]) => ["number", "string"].includes(typeof value));
  return numbers
    .map(([name, value]) => `${name}=${typeof value === "number" ? short(value) : value}`)
    .join(" ");
}

function short(value: number): number {
  return Number.isInteger(value) ? value : Number(value.toPrecision(3));
}

export async function showForecast(context: Context, options: ForecastOptions) {
  const { sql, clock, config } = context;
  const { workspace, days } = options;
  const now = clock.now();
  const row = await capacityOf(context, workspace);
  const policy = options.policy ?? (await policyInForce(sql)).policy;
  await noteCapUse(sql, [workspace]);
  const counts = await countsToJudge(sql, policy, row, now);
  const about = { quota: await quotaOf(context, workspace), heard: heardWith(config) };
  const state = stateOf(row, policy);
  const ahead = forecast(policy, row.plan, state, counts, overrideOf(row), now, days, about);
  const text = table(
    ahead.map(({ day, likely, most }) => [
      day,
      likely.capDay,
      likely.used,
      likely.heldBy,
      likely.level,
      most.capDay,
      likely.reason,
    ]),
    ["day", "cap", "sent", "held by", "level", "cap if used in full", "why"],
  );
  const { day: capDay } = effective(policy, row.plan, state, overrideOf(row), now);
  say(options, ahead, [...forecastInWords(capDay, ahead, days), "", text].join("\n"));
}

function forecastInWords(
  capDay: number,
  ahead: Awaited<ReturnType<typeof forecast>>,
  days: number,
): string[] {
  const last = ahead.at(-1);
  if (!last) return [];
  const held = ahead.filter(({ likely }) => likely.heldBy !== null).length;
  return [
    `If traffic stays as in the last week, the cap is likely to go from ${sayCount(capDay)} to ${sayCount(last.likely.capDay)} a day in ${days} ${days === 1 ? "day" : "days"}; if all of each cap is used, to ${sayCount(last.most.capDay)}.`,
    held === 0
      ? "Nothing is likely to wait."
      : `On ${held} of these days mail is likely to be held back; the column says by what.`,
  ];
}

export async function showFit({ sql, clock }: Context, options: FitOptions) {
  const fitted = fitCounts(await countsOfAll(sql, clock.now(), options.days));
  const { notes, workspaces, days } = fitted;
  const of = `${sayCount(workspaces)} ${workspaces === 1 ? "workspace" : "workspaces"}`;
  const about = `From ${sayCount(days)} ${days === 1 ? "day" : "days"} of mail of ${of}:`;
  say(options, { summary: about, ...fitted }, [about, ...notes.map((note) => `  ${note}`)].join("\n"));
}

async function quotaOf({ sql, clock }: Context, workspaceId: string): Promise<QuotaAhead> {
  const account = await readAccount(sql, workspaceId);
  if (!account) throw unknownWorkspace(workspaceId);
  const { ledger, allowance } = account;
  advance(ledger, clock.now());
  const { monthLimit, dayLimit } = allowance;
  return { monthLeft: Math.max(0, monthLimit - ledger.monthUsed), monthLimit, dayLimit };
}

async function capacityOf({ sql }: Context, workspaceId: string): Promise<CapacityRow> {
  const row = await findCapacity(sql, workspaceId);
  if (!row) throw unknownWorkspace(workspaceId);
  return row;
}

export function readPolicyFile(path: string): Policy {
  try {
    return readPolicy(path);
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error));
  }
}

function readEnd(text: string, now: number): number {
  const span = /^(\d{1,4})([hd])$/.exec(text);
  const end = span ? now + Number(span[1]) * (UNIT_MS[span[2] as string] as number) : instantOf(text);
  if (end === null || end <= now)
    throw new CommandError(
      `--until ${text} is not a time in the future. Write 12h, 7d, or a time with an offset, such as 2026-11-20T20:07:38Z.`,
    );
  return end;
}
