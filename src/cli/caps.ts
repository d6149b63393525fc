/** `postrider caps`: what the sending caps are, why, and what they will be; and setting them by hand. */
import { Command, InvalidArgumentError } from "commander";
import { daysOf, overrideOf, setOverride, stateOf } from "../capacity/caps.ts";
import { forecast, replay } from "../capacity/forecast.ts";
import {
  COUNTED_DAYS_MAX,
  DEFAULT_POLICY,
  effective,
  type Override,
  type Policy,
} from "../capacity/policy.ts";
import { readPolicy } from "../capacity/policyfile.ts";
import { CAP_MIN, OVERRIDE_MAX } from "../plans.ts";
import {
  type CapacityRow,
  dailyCounts,
  findCapacity,
  listCapChanges,
  noteCapUse,
} from "../record/capacity.ts";
import { advance, sum } from "../record/ledger.ts";
import { readAccount } from "../record/ledgers.ts";
import { CommandError, type Context, type Output, say, table, time, withContext } from "./context.ts";
import { simulateCommand } from "./simulate.ts";
import { readId } from "./workspace.ts";

const HISTORY_SHOWN = 50;
const FORECAST_DAYS_MAX = 365;
const REPLAYED_DAYS_MAX = 400;
const UNIT_MS: Record<string, number> = { h: 3_600_000, d: 86_400_000 };

type Of = Output & { workspace: string };
type ForecastOptions = Of & { days: number; policy?: Policy };
type ReplayOptions = Of & { policy: Policy };
type SetOptions = Of & {
  minimum?: number;
  maximum?: number;
  fixed?: number;
  fixedHour?: number;
  until?: string;
  clear?: boolean;
  by: string;
  reason: string;
};

export function capsCommand(): Command {
  const command = new Command("caps").description("sending caps: how much a workspace may send, and why");
  command
    .command("show")
    .requiredOption("--workspace <id>", "whose", readId)
    .option("--json", "as JSON")
    .description("the caps in force, what is used of them and what waits")
    .action((options: Of) => withContext((context) => show(context, options)));
  command
    .command("set")
    .requiredOption("--workspace <id>", "whose", readId)
    .option("--minimum <n>", "recipients a day that the policy may not go below", readCap)
    .option("--maximum <n>", "recipients a day that the policy may not go above", readCap)
    .option("--fixed <n>", "recipients a day, whatever the policy says", readCap)
    .option("--fixed-hour <n>", "recipients an hour, whatever the policy says", readCap)
    .option("--until <time>", "when it ends: RFC 3339, or 12h, or 7d; default: never")
    .option("--clear", "take back what was set")
    .requiredOption("--reason <text>", "for the history")
    .requiredOption("--by <name>", "for the history")
    .option("--json", "as JSON")
    .description("sets the caps by hand")
    .action((options: SetOptions) => withContext((context) => set(context, options)));
  command
    .command("history")
    .requiredOption("--workspace <id>", "whose", readId)
    .option("--json", "as JSON")
    .description("every change with its reason, newest first")
    .action((options: Of) => withContext((context) => history(context, options)));
  command
    .command("forecast")
    .requiredOption("--workspace <id>", "whose", readId)
    .option("--days <n>", "how far ahead", readDays, 14)
    .option("--policy <file>", "under another policy than the one in force", readPolicyFile)
    .option("--json", "as JSON")
    .description("the caps of the days to come, if mail goes on as in the last week")
    .action((options: ForecastOptions) => withContext((context) => showForecast(context, options)));
  command
    .command("replay")
    .requiredOption("--workspace <id>", "whose", readId)
    .requiredOption("--policy <file>", "the policy", readPolicyFile)
    .option("--json", "as JSON")
    .description("what the caps would have been, had a policy decided over the days on record")
    .action((options: ReplayOptions) => withContext((context) => showReplay(context, options)));
  return command.addCommand(simulateCommand());
}

async function show(context: Context, options: Of) {
  const { sql, clock, config } = context;
  const now = clock.now();
  const hearsReports = config.bounceDomain !== null;
  const row = await capacityOf(context, options.workspace);
  const account = await readAccount(sql, options.workspace);
  if (!account) throw unknownWorkspace(options.workspace);
  const { ledger, allowance } = account;
  advance(ledger, now);
  const policy = policyInForce(context);
  const state = stateOf(row, policy);
  const override = overrideOf(row);
  const caps = effective(policy, row.plan, state, override, now);
  const value = {
    level: state.level,
    cap_day: { used: ledger.capDayUsed, limit: allowance.capDay, grown: state.capDay },
    cap_hour: { used: sum(ledger.hourUsed), limit: allowance.capHour, grown: state.capHour },
    waiting: { transactional: ledger.waiting, automation: ledger.waitingBulk },
    only_transactional: caps.bulkPaused,
    override,
    evaluated_on: state.evaluatedOn,
    hears_reports: hearsReports,
  };
  const lines = [
    table(
      [
        ["day", ledger.capDayUsed, allowance.capDay, state.capDay],
        ["hour", sum(ledger.hourUsed), allowance.capHour, state.capHour],
      ],
      ["", "used", "cap", "as grown"],
    ),
    `level: ${state.level}${caps.bulkPaused ? "; only transactional mail goes" : ""}`,
    `waiting: ${ledger.waiting} transactional, ${ledger.waitingBulk} of automations`,
    `set by hand: ${override ? JSON.stringify(override) : "nothing"}`,
    `bounces and complaints after delivery: ${hearsReports ? "heard" : "not heard, BOUNCE_DOMAIN is not set"}`,
  ];
  say(options, value, lines.join("\n"));
}

