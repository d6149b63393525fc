/**
 * `postrider caps replay` and `caps compare`: what another policy would have done with the mail that really
 * came.
 */
import { InvalidArgumentError } from "commander";
import { heardWith } from "../capacity/heard.ts";
import { policyInForce } from "../capacity/inforce.ts";
import { type Policy, policyVersion } from "../capacity/policy.ts";
import { readPolicy } from "../capacity/policyfile.ts";
import { addTotals, type CapTotals, type Replay, type ReplayedDay } from "../capacity/replay.ts";
import { REPLAYED_DAYS_MAX, replayWorkspace } from "../capacity/replayed.ts";
import { counted, sayCount } from "../capacity/report/words.ts";
import { shadowInForce } from "../capacity/shadow.ts";
import { messageOf } from "../caught.ts";
import { DAY_MS } from "../clock.ts";
import { busiestWorkspaces } from "../record/workspaces/caps.ts";
import { countShadowSteps, countSteps, listShadowChanges } from "../record/workspaces/shadow.ts";
import { REPLAYED_WORKSPACES_MAX } from "./commands/limits.ts";
import type { Context } from "./context.ts";
import { CommandError, type OutputOptions, say, table, time, unknownWorkspace } from "./print.ts";

const WEEK_MS = 7 * DAY_MS;
const STEPS_SHOWN = 100;

type ReplayOptions = OutputOptions & { workspace?: string; from?: Date; to?: Date; policy: Policy };
type CompareOptions = OutputOptions & { workspace?: string };
type Replayed = { workspace: string } & Replay;

export async function showReplay(context: Context, options: ReplayOptions) {
  const { sql, clock } = context;
  const now = clock.now();
  const to = Math.min(now, options.to?.getTime() ?? now);
  const from = options.from?.getTime() ?? to - WEEK_MS;
  checkSpan(from, to, now);
  const { all, others } = await replayAll(context, options.policy, options.workspace ?? null, from, to);
  const ids = all.map(({ workspace }) => workspace);
  const one = options.workspace === undefined ? null : all[0];
  const totals = addTotals(all.map((replayed) => replayed.totals));
  const actual = {
    ...addTotals(all.map((replayed) => replayed.actual)),
    ...(await countSteps(sql, ids, new Date(from), new Date(to))),
  };
  const censored = all.reduce((sum, { days }) => sum + days.filter((day) => day.censored).length, 0);
  const summary = [
    ...about(`From ${iso(from)} to ${iso(to)}`, all, others),
    ...differences(all, actual, totals, ["Really", "This policy"]),
    ...(censored > 0
      ? [
          `${censored === 1 ? "1 day is" : `${sayCount(censored)} days are`} partly assumed (marked *): mail waited then, or more would have gone than really did.`,
        ]
      : []),
  ];
  const value = one ? { summary, ...one, totals, actual } : { summary, actual, totals, workspaces: all };
  say(options, value, [...summary, "", one ? daysTable(one) : workspacesTable(all)].join("\n"));
}

export async function compare(context: Context, options: CompareOptions) {
  const { sql, clock } = context;
  const workspace = options.workspace ?? null;
  const shadow = await shadowInForce(sql);
  if (shadow === null)
    throw new CommandError(
      "There is no shadow policy. `postrider caps policy shadow FILE` lets one be judged beside the policy in force.",
    );
  const now = clock.now();
  const from = shadow.since.getTime();
  const { version } = await policyInForce(sql);
  const { all, others } = await replayAll(context, shadow.policy, workspace, from, now);
  const ids = all.map((one) => one.workspace);
  const inForce = {
    ...addTotals(all.map(({ actual }) => actual)),
    ...(await countSteps(sql, ids, shadow.since, new Date(now))),
  };
  const beside = {
    ...addTotals(all.map(({ totals }) => totals)),
    ...(await countShadowSteps(sql, ids)),
  };
  const steps = await listShadowChanges(sql, ids, STEPS_SHOWN);
  const summary = [
    ...about(`Since ${iso(from)}`, all, others),
    ...differences(all, inForce, beside, ["The policy in force", "The shadow policy"]),
  ];
  const value = {
    summary,
    since: iso(from),
    shadow: { digest: policyVersion(shadow.policy), author: shadow.author },
    version,
    in_force: inForce,
    beside,
    steps: steps.map(({ at, ...one }) => ({ at: time(at), ...one })),
  };
  const rows = steps.map((one) => [
    time(one.at),
    one.workspaceId,
    `${one.dayBefore} -> ${one.dayAfter}`,
    one.level,
    one.reason,
  ]);
  const text = [
    ...summary,
    "",
    "What the shadow policy would have done:",
    table(rows, ["when", "workspace", "a day", "level", "why"]),
  ];
  say(options, value, text.join("\n"));
}

