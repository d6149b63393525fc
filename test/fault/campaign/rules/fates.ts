/**
 * What became of every e-mail. Whatever was accepted ends, and ends as it says: delivered mail reached the
 * sink, bounced mail was refused by it, canceled mail was canceled by somebody. Whatever was refused was not
 * kept and never left.
 */
import {
  type Aftermath,
  type Copy,
  type FinalEmail,
  type History,
  isSend,
  isUnknown,
  mayBeDone,
  type Operation,
  originOf,
  toldIds,
  type Violation,
} from "../history.ts";

const OPEN = ["accepted", "waiting", "scheduled", "deferred"];
export const ERASED = /@erased\.invalid/;

export function judgeFates(history: History, after: Aftermath): { lost: number; violations: Violation[] } {
  const evidence = new Evidence(history, after);
  const missing = missingMails(history, evidence);
  const undelivered = after.emails.flatMap((email) => undeliveredOf(email, evidence));
  return {
    lost: missing.length + undelivered.length,
    violations: [
      ...missing,
      ...undelivered,
      ...after.emails.flatMap((email) => wronglyEnded(email, evidence)),
      ...judgeRefused(history),
      ...judgeEffects(history, after),
      ...strangers(history, after),
    ],
  };
}

/** What can be said while it runs: a copy of what had only been refused when it left. */
export function judgeRefused({ operations, copies }: History): Violation[] {
  const asked = new Map(
    operations.filter((one) => isSend(one) && one.open === 0).map((one) => [one.n, one] as const),
  );
  return copies.flatMap(({ emailId, origin, begunAt }) => {
    const operation = origin === null ? undefined : asked.get(Number.parseInt(origin, 10));
    if (!operation || begunAt >= firstDone(operation)) return [];
    const what = `operation ${origin} was refused, and the sink got its mail`;
    return [{ rule: "refused yet sent", subject: emailId, what, evidence: operation.tries.map(said) }];
  });
}

/** When the first request was made that was, or may have been, done. */
function firstDone({ tries }: Operation): number {
  const done = tries.filter(
    ({ answer }) => isUnknown(answer) || (answer.kind === "answered" && answer.status < 300),
  );
  return Math.min(...done.map(({ askedAt }) => askedAt));
}

class Evidence {
  readonly emails: ReadonlyMap<string, FinalEmail>;
  readonly toldBy: ReadonlyMap<string, { operation: Operation; index: number }>;
  readonly #copies = new Map<string, Copy[]>();
  readonly #canceled: ReadonlySet<string>;
  readonly #barred: ReadonlySet<string>;
  readonly #history: History;

