/** From a report that is due to what it says about one copy of a mail, or why it says nothing. Pure. */
import { classify } from "../outcome/classify.ts";
import type { Outcome } from "../outcome/outcome.ts";
import type { BounceKind, Told } from "../record/mail/applyreports.ts";
import type { DueReport } from "../record/mail/reports.ts";
import type { Copy } from "../returnpath.ts";
import { type Reply, viaOf } from "../smtp/reply.ts";
import type { Fate } from "./fate.ts";
import { refusedAt } from "./refusedat.ts";
import { type Complaint, type PassedOn, readReport } from "./report.ts";

export type Judged =
  | { kind: "told"; told: Told }
  /** A complaint about a mail that nobody vouches for yet. */
  | { kind: "complaint"; complaint: Complaint }
  | { kind: "ignored"; reason: string };

/** What the feedback API keeps of one item. */
export type Feedback = {
  type: "bounce" | "complaint";
  recipient: string | null;
  category: BounceKind | null;
  detail: string | null;
  at: number | null;
};

const DETAIL_CHARS_MAX = 500;

export function judge(report: DueReport): Judged {
  if (report.source === "api")
    return judgeFeedback(report, JSON.parse(report.raw.toString("utf8")) as Feedback);
  const to = report.source === "return_path" ? "return path" : "feedback address";
  const read = readReport(report.raw, to);
  if (read.kind === "ignored") return read;
  if (to === "return path" && read.passedOn !== null && !isAbout(report, read.passedOn))
    return { kind: "ignored", reason: "it was passed on and does not show this e-mail" };
  if (read.kind === "complaint")
    return to === "return path"
      ? toldOf(report, { kind: "complained" }, `${read.complaint.feedbackType} reported`)
      : { kind: "complaint", complaint: read.complaint };
  if (to === "feedback address")
    return { kind: "ignored", reason: "a feedback address takes complaints, and this is a delivery report" };
  return judgeFates(report, read.fates);
}

function isAbout({ emailId }: DueReport, { emailIds }: PassedOn): boolean {
  return emailId !== null && emailIds.includes(emailId.toLowerCase());
}

/**
 * A complaint that came to a feedback address, about this copy. Which one is never taken from its words: all
 * who got the mail know its id and our mark, and could complain in the name of another.
 */
export function complaintAbout(
  report: DueReport,
  { feedbackType }: Complaint,
  copy: Pick<Copy, "emailId"> & { workspaceId: string; place: number | null },
): Judged {
  const about = { ...report, workspaceId: copy.workspaceId, emailId: copy.emailId, place: copy.place };
  return toldOf(about, { kind: "complained" }, `${feedbackType} reported`);
}

function judgeFates(report: DueReport, fates: readonly Fate[]): Judged {
  const failed = fates.filter(({ action }) => action === "failed");
  const delayed = fates.filter(({ action }) => action === "delayed");
  const fate = failed.length > 0 ? mildestOf(failed) : delayed[0];
  if (!fate) return { kind: "ignored", reason: "it reports no failure" };
  const what =
    fate.action === "delayed"
      ? ({ kind: "delayed" } as const)
      : { kind: "bounced" as const, category: categoryOf(fate) };
  // addresses behind ours, as the members of a list, may fail while ours lives
  const isMixed = fates.some(({ action }) => action !== fate.action);
  const ofAction = failed.length > 0 ? failed : delayed;
  const isNamed = ofAction.every(({ recipient }) => recipient !== null);
  const onlyFor = isMixed || isNamed ? ofAction.flatMap(addressOf) : null;
  return toldOf(report, what, detailOf(fate), null, onlyFor, isMixed);
}

/** Who was first written to is said of every member of a list: what counts is which of them failed. */
function addressOf({ recipient, behind }: Fate): string[] {
  const address = behind ?? recipient;
  return address === null ? [] : [address];
}

/** To judge one takes some tenths of a millisecond, and a report may name a hundred. */
const JUDGED_MAX = 10;
const MILDEST_FIRST: readonly BounceKind[] = ["soft", "block", "hard"];

/**
 * Which of several is about the address that we know is not always said: the full mailbox beside it
 * suppresses nobody.
 */
function mildestOf(failed: readonly Fate[]): Fate | undefined {
  if (failed.length === 1) return failed[0];
  const categories = failed.slice(0, JUDGED_MAX).map(categoryOf);
  const mildest = MILDEST_FIRST.find((one) => categories.includes(one));
  return failed[categories.indexOf(mildest as BounceKind)];
}

function judgeFeedback(report: DueReport, { type, recipient, category, detail, at }: Feedback): Judged {
  const words = detail ?? `${type} reported`;
  const said: Fate = { recipient, action: "failed", status: null, code: null, text: words, remote: null };
  const command = refusedAt(words);
  if (command !== null) said.refusedAt = command;
  const what =
    type === "complaint"
      ? ({ kind: "complained" } as const)
      : { kind: "bounced" as const, category: category ?? (detail === null ? "hard" : categoryOf(said)) };
  const about = at === null ? report : { ...report, receivedAt: new Date(at) };
  return toldOf(about, what, words, recipient);
}

function toldOf(
  { id, workspaceId, emailId, place, receivedAt }: DueReport,
  what: Told["what"],
  detail: string,
  recipient: string | null = null,
  onlyFor: readonly string[] | null = null,
  isMixed = false,
): Judged {
  if (workspaceId === null || emailId === null)
    return { kind: "ignored", reason: "there is no such workspace" };
  const text = detail.slice(0, DETAIL_CHARS_MAX);
  const at = receivedAt.getTime();
  return {
    kind: "told",
    told: { reportId: id, workspaceId, emailId, place, recipient, onlyFor, isMixed, what, detail: text, at },
  };
}

/**
 * A failure is final, whatever its code says: nobody tries again. Who reports it is told, some words mean
 * more from them.
 */
function categoryOf(fate: Fate): BounceKind {
  const outcome = classify(replyIn(fate), false, "receivers");
  return CATEGORY[outcome.kind](outcome);
}

const CATEGORY: Record<Outcome["kind"], (outcome: Outcome) => BounceKind> = {
  bounced: (outcome) =>
    outcome.kind === "bounced" && outcome.category !== "expired" ? outcome.category : "soft",
  deferred: (outcome) => (outcome.kind === "deferred" && outcome.why === "our standing" ? "block" : "soft"),
  delivered: () => "soft",
  unsent: () => "soft",
};

function replyIn({ code, status, text, remote, refusedAt = "rcpt" }: Fate): Reply {
  const ofClass = status?.startsWith("4") ? 450 : 550;
  const via = remote === null ? {} : { via: viaOf({ host: remote, ip: null, tls: null, isVerified: false }) };
  return { phase: refusedAt, code: code ?? ofClass, enhanced: status, text, error: null, ...via };
}

function detailOf({ text, status, remote }: Fate): string {
  const said = text || (status ? `status ${status}` : "no reason was given");
  return remote ? `${said} (reported by ${remote})` : said;
}
