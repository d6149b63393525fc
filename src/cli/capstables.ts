/**
 * `postrider caps tables`: what the statistics of a policy cost healthy senders, and what they let through.
 */
import type { Measure } from "../capacity/policy/evidence.ts";
import { percent } from "../capacity/policy/evidence.ts";
import { DEFAULT_POLICY, type Policy } from "../capacity/policy.ts";
import {
  POWER_MULTIPLES,
  POWER_VOLUMES,
  type Power,
  type PowerTables,
  powerTables,
} from "../capacity/power.ts";
import { sayCount, sayPolicy } from "../capacity/report/words.ts";
import { type OutputOptions, say } from "./print.ts";
import { progressBar } from "./simulate.ts";

type TablesOptions = OutputOptions & { policy?: { name: string; value: Policy }; runs: number };

export function tables(options: TablesOptions): void {
  const { name, value } = options.policy ?? { name: "default", value: DEFAULT_POLICY };
  const bar = progressBar();
  const tables = powerTables(value, options.runs, bar.show);
  bar.clear();
  const summary = `Under ${sayPolicy(name)}, ${summaryOf(tables)}`;
  say(options, { summary, ...tables }, inWords(summary, tables));
}

export function summaryOf({ days, rates }: PowerTables): string {
  const healthy = rates.filter(({ multiple }) => multiple < 1);
  const worst = healthy.reduce((most, one) => (one.heldPer1000 > most.heldPer1000 ? one : most));
  const caught = rates.filter(({ measure, multiple }) => measure === "bounce" && multiple === 2);
  const said = caught.map((power) => `${beforeStep(power)} at ${sayCount(power.perDay)} a day`);
  return `of 1,000 healthy senders at most ${sayCount(worst.heldPer1000)} (up to ${sayCount(worst.heldHigh)} with 95% confidence) are held back in ${days} days; of a list with twice the limit of bounces, before the first step: ${said.join(", ")}.`;
}

function beforeStep({ sentBeforeStep, heldPer1000 }: Power): string {
  return sentBeforeStep === null
    ? `all of it, since only ${sayCount(heldPer1000 / 10)}% are caught,`
    : `${sayCount(sentBeforeStep)} e-mails`;
}

function inWords(summary: string, { days, rates, trade }: PowerTables): string {
  return [
    summary,
    ...(["bounce", "complaint"] as const).flatMap((measure) => [
      "",
      `Held back within ${days} days, of 1,000 senders below the limit of ${measure}s (95% interval):`,
      "",
      rateTable(rates, measure, (multiple) => multiple < 1, held),
      "",
      `E-mails before the first step, the median of senders over the limit of ${measure}s:`,
      "",
      rateTable(rates, measure, (multiple) => multiple > 1, sent),
    ]),
    "",
    "The trade: the same with other values of `evidence.errors_per_month`, for bounces.",
    "",
    markdown(
      ["a day", "errors_per_month", "held back at 0.98 x the limit", "e-mails before the first step at 2 x"],
      trade.map(({ errorsPerMonth, healthy, bad }) => [
        sayCount(healthy.perDay),
        String(errorsPerMonth),
        held(healthy),
        sent(bad),
      ]),
    ),
  ].join("\n");
}

function rateTable(
  rates: readonly Power[],
  measure: Measure,
  isAsked: (multiple: number) => boolean,
  cell: (power: Power) => string,
): string {
  const asked = POWER_MULTIPLES.filter(isAsked);
  const of = (perDay: number, multiple: number) =>
    rates.find(
      (one) => one.measure === measure && one.perDay === perDay && one.multiple === multiple,
    ) as Power;
  const first = POWER_VOLUMES[0] as number;
  return markdown(
    ["a day", ...asked.map((multiple) => `${multiple} x (${percent(of(first, multiple).rate)})`)],
    POWER_VOLUMES.map((perDay) => [sayCount(perDay), ...asked.map((multiple) => cell(of(perDay, multiple)))]),
  );
}

function held({ heldPer1000, heldLow, heldHigh }: Power): string {
  return `${sayCount(heldPer1000)} (${sayCount(Math.floor(heldLow))}-${sayCount(Math.ceil(heldHigh))})`;
}

function sent({ sentBeforeStep, heldPer1000 }: Power): string {
  return sentBeforeStep === null
    ? `never (${sayCount(heldPer1000 / 10)}% are caught)`
    : sayCount(sentBeforeStep);
}

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
