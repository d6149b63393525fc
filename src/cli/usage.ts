/** `postrider usage`: what a workspace has used of its quota and its caps, and what waits. */
import { sayCount } from "../capacity/report/words.ts";
import { readAccount } from "../record/workspaces/ledgers.ts";
import { advance, sum } from "../rules/ledger.ts";
import type { Context } from "./context.ts";
import { type OutputOptions, say, table, unknownWorkspace } from "./print.ts";

export async function usage({ sql, clock }: Context, options: OutputOptions & { workspace: string }) {
  const account = await readAccount(sql, options.workspace);
  if (!account) throw unknownWorkspace(options.workspace);
  const { ledger, allowance, plan } = account;
  advance(ledger, clock.now());
  const value = {
    plan,
    emails_per_day: { used: ledger.dayUsed, limit: allowance.dayLimit },
    emails_per_month: { used: ledger.monthUsed, limit: allowance.monthLimit },
    cap_hour: { used: sum(ledger.hourUsed), limit: allowance.capHour },
    cap_day: { used: ledger.capDayUsed, limit: allowance.capDay },
    waiting: ledger.waiting + ledger.waitingBulk,
  };
  const { plan: _plan, waiting, ...counts } = value;
  const rows = Object.entries(counts).map(([name, { used, limit }]) => [name, used, limit ?? "no limit"]);
  say(options, value, `${table(rows, ["", "used", "limit"])}\nwaiting for a cap: ${sayCount(waiting)}`);
}
