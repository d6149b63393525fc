/** Scheduled and canceled mail: nothing goes before its time, and nothing that was canceled goes at all. */
import { type History, isUnknown, type Operation, toldIds, type Violation } from "../history.ts";
import { clockOf } from "./repeats.ts";

/** Times are kept in ms, and the clocks of this machine are one. */
const EARLY_MS = 50;

export function judgeTimes({ operations, copies }: History): Violation[] {
  const times = allowedTimes(operations);
  const canceledAt = cancellations(operations);
  const violations: Violation[] = [];
  for (const { emailId, completeAt, begunAt, process } of copies) {
    const due = times.get(emailId);
    if (due !== undefined && begunAt < due - EARLY_MS)
      violations.push({
        rule: "too early",
        subject: emailId,
        what: `it went at ${clockOf(completeAt)} and was to go at ${clockOf(due)}`,
        evidence: [`delivered by ${process}`],
      });
    const canceled = canceledAt.get(emailId);
    if (canceled !== undefined)
      violations.push({
        rule: "canceled yet sent",
        subject: emailId,
        what: `a caller was told at ${clockOf(canceled)} that it is canceled, and it went at ${clockOf(completeAt)}`,
        evidence: [`delivered by ${process}`],
      });
  }
  return violations;
}

/**
 * The earliest time at which each scheduled e-mail may go, by the last change that is certain and those that
 * may be.
 */
function allowedTimes(operations: readonly Operation[]): Map<string, number> {
  const times = new Map<string, number>();
  for (const operation of operations)
    for (const { id, index } of toldIds(operation)) {
      const scheduledAt = operation.mails[index]?.scheduledAt ?? null;
      if (scheduledAt !== null) times.set(id, scheduledAt);
    }
  for (const { kind, emailId, newTime, tries } of operations) {
    if (kind !== "reschedule" || emailId === null || newTime === null) continue;
    const known = times.get(emailId);
    for (const { answer } of tries) {
      if (answer.kind === "answered" && answer.status === 200) times.set(emailId, newTime);
      else if (isUnknown(answer) && known !== undefined) times.set(emailId, Math.min(known, newTime));
    }
  }
  return times;
}

function cancellations(operations: readonly Operation[]): Map<string, number> {
  const canceled = new Map<string, number>();
  for (const { kind, emailId, tries } of operations)
    for (const { answer, answeredAt } of tries)
      if (kind === "cancel" && emailId !== null && answer.kind === "answered" && answer.status === 200)
        canceled.set(emailId, answeredAt);
  return canceled;
}
