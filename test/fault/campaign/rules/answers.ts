/**
 * What callers may be told. Every request is answered in time, whatever the stores do; by one of the answers
 * that the contract has for it; and what was accepted can be read at once, on every process.
 */
import {
  type Answer,
  type History,
  isSend,
  type Life,
  type Operation,
  type Spell,
  toldIds,
  type Violation,
} from "../history.ts";
import { said } from "./fates.ts";
import { clockOf } from "./repeats.ts";

export const TIMED_OUT = "no answer in time";

export function judgeAnswers({ operations, lives, spells, tenants }: History): Violation[] {
  const known = new Map(lives.map((life) => [life.name, life]));
  const toldAt = new Map<string, number>();
  for (const operation of operations) {
    const told = operation.tries.find(({ answer }) => answer.kind === "answered" && answer.status === 200);
    for (const { id } of toldIds(operation)) if (told) toldAt.set(id, told.answeredAt);
  }
  const hasQuota = new Set(tenants.filter(({ quota }) => quota).map(({ id }) => id));
  return operations.flatMap((operation) =>
    operation.tries.flatMap((one) => {
      const { answer, askedAt, answeredAt, process } = one;
      const violation = (rule: string, what: string): Violation[] => [
        { rule, subject: `operation ${operation.n} (${operation.kind})`, what, evidence: [said(one)] },
      ];
      if (
        answer.kind === "lost" &&
        answer.why === TIMED_OUT &&
        wasAwake(known.get(process), spells, askedAt, answeredAt)
      )
        return violation("unanswered", `${process} did not answer what was asked at ${clockOf(askedAt)}`);
      if (answer.kind !== "answered") return [];
      if (operation.kind === "read" && answer.status === 404) {
        const since = toldAt.get(operation.emailId ?? "");
        return since !== undefined && since < askedAt
          ? violation(
              "forgotten",
              `${operation.emailId} was accepted at ${clockOf(since)} and is not known at ${clockOf(askedAt)}`,
            )
          : [];
      }
      return isAllowed(operation, answer, hasQuota.has(operation.workspaceId))
        ? []
        : violation("answer", `${process} answered ${answer.status} at ${clockOf(answeredAt)}`);
    }),
  );
}

function isAllowed(operation: Operation, answer: Answer & { kind: "answered" }, hasQuota: boolean): boolean {
  const { status } = answer;
  const { name, message = "" } = (answer.body ?? {}) as { name?: string; message?: string };
  if (status === 503) return name === "service_unavailable";
  if (status === 500) return /outcome unknown/i.test(message);
  if (status === 429) return name === "quota_exceeded" && hasQuota && isSend(operation);
  if (status === 409) return name === "concurrent_idempotent_requests" && operation.idempotencyKey !== null;
  const { kind, mails } = operation;
  if (isSend(operation)) {
    const isBroken = kind === "batch strict" && mails.some(({ isValid }) => !isValid);
    return status === (isBroken ? 422 : 200);
  }
  if (kind === "reschedule" || kind === "cancel") return status === 200 || status === 422;
  if (kind === "read") return status === 200;
  if (kind === "event") return status === 202 || status === 404;
  if (kind === "contact") return status === 201;
  return status === 200 || status === 404;
}

/** Alive all the time, and not standing still. */
function wasAwake(life: Life | undefined, spells: readonly Spell[], from: number, to: number): boolean {
  if (!life || (life.ended && life.ended.at <= to)) return false;
  if (life.told && life.told.at <= to) return false;
  return !spells.some(
    (spell) =>
      spell.kind === "frozen" &&
      spell.member === life.member &&
      spell.from <= to &&
      (spell.to ?? Number.POSITIVE_INFINITY) >= from,
  );
}
