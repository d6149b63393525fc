/**
 * What an e-mail is to everybody: its head, what happened to it, and what the fates of its recipients make of
 * it. Each recipient has a mark, one letter, in the order to, cc, bcc. Statuses are decided here and nowhere
 * else; SQL asks `statusSql` in record/mail/status.ts, which is made of the same table.
 */
import { isOneOf } from "../names.ts";

export type Head = {
  from: string;
  to: string[];
  cc: string[];
  bcc: string[];
  reply_to: string[];
  subject: string;
  /** What the header shows, where that is not just the recipients in `to` and `cc`. */
  shown?: Shown;
};
export type Shown = { to: string[]; cc: string[] };

export type HistoryEntry = {
  type: string;
  at: string;
  recipient?: string;
  /** The literal reply, or the reason in words. */
  detail?: string;
  /** With whom it was tried, and how far that got: see connection.ts. */
  attempt?: string;
  /** Of a bounce that says nothing against the address; without it nobody is there. */
  bounce?: PassingBounce;
};

/** `block`: they do not want it from us. */
export type PassingBounce = "soft" | "block" | "expired";

/** What the history keeps of the category of a bounce: the usual one needs no words. */
export function bounceKept(category: PassingBounce | "hard"): Pick<HistoryEntry, "bounce"> {
  return category === "hard" ? {} : { bounce: category };
}

export const OPEN_STATUSES = ["accepted", "scheduled", "waiting", "deferred"] as const;

/** The fate of a recipient, the gravest first: an e-mail has the first of these that occurred. */
export const ENDINGS = [
  ["c", "complained"],
  ["b", "bounced"],
  ["f", "failed"],
  ["s", "suppressed"],
  ["d", "delivered"],
  ["x", "canceled"],
] as const;

/** Nothing has become of this recipient yet. */
export const OPEN_MARK = "o";

export type Ending = (typeof ENDINGS)[number][1];
export type Status = (typeof OPEN_STATUSES)[number] | Ending;

export function isOpen(status: string): boolean {
  return isOneOf(OPEN_STATUSES, status);
}

/** What an e-mail has become when each recipient has; null while one is open. */
export function endingOf(marks: string): Ending | null {
  if (marks.includes(OPEN_MARK)) return null;
  const found = ENDINGS.find(([mark]) => marks.includes(mark));
  return found ? found[1] : "canceled";
}
