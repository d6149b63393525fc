/**
 * Whether a simulated workspace is as good as its scenario says. Workspaces differ in quality, so that some
 * of many send mail that is over a limit: to hold these back harms nobody. Decided by the mail that they
 * want to send, whatever a policy makes of it, and against the built-in limits too: otherwise a strict
 * policy would hide whom it harms. A scenario that is over a limit as it is written, without `bad`, wants
 * its workspaces counted.
 */
import type { Measure } from "./policy/evidence.ts";
import { DEFAULT_POLICY, type Policy } from "./policy.ts";
import type { Quality, Workload } from "./workload.ts";

type LimitRates = Record<Measure, number>;

/** `recipients`: so many arrived of each workload. */
export function isOverLimit(
  policy: Policy,
  workloads: readonly Workload[],
  recipients: ArrayLike<number>,
): boolean {
  const own = workloads.map((workload, n) => ({ ...workload, recipients: recipients[n] ?? 0 }));
  const good = own.filter(({ bad }) => !bad);
  const bulk = good.filter((workload) => workload.bulk);
  const isOver = (qualityOf: (workload: Workload) => Quality): boolean =>
    exceeds(mixOf(good, qualityOf), limitsOf(policy, "freeze")) ||
    exceeds(mixOf(bulk, qualityOf), limitsOf(policy, "pause"));
  return isOver((workload) => workload) && !isOver(({ written }) => written);
}

function limitsOf(policy: Policy, step: "freeze" | "pause"): LimitRates {
  const [own, usual] = [policy[step], DEFAULT_POLICY[step]];
  return {
    bounce: Math.max(own.bounce, usual.bounce),
    complaint: Math.max(own.complaint, usual.complaint),
  };
}

function mixOf(
  streams: readonly (Workload & { recipients: number })[],
  qualityOf: (workload: Workload) => Quality,
): Quality {
  let [sent, bounced, heard, complained] = [0, 0, 0, 0];
  for (const stream of streams) {
    const { bounce, complaint } = qualityOf(stream);
    const reported = stream.recipients * (1 - bounce) * stream.fblShare;
    sent += stream.recipients;
    bounced += stream.recipients * bounce;
    heard += reported;
    complained += reported * complaint;
  }
  return { bounce: sent === 0 ? 0 : bounced / sent, complaint: heard === 0 ? 0 : complained / heard };
}

function exceeds(mail: Quality, limit: LimitRates): boolean {
  return mail.bounce > limit.bounce || mail.complaint > limit.complaint;
}
