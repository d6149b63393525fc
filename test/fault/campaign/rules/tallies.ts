/**
 * Counts against what is counted. The sums of the tallies are the outcomes in the histories of the e-mails,
 * and no recipient has more outcomes than there were transactions that named it.
 */
import type { Aftermath, FinalEmail, History, Violation } from "../history.ts";
import { ERASED } from "./fates.ts";

type Sums = { attempted: number; delivered: number; deferred: number; bounced: number; failed: number };
const NAMES = ["attempted", "delivered", "deferred", "bounced", "failed"] as const;

export function judgeTallies(history: History, after: Aftermath): Violation[] {
  return [
    ...history.tenants.flatMap((tenant) => {
      const mails = after.emails.filter(({ workspaceId }) => workspaceId === tenant.id);
      const [least, most] = [sumsOf(mails, true), sumsOf(mails, false)];
      const counted = sum(after.tallies.filter(({ workspaceId }) => workspaceId === tenant.id));
      const wrong = NAMES.filter((name) => counted[name] < least[name] || counted[name] > most[name]);
      return wrong.map((name) => ({
        rule: "tally",
        subject: tenant.name,
        what: `the tallies count ${counted[name]} ${name}, and the e-mails say ${least[name]}`,
        evidence: [JSON.stringify(counted), JSON.stringify(least)],
      }));
    }),
    ...after.emails.flatMap((email) => outcomesTooMany(email, history)),
  ];
}

/**
 * Of a mail somebody was struck out of, nobody can say how many recipients the first attempt had: none at
 * least. Who is suppressed was so before it, and not tried, or only after it.
 */
function sumsOf(mails: readonly FinalEmail[], isLeast: boolean): Sums {
  const sums: Sums = { attempted: 0, delivered: 0, deferred: 0, bounced: 0, failed: 0 };
  for (const { marks, weight, attempts, events, status } of mails) {
    if (attempts > 0) sums.attempted += isLeast ? leastTried(marks, weight) : weight;
    for (const { type, recipient } of events) {
      if (recipient === undefined) continue;
      if (type === "delivered") sums.delivered++;
      if (type === "bounced") sums.bounced++;
      if (type === "delivery_delayed") sums.deferred++;
    }
    if (status === "failed") sums.failed++;
  }
  return sums;
}

function leastTried(marks: string, weight: number): number {
  return marks.includes("x") ? 0 : weight - (marks.split("s").length - 1);
}

function sum(tallies: readonly Sums[]): Sums {
  const sums: Sums = { attempted: 0, delivered: 0, deferred: 0, bounced: 0, failed: 0 };
  for (const tally of tallies) for (const name of NAMES) sums[name] += tally[name];
  return sums;
}

/**
 * The connection broke before the sink can have read whom the mail is to: it was sent, and nobody heard it.
 */
const BEFORE_ITS_NAME = /awaiting the answer to MAIL$/;

/** Only where each e-mail has recipients of its own, as mail from callers has. */
function outcomesTooMany(email: FinalEmail, { named }: History): Violation[] {
  if (email.isAutomated) return [];
  const outcomes = new Map<string, number>();
  for (const { recipient, detail } of email.events)
    if (recipient !== undefined && !ERASED.test(recipient) && !BEFORE_ITS_NAME.test(detail ?? ""))
      outcomes.set(recipient, (outcomes.get(recipient) ?? 0) + 1);
  return [...outcomes].flatMap(([recipient, count]) => {
    const times = named.get(recipient.toLowerCase())?.times ?? 0;
    if (count <= times) return [];
    return [
      {
        rule: "outcome twice",
        subject: email.id,
        what: `it has ${count} outcomes for ${recipient}, whom the sink was named ${times} times`,
        evidence: email.events.map((event) => JSON.stringify(event)),
      },
    ];
  });
}