  constructor(history: History, after: Aftermath) {
    this.#history = history;
    this.emails = new Map(after.emails.map((email) => [email.id, email]));
    this.toldBy = new Map(
      history.operations.flatMap((operation) =>
        toldIds(operation).map(({ id, index }) => [id, { operation, index }] as const),
      ),
    );
    for (const copy of history.copies) {
      const some = this.#copies.get(copy.emailId);
      if (some) some.push(copy);
      else this.#copies.set(copy.emailId, [copy]);
    }
    const changes = history.operations.filter(mayBeDone);
    this.#canceled = new Set(changes.flatMap(({ kind, emailId }) => (kind === "cancel" && emailId) || []));
    this.#barred = new Set(
      changes.flatMap(({ kind, address, sets }) =>
        address && (kind === "erase" || sets?.isUnsubscribed) ? address : [],
      ),
    );
  }

  copiesOf(id: string): readonly Copy[] {
    return this.#copies.get(id) ?? [];
  }

  /** What was asked for this e-mail after it had been accepted. */
  changesOf(id: string): string[] {
    return this.#history.operations
      .filter(({ emailId, kind }) => emailId === id && kind !== "read")
      .map(({ n, kind, tries }) => `operation ${n} (${kind}): ${tries.map(said).join("; ")}`);
  }

  mayBeCanceled({ id, to, isAutomated }: FinalEmail): boolean {
    const told = this.toldBy.get(id);
    const people = [...to, ...(told?.operation.mails[told.index]?.recipients ?? [])];
    return (
      this.#canceled.has(id) ||
      people.some((one) => ERASED.test(one) || (isAutomated && this.#barred.has(one)))
    );
  }

  repliesTo(recipient: string): readonly string[] {
    return this.#history.named.get(recipient.toLowerCase())?.replies ?? [];
  }

  /** Where it went, in words. */
  of(email: FinalEmail): string[] {
    const told = this.toldBy.get(email.id);
    return [
      told
        ? `operation ${told.operation.n}: ${told.operation.tries.map(said).join("; ")}`
        : "no caller was told of it",
      `${email.status}, marks ${email.marks}, ${email.attempts} attempts, ${JSON.stringify(email.events)}`,
      ...this.changesOf(email.id),
      ...this.copiesOf(email.id).map(
        ({ process, completeAt }) => `the sink got it from ${process} at ${completeAt}`,
      ),
    ];
  }
}

function missingMails({ operations }: History, { emails }: Evidence): Violation[] {
  return operations.flatMap((operation) =>
    toldIds(operation)
      .filter(({ id }) => !emails.has(id))
      .map(({ id }) => ({
        rule: "lost",
        subject: id,
        what: `a caller was told 200 for it, and it does not exist`,
        evidence: operation.tries.map(said),
      })),
  );
}

/** Marked as delivered to somebody whom it never reached. */
function undeliveredOf(email: FinalEmail, evidence: Evidence): Violation[] {
  if (!email.marks.includes("d")) return [];
  const told = evidence.toldBy.get(email.id);
  const written = told?.operation.mails[told.index]?.recipients;
  const reached = new Set(evidence.copiesOf(email.id).flatMap(({ recipients }) => recipients));
  const missed = written
    ? written.filter((recipient, n) => email.marks[n] === "d" && !reached.has(recipient))
    : reached.size === 0
      ? email.to
      : [];
  if (missed.length === 0) return [];
  return [
    {
      rule: "lost",
      subject: email.id,
      what: `it is called delivered to ${missed.join(", ")}, and the sink never took it`,
      evidence: evidence.of(email),
    },
  ];
}

function wronglyEnded(email: FinalEmail, evidence: Evidence): Violation[] {
  const wrong = (rule: string, what: string): Violation[] => [
    { rule, subject: email.id, what, evidence: evidence.of(email) },
  ];
  if (OPEN.includes(email.status)) return wrong("not final", `it is still ${email.status}`);
  if (email.marks.includes("o"))
    return wrong("not final", `it is ${email.status}, and somebody is still open`);
  if (email.status === "canceled" && !evidence.mayBeCanceled(email))
    return wrong("canceled by nobody", "it is canceled, and nobody asked for that");
  if (email.status === "failed") return wrong("failed", "it failed, and there was nothing wrong with it");
  const told = evidence.toldBy.get(email.id);
  const recipients = told?.operation.mails[told.index]?.recipients ?? email.to;
  const unrefused = recipients.filter(
    (recipient, n) =>
      "bs".includes(email.marks[n] ?? "o") &&
      !ERASED.test(recipient) &&
      !evidence.repliesTo(recipient).some((reply) => reply.startsWith("5")),
  );
  if (unrefused.length > 0)
    return wrong(
      "bounced unrefused",
      `it bounced or was suppressed for ${unrefused.join(", ")}, whom the sink never refused`,
    );
  return [];
}

/** One operation has one effect, however often it was asked for; what was refused has none. */
function judgeEffects({ operations }: History, { emails }: Aftermath): Violation[] {
  const violations: Violation[] = [];
  const idsOf = new Map<string, string[]>();
  for (const { id, subject } of emails) {
    const origin = originIn(subject);
    if (origin === null) continue;
    const ids = idsOf.get(origin);
    if (ids) ids.push(id);
    else idsOf.set(origin, [id]);
  }
  for (const operation of operations.filter(isSend)) {
    const answers = new Set(
      operation.tries.flatMap(({ answer }) =>
        answer.kind === "answered" && answer.status === 200 ? JSON.stringify(answer.body) : [],
      ),
    );
    if (answers.size > 1)
      violations.push({
        rule: "one key, two answers",
        subject: `operation ${operation.n}`,
        what: `its key ${operation.idempotencyKey} was answered in ${answers.size} ways`,
        evidence: [...answers],
      });
    operation.mails.forEach((_, index) => {
      const ids = idsOf.get(originOf(operation, index)) ?? [];
      if (ids.length > 1)
        violations.push({
          rule: "one key, two effects",
          subject: `operation ${operation.n}`,
          what: `it made ${ids.length} e-mails: ${ids.join(", ")}`,
          evidence: operation.tries.map(said),
        });
      if (ids.length > 0 && !mayBeDone(operation))
        violations.push({
          rule: "refused yet kept",
          subject: ids[0] as string,
          what: `operation ${operation.n} was refused, and its mail was kept`,
          evidence: operation.tries.map(said),
        });
    });
  }
  return violations;
}

function strangers({ copies }: History, { emails }: Aftermath): Violation[] {
  const known = new Set(emails.map(({ id }) => id));
  return copies
    .filter(({ emailId }) => !known.has(emailId))
    .map(({ emailId, messageId, process, origin }) => ({
      rule: "stranger",
      subject: emailId,
      what: `the sink got ${messageId}, and no such e-mail exists`,
      evidence: [`from ${process}, of operation ${origin}`],
    }));
}

/** Subjects of mail from callers are `c 12/0`. */
function originIn(subject: string): string | null {
  return /^c (\d+\/\d+)$/.exec(subject)?.[1] ?? null;
}

export function said({ process, answer }: Operation["tries"][number]): string {
  switch (answer.kind) {
    case "answered":
      return `${process} answered ${answer.status} ${JSON.stringify(answer.body).slice(0, 200)}`;
    case "refused":
      return `${process} was not there`;
    case "lost":
      return `${process} did not answer: ${answer.why}`;
  }
}