async function replayAll(
  context: Context,
  policy: Policy,
  workspace: string | null,
  from: number,
  to: number,
): Promise<{ all: Replayed[]; others: number }> {
  const { ids, total } =
    workspace === null
      ? await busiestWorkspaces(context.sql, from, to, REPLAYED_WORKSPACES_MAX)
      : { ids: [workspace], total: 1 };
  const all: Replayed[] = [];
  const heard = heardWith(context.config);
  for (const id of ids) {
    const replayed = await replayWorkspace(context.sql, { workspaceId: id, policy, from, to, heard });
    if (!replayed) throw unknownWorkspace(id);
    all.push({ workspace: id, ...replayed });
  }
  return { all, others: total - ids.length };
}

/** Every number after it is of these workspaces. */
function about(span: string, all: readonly Replayed[], others: number): string[] {
  if (all.length === 0) return [`${span} no workspace has sent anything: nothing was seen yet.`];
  const which = others === 0 ? "" : ` that sent most, of ${sayCount(all.length + others)}`;
  return [`${span}, ${all.length} ${all.length === 1 ? "workspace" : "workspaces"}${which}:`];
}

function checkSpan(from: number, to: number, now: number): void {
  if (from >= to) throw new CommandError("--from must be before --to, and in the past.");
  if (now - from > REPLAYED_DAYS_MAX * DAY_MS)
    throw new CommandError(`--from is more than ${REPLAYED_DAYS_MAX} days ago; older counts are not kept.`);
}

function differences(
  all: readonly Replayed[],
  before: CapTotals,
  after: CapTotals,
  [first, second]: readonly [string, string],
): string[] {
  if (all.length === 0) return [];
  const words = ({ sent, bad, waiting_hours, delayed, freezes, pauses, shrinks }: CapTotals) =>
    `${counted(sent, "recipient sent to", "recipients sent to")}, ${sayCount(bad)} bounced or complained, ${sayCount(delayed)} waited (${counted(waiting_hours, "recipient-hour")}), ${counted(freezes, "freeze")}, ${counted(pauses, "pause")}, ${counted(shrinks, "cut")}`;
  const coarse = all.reduce((sum, { days }) => sum + days.filter(isCoarse).length, 0);
  const compared = COMPARED.filter(([name]) => coarse === 0 || !WAITS.has(name));
  const changes = compared.flatMap(([name, what, several]) => {
    const by = Math.round(after[name] - before[name]);
    const how = by > 0 ? "more" : "fewer";
    return by === 0 ? [] : [counted(Math.abs(by), `${how} ${what}`, `${how} ${several}`)];
  });
  return [
    `${first}: ${words(before)}.`,
    `${second}: ${words(after)}.`,
    changes.length === 0 ? "There is no difference." : `The difference: ${changes.join(", ")}.`,
    ...(coarse === 0
      ? []
      : [
          `${coarse === 1 ? "1 day is" : `${sayCount(coarse)} days are`} known as a whole only: what waited is not compared.`,
        ]),
  ];
}

const COMPARED = [
  ["sent", "recipient sent to", "recipients sent to"],
  ["bad", "bad e-mail", "bad e-mails"],
  ["delayed", "recipient that waited", "recipients that waited"],
  ["waiting_hours", "recipient-hour", "recipient-hours"],
  ["freezes", "freeze", "freezes"],
  ["pauses", "pause", "pauses"],
  ["shrinks", "cut", "cuts"],
] as const satisfies [keyof CapTotals, string, string][];
const WAITS: ReadonlySet<keyof CapTotals> = new Set(["delayed", "waiting_hours"]);

/** Nobody knows when its mail came, so that under the very same policy other mail would wait. */
function isCoarse({ resolution, actual, used }: ReplayedDay): boolean {
  return resolution === "1 hour" && actual + used > 0;
}

function daysTable({ days }: Replay): string {
  const rows = days.map((one) => [
    `${one.day}${one.censored ? "*" : ""}`,
    one.resolution,
    one.capDay,
    one.capHour,
    one.level,
    one.used,
    one.actual,
    one.over,
    one.reasons.join(" "),
  ]);
  return table(rows, ["day", "resolution", "cap", "an hour", "level", "sent", "really", "waits", "why"]);
}

function workspacesTable(all: readonly Replayed[]): string {
  const rows = all.map(({ workspace, totals, actual, steps }) => [
    workspace,
    actual.sent,
    totals.sent,
    totals.bad - actual.bad,
    Math.round(totals.waiting_hours - actual.waiting_hours),
    steps.length,
  ]);
  return table(rows, ["workspace", "really sent", "sent", "bad mail +/-", "recipient-hours +/-", "steps"]);
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

export function readFile(path: string): Policy {
  try {
    return readPolicy(path);
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error));
  }
}