async function set(context: Context, options: SetOptions) {
  const { sql, clock, keyring, reservations } = context;
  const now = clock.now();
  const override = options.clear ? null : overrideIn(options, now);
  const by = { name: options.by, reason: options.reason };
  const changed = await setOverride(sql, policyInForce(context), options.workspace, override, by, now);
  if (!changed) throw unknownWorkspace(options.workspace);
  if (changed.version > 0) await keyring.forget(changed.handle, changed.version);
  await reservations.forget(changed.handle);
  const account = await readAccount(sql, options.workspace);
  const { capDay, capHour } = account?.allowance ?? { capDay: 0, capHour: 0 };
  say(
    options,
    { cap_day: capDay, cap_hour: capHour, override },
    `Caps: ${capDay} a day, ${capHour} an hour.`,
  );
}

function overrideIn(
  { minimum, maximum, fixed, fixedHour, until, by, reason }: SetOptions,
  now: number,
): Override {
  if ([minimum, maximum, fixed, fixedHour].every((value) => value === undefined))
    throw new CommandError("Nothing to set: give --minimum, --maximum, --fixed, --fixed-hour or --clear.");
  if (minimum !== undefined && maximum !== undefined && minimum > maximum)
    throw new CommandError("--minimum must not be over --maximum.");
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

async function history({ sql }: Context, options: Of) {
  const rows = await listCapChanges(sql, options.workspace, HISTORY_SHOWN);
  const text = table(
    rows.map((row) => [
      time(row.at),
      `${row.dayBefore} -> ${row.dayAfter}`,
      `${row.hourBefore} -> ${row.hourAfter}`,
      row.level,
      row.by,
      row.reason,
    ]),
    ["when", "a day", "an hour", "level", "by", "why"],
  );
  say(options, rows, text);
}

async function showForecast(context: Context, options: ForecastOptions) {
  const { sql, clock } = context;
  const { workspace, days } = options;
  const now = clock.now();
  const row = await capacityOf(context, workspace);
  const policy = options.policy ?? policyInForce(context);
  await noteCapUse(sql, [workspace]);
  const counts = daysOf(await dailyCounts(sql, [workspace], now, COUNTED_DAYS_MAX));
  const ahead = forecast(policy, row.plan, stateOf(row, policy), counts, overrideOf(row), now, days);
  const text = table(
    ahead.map(({ day, likely, most }) => [
      day,
      likely.capDay,
      likely.used,
      likely.level,
      most.capDay,
      likely.reason,
    ]),
    ["day", "cap", "sent", "level", "cap at most", "why"],
  );
  say(options, ahead, text);
}

async function showReplay(context: Context, options: ReplayOptions) {
  const { sql, clock } = context;
  const { workspace, policy } = options;
  const { plan } = await capacityOf(context, workspace);
  const counts = daysOf(await dailyCounts(sql, [workspace], clock.now(), REPLAYED_DAYS_MAX));
  const replayed = replay(policy, plan, counts);
  const text = table(
    replayed.map((one) => [
      one.day,
      one.capDay,
      one.capHour,
      one.level,
      one.used,
      one.over,
      one.reasons.join(" "),
    ]),
    ["day", "cap", "an hour", "level", "sent", "over the cap", "why"],
  );
  say(options, replayed, text);
}

async function capacityOf({ sql }: Context, workspaceId: string): Promise<CapacityRow> {
  const row = await findCapacity(sql, workspaceId);
  if (!row) throw unknownWorkspace(workspaceId);
  return row;
}

function policyInForce({ config }: Context): Policy {
  return config.capsPolicy === null ? DEFAULT_POLICY : readPolicy(config.capsPolicy);
}

function unknownWorkspace(id: string): CommandError {
  return new CommandError(`There is no workspace ${id}.`);
}

function readCap(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < CAP_MIN || value > OVERRIDE_MAX)
    throw new InvalidArgumentError(`It must be a whole number from ${CAP_MIN} to ${OVERRIDE_MAX}.`);
  return value;
}

function readDays(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 1 || value > FORECAST_DAYS_MAX)
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${FORECAST_DAYS_MAX}.`);
  return value;
}

function readPolicyFile(path: string): Policy {
  try {
    return readPolicy(path);
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

function readEnd(text: string, now: number): number {
  const span = /^(\d{1,4})([hd])$/.exec(text);
  const end = span ? now + Number(span[1]) * (UNIT_MS[span[2] as string] as number) : Date.parse(text);
  if (Number.isNaN(end) || end <= now) throw new CommandError(`--until ${text} is not a time to come.`);
  return end;
}
