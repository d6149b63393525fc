/** Why an e-mail is not there: one sentence, the same for callers and operators. */
import type { HistoryEntry } from "./email.ts";

export type WaitReason = "scheduled" | "cap_hour" | "cap_day" | "quota_month" | "deferred";

/** What is known of an e-mail at one moment, read together. */
export type Situation = {
  status: string;
  waitingFor: WaitReason | null;
  /** When it comes due, or room is expected. */
  nextAttemptAt: Date | null;
  /** The last answer, and for which domain. */
  lastReply: string | null;
  lastDomain: string | null;
  /** The suspended destination that it waits for, and why that is suspended; null: it is no longer. */
  heldBy: string | null;
  heldFor: string | null;
  /** A worker has it. */
  isUnderWay: boolean;
  isSuspended: boolean;
  /** Nothing of its stream goes. */
  isPaused: boolean;
};

const PAUSED =
  "Its stream is paused, since too much of its mail bounced or was complained about; it goes on when the pause ends.";
const SUSPENDED = "The workspace is suspended; the e-mail goes on when it is resumed.";

/** null: it is where it should be, or nobody knows more than its status says. */
export function reasonOf(
  situation: Situation,
  history: readonly HistoryEntry[] | null,
  now: number,
): string | null {
  const { status, isUnderWay, isSuspended } = situation;
  switch (status) {
    case "accepted":
      if (isUnderWay) return "It is being sent now.";
      return isSuspended ? SUSPENDED : "It is in the queue and will be sent next.";
    case "scheduled":
    case "waiting":
    case "deferred":
      if (isUnderWay) return "It is being tried again now.";
      return isSuspended ? SUSPENDED : reasonOfWaiting(situation, now);
    case "bounced":
    case "failed":
    case "suppressed":
    case "complained":
      return reasonOfEnd(status, history ?? []);
    default:
      return null;
  }
}

function reasonOfWaiting(situation: Situation, now: number): string {
  const { waitingFor, nextAttemptAt, lastReply, lastDomain } = situation;
  const isFuture = nextAttemptAt !== null && nextAttemptAt.getTime() > now;
  const at = isFuture ? timeOf(nextAttemptAt) : null;
  switch (waitingFor) {
    case "scheduled":
      return at
        ? `It is scheduled for ${at}.`
        : "Its scheduled time has come; it enters the queue within seconds.";
    case "cap_hour":
      return situation.isPaused ? PAUSED : `The hourly sending cap is used up; ${roomFrom(at)}`;
    case "cap_day":
      return situation.isPaused ? PAUSED : `The daily sending cap is used up; ${roomFrom(at)}`;
    case "quota_month":
      return `The monthly quota is used up; ${at ? `it goes on from ${at}.` : "it goes on within seconds."}`;
    default: {
      if (situation.heldBy !== null) return reasonOfHeld(situation.heldBy, situation, at);
      const where = lastDomain === null ? "" : ` to ${lastDomain}`;
      const what = lastReply === null ? "Not delivered" : `Not delivered${where} yet: ${sentence(lastReply)}`;
      const next = at ? `The next attempt is at ${at}.` : "The next attempt is due now.";
      return lastReply === null ? `${what}${where} yet. ${next}` : `${what} ${next}`;
    }
  }
}

function reasonOfHeld(destination: string, { heldFor, nextAttemptAt }: Situation, at: string | null): string {
  if (heldFor === null || (nextAttemptAt !== null && at === null))
    return `Mail to ${destination} is no longer suspended; it is tried within seconds.`;
  const end = at === null ? "until an operator resumes it" : `until ${at}`;
  return `Mail to ${destination} is suspended ${end}: ${sentence(heldFor)}`;
}

function roomFrom(at: string | null): string {
  return at ? `room is expected from ${at}, for the oldest e-mails first.` : "the oldest e-mails go first.";
}

/** The last thing that was said about it, which ended it. */
function reasonOfEnd(status: string, history: readonly HistoryEntry[]): string | null {
  const last = history.findLast(({ type, detail }) => type === status && detail !== undefined);
  if (!last?.detail) return null;
  return last.recipient === undefined ? sentence(last.detail) : `${last.recipient}: ${sentence(last.detail)}`;
}

function sentence(text: string): string {
  const trimmed = text.trim();
  return /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** `2026-11-22 06:30:00 UTC` */
function timeOf(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
