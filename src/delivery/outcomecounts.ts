/**
 * What became of recipients, for the metrics: by destination group, stream and outcome, and each attempt by
 * how far it got and how long it took. Groups are the providers of the shaping file, so that there are as
 * many as the operator named.
 */
import { type Count, Counter, Histogram, LONG_SECONDS } from "../meter.ts";
import type { Outcome } from "../outcome/outcome.ts";
import { SUPPRESSED } from "../record/mail/commit.ts";
import { BULK, TRANSACTIONAL } from "../rules/stream.ts";
import type { Reply } from "../smtp/reply.ts";

const OUTCOMES = new Counter(
  "postrider_outcomes_total",
  "Recipients by what became of them in an attempt: delivered, deferred, bounced, or unsent (nothing was tried)",
  ["group", "stream", "outcome"],
);
const ATTEMPTS = new Counter(
  "postrider_attempts_total",
  "Recipients by the phase of SMTP at which their attempt ended, and the class of the reply",
  ["group", "phase", "reply"],
);
const TOOK = new Histogram(
  "postrider_attempt_seconds",
  "From the begin of a mail on its connection to the last reply",
  LONG_SECONDS,
  ["group"],
);

type GroupCounts = { transactional: OutcomeSet; bulk: OutcomeSet; attempts: Map<string, Count> };
type OutcomeSet = Record<Outcome["kind"], Count>;

const groups = new Map<string, GroupCounts>();

export function countOutcome(group: string, { kind, reply }: Outcome, isBulk: boolean): void {
  const counts = countsOf(group);
  counts[isBulk ? "bulk" : "transactional"][kind].n++;
  attemptsOf(group, counts, reply).n++;
  if (reply.tookMs !== undefined) TOOK.note(reply.tookMs / 1_000, group);
}

/** A recipient who was found to be written to no more when their mail was to leave. */
export function countSuppressed(group: string, isBulk: boolean): void {
  SUPPRESSED.add(1, group, isBulk ? BULK : TRANSACTIONAL, "sent");
}

function countsOf(group: string): GroupCounts {
  let counts = groups.get(group);
  if (!counts) {
    counts = {
      transactional: setOf(group, "transactional"),
      bulk: setOf(group, "bulk"),
      attempts: new Map(),
    };
    groups.set(group, counts);
  }
  return counts;
}

function setOf(group: string, stream: string): OutcomeSet {
  const of = (outcome: string) => OUTCOMES.of(group, stream, outcome);
  return {
    delivered: of("delivered"),
    deferred: of("deferred"),
    bounced: of("bounced"),
    unsent: of("unsent"),
  };
}

function attemptsOf(group: string, { attempts }: GroupCounts, { phase, code }: Reply): Count {
  const reply = code === null ? "none" : `${Math.floor(code / 100)}xx`;
  const name = phase + reply;
  let count = attempts.get(name);
  if (!count) {
    count = ATTEMPTS.of(group, phase, reply);
    attempts.set(name, count);
  }
  return count;
}
