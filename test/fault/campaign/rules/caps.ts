/**
 * Sending caps, as the sink saw them: in no window of an hour more recipients than the cap that was in force,
 * and of what waits the oldest first. A permitted repetition is no grant: a recipient of an e-mail counts
 * once.
 */
import {
  type Aftermath,
  type CapStage,
  type Copy,
  type History,
  type Operation,
  toldIds,
  type Violation,
} from "../history.ts";
import { clockOf } from "./repeats.ts";

const HOUR_MS = 3_600_000;

type Arrival = { at: number; emailId: string; recipients: number };

export function judgeCaps(
  history: History,
  after: Aftermath | null,
): { over: number; violations: Violation[] } {
  const violations: Violation[] = [];
  let over = 0;
  for (const tenant of history.tenants.filter(({ isCapped }) => isCapped)) {
    const stages = history.caps.filter(({ workspaceId }) => workspaceId === tenant.id);
    const operations = history.operations.filter(({ workspaceId }) => workspaceId === tenant.id);
    const ids = new Set(operations.flatMap((one) => toldIds(one).map(({ id }) => id)));
    const numbers = new Set(operations.map(({ n }) => n));
    const own = history.copies.filter(
      ({ emailId, origin }) => ids.has(emailId) || numbers.has(numberIn(origin)),
    );
    const excess = worstHour(arrivalsOf(own), stages);
    if (excess) {
      over += excess.count - excess.cap;
      violations.push({
        rule: "over cap",
        subject: tenant.name,
        what: `${excess.count} recipients in the hour before ${clockOf(excess.at)}, under a cap of ${excess.cap}`,
        evidence: stages.map(({ at, cap }) => `from ${clockOf(at)} on the cap was ${cap}`),
      });
    }
    violations.push(...overtakings(operations, arrivalsOf(own), stages, after));
  }
  return { over, violations };
}

/** Each recipient of an e-mail on its first arrival, in order. */
function arrivalsOf(copies: readonly Copy[]): Arrival[] {
  const seen = new Set<string>();
  const arrivals: Arrival[] = [];
  for (const { emailId, recipients, completeAt } of [...copies].sort((a, b) => a.completeAt - b.completeAt)) {
    const fresh = recipients.filter((recipient) => !seen.has(`${emailId} ${recipient}`));
    for (const recipient of fresh) seen.add(`${emailId} ${recipient}`);
    if (fresh.length > 0) arrivals.push({ at: completeAt, emailId, recipients: fresh.length });
  }
  return arrivals;
}

function capAt(stages: readonly CapStage[], at: number): number {
  let cap = Number.POSITIVE_INFINITY;
  for (const stage of stages) if (stage.at <= at) cap = stage.cap;
  return cap;
}

/** The arrival with which a window of an hour was overfull by most. */
function worstHour(arrivals: readonly Arrival[], stages: readonly CapStage[]) {
  let worst: { at: number; count: number; cap: number } | null = null;
  let count = 0;
  let first = 0;
  for (const { at, recipients } of arrivals) {
    count += recipients;
    for (; (arrivals[first] as Arrival).at <= at - HOUR_MS; first++)
      count -= (arrivals[first] as Arrival).recipients;
    const cap = capAt(stages, at);
    if (count > cap && (!worst || count - cap > worst.count - worst.cap)) worst = { at, count, cap };
  }
  return worst;
}

/**
 * Just before the cap rises: whatever was accepted before another e-mail was even asked for, and has not been
 * seen while that other one has, must have had its turn too. What has had its turn and was not seen yet,
 * because it is deferred or lies in the hands of a worker, is at most what the cap allows beyond what was
 * seen.
 */
function overtakings(
  operations: readonly Operation[],
  arrivals: readonly Arrival[],
  stages: readonly CapStage[],
  after: Aftermath | null,
): Violation[] {
  const arrivedAt = new Map(arrivals.map(({ emailId, at }) => [emailId, at]));
  const mails = inOrder(operations, after);
  for (const [n, stage] of stages.slice(1).entries()) {
    const before = stages[n] as CapStage;
    const newest = newestSeen(mails, arrivedAt, stage.at);
    if (!newest) continue;
    const seen = mails.filter(({ id }) => (arrivedAt.get(id) ?? Number.POSITIVE_INFINITY) <= stage.at);
    const unseen = mails.filter(
      ({ id, toldAt }) =>
        toldAt < newest.askedAt && !((arrivedAt.get(id) ?? Number.POSITIVE_INFINITY) <= stage.at),
    );
    const slack = before.cap - weightOf(seen);
    const overtaken = weightOf(unseen);
    if (overtaken <= slack) continue;
    return [
      {
        rule: "overtaken",
        subject: newest.id,
        what: `it went before ${clockOf(stage.at)} although ${overtaken} recipients of older mail had not, and only ${slack} can have had their turn`,
        evidence: unseen
          .slice(0, 5)
          .map(({ id, toldAt }) => `${id}, accepted at ${clockOf(toldAt)}, had not gone`),
      },
    ];
  }
  return [];
}

type Queued = { id: string; askedAt: number; toldAt: number; weight: number };

/** What had to wait in line: not what was scheduled, and not what was canceled or erased meanwhile. */
function inOrder(operations: readonly Operation[], after: Aftermath | null): Queued[] {
  const kept = after && new Map(after.emails.map((email) => [email.id, email.status]));
  const canceled = new Set(operations.filter(({ kind }) => kind === "cancel").map(({ emailId }) => emailId));
  return operations.flatMap((operation) => {
    const [first] = operation.tries;
    const told = operation.tries.find(({ answer }) => answer.kind === "answered" && answer.status === 200);
    if (!first || !told) return [];
    return toldIds(operation).flatMap(({ id, index }) => {
      const mail = operation.mails[index];
      if (!mail || mail.scheduledAt !== null || canceled.has(id) || kept?.get(id) === "canceled") return [];
      return { id, askedAt: first.askedAt, toldAt: told.answeredAt, weight: mail.recipients.length };
    });
  });
}

function newestSeen(
  mails: readonly Queued[],
  arrivedAt: ReadonlyMap<string, number>,
  by: number,
): Queued | null {
  let newest: Queued | null = null;
  for (const mail of mails)
    if ((arrivedAt.get(mail.id) ?? Number.POSITIVE_INFINITY) <= by && mail.askedAt > (newest?.askedAt ?? 0))
      newest = mail;
  return newest;
}

function weightOf(mails: readonly Queued[]): number {
  return mails.reduce((sum, { weight }) => sum + weight, 0);
}

/** Of the operation that a mail comes from; mail of automations comes from none. */
function numberIn(origin: string | null): number {
  return origin === null ? Number.NaN : Number.parseInt(origin, 10);
}
