/**
 * The only way in, for requests (`submit`) and for mail of the engine's own accord (`submitOwn`): reserve in
 * Redis, commit under the ledger, put right what differs. Mail that was not granted cannot be written.
 *
 * Redis is believed when it grants, and asked again of the ledger when it refuses; the ledger's word is what
 * the caller hears. A proven rollback is refunded, once, by its reservation; a fate that nobody knows is not.
 */
import { createHash } from "node:crypto";
import type { Admitter, Caller } from "./admission/admit.ts";
import type { Asked, Grant, Reservations } from "./admission/reserve.ts";
import { RECORD_MS_MAX, rolledBack, Unavailable } from "./admission/unavailable.ts";
import type { Clock } from "./clock.ts";
import { newId } from "./ids.ts";
import { isMoving } from "./record/cells/moving.ts";
import type { Sql } from "./record/db/connect.ts";
import { within } from "./record/db/groupcommit.ts";
import { keepAhead, partAhead } from "./record/mail/attachments.ts";
import type { Committed, MailCommit, Submission } from "./record/mail/commit.ts";
import { isPrivateMail, type NewAttachment, type NewEmail } from "./record/mail/emails.ts";
import { type Claim, findClaims } from "./record/mail/idempotency.ts";
import type { Shortage } from "./record/mail/overload.ts";
import { writableIds } from "./record/mail/ownids.ts";
import { type Account, readAccount } from "./record/workspaces/ledgers.ts";
import { advance, judge, secondsToReset } from "./rules/ledger.ts";
import { type Plan, planThatFits } from "./rules/plans.ts";
import { BULK_STREAM, TRANSACTIONAL_STREAM } from "./rules/stream.ts";
import type { TraceSpan } from "./trace.ts";

/** Making a key or setting a limit is another version; several in a row must not fail a send. */
const STALE_ATTEMPTS_MAX = 8;
/** For the large or many attachments of one request. */
const UPLOAD_MS_MAX = 8_000;

export type Outgoing = {
  emails: NewEmail[];
  attachments: NewAttachment[];
  /** Recipients that count for the quota. */
  counted: number;
  /** Of the request; without one it is not traced. */
  span?: TraceSpan | null | undefined;
  claim: { scope: string; key: string; digest: string; answer: string } | null;
};

export type QuotaRefusal = {
  period: "day" | "month";
  limit: number;
  used: number;
  requested: number;
  plan: Plan;
  requiredPlan: Plan;
  retryAfterSeconds: number;
};

/** Since the caller was admitted. */
type NotAdmitted = { kind: "key revoked" } | { kind: "workspace suspended" };

export type Submitted =
  | { kind: "accepted" }
  /** Answered before under the same idempotency key. */
  | { kind: "replayed"; answer: string }
  /** Another request with the same idempotency key is on its way. */
  | { kind: "concurrent" }
  /** The idempotency key was used with other bytes. */
  | { kind: "conflict" }
  | { kind: "over quota"; refusal: QuotaRefusal }
  | NotAdmitted
  | { kind: "outcome unknown"; error: unknown };

export type SubmitParts = {
  admitter: Admitter;
  reservations: Reservations;
  commit: MailCommit;
  reads: Sql;
  /** Where large or many attachments are written. */
  uploads: Sql;
  clock: Clock;
  /** Why sends are refused for now; null in good times. */
  shortage(): Shortage | null;
  /** Redis could not be told something it will find out by itself. */
  onLag(error: unknown): void;
};

export type Submit = (caller: Caller, outgoing: Outgoing) => Promise<Submitted>;

/**
 * An automation's or a confirmation's: ids are derived from what caused it, so that a repetition writes
 * nothing.
 */
export type OwnMail = {
  workspaceId: string;
  handle: string;
  /** Leaves a share of the caps to the rest. */
  bulk: boolean;
  emails: NewEmail[];
  attachments?: NewAttachment[];
};

/** `ids`: of the e-mails as they are written, in their order. An id whose day has gone is dated anew. */
export type OwnSubmitted = { kind: "written"; ids: readonly string[] } | { kind: "workspace gone" };

export type SubmitOwn = (mail: OwnMail) => Promise<OwnSubmitted>;

/** Postgres refuses one of these e-mails, and the others with it: without that one they may be written. */
export class BrokenMail extends Unavailable {}

export function submitter(parts: SubmitParts): Submit {
  const one = new Submitter(parts, ({ bearer }) => parts.admitter.load(bearer));
  return (caller, outgoing) => one.submit(caller, outgoing);
}

/** For people in the console, who have no key and are so few that the ledger may be asked alone. */
export function ledgerSubmitter(parts: Omit<SubmitParts, "admitter">): Submit {
  const one = new Submitter(parts, ({ workspaceId }) => readAccount(parts.reads, workspaceId));
  return (caller, outgoing) => one.submitByLedger(caller, outgoing);
}

/** The workspace as it is now; null: the key is revoked, or the workspace is gone. */
type Reload = (caller: Caller) => Promise<{ version: number; isSuspended: boolean } | null>;

class Submitter {
  readonly #parts: Omit<SubmitParts, "admitter">;
  readonly #reload: Reload;

  constructor(parts: Omit<SubmitParts, "admitter">, reload: Reload) {
    this.#parts = parts;
    this.#reload = reload;
  }

  submit(caller: Caller, outgoing: Outgoing): Promise<Submitted> {
    const { reservations, clock } = this.#parts;
    return this.#inRoom(outgoing, async () => {
      const asked = ask(caller, outgoing);
      const reserving = outgoing.span?.begin("reserve");
      const grant = await reservations.reserveInTurn(asked, () => this.#reload(caller));
      reserving?.end({ "postrider.grant": grant.kind });
      if (grant.kind === "running") return { kind: "concurrent" };
      if (grant.kind === "conflict") return { kind: "conflict" };
      if (grant.kind === "over") {
        const refused = await this.#refusedByLedger(caller, outgoing);
        if (refused) return refused;
      }
      const committed = await this.#commit(caller, outgoing);
      // before the caller is answered: its next request must not meet what this one left behind
      this.#tidy(asked, grant, committed);
      return answer(committed, outgoing, clock.now());
    });
  }

  submitByLedger(caller: Caller, outgoing: Outgoing): Promise<Submitted> {
    const { reservations, clock, onLag } = this.#parts;
    return this.#inRoom(outgoing, async () => {
      const committed = await this.#commit(caller, outgoing);
      // Redis has not counted it: the next request rebuilds the counters
      reservations.forget(caller.bearer.handle).catch(onLag);
      return answer(committed, outgoing, clock.now());
    });
  }

  async #inRoom(outgoing: Outgoing, work: () => Promise<Submitted>): Promise<Submitted> {
    const { commit, shortage } = this.#parts;
    const short = shortage();
    if (short) throw new Unavailable(short.name, short.reason);
    const room = commit.takeRoom(outgoing.emails.length, bytesOf(outgoing));
    if (!room) throw new Unavailable("capacity", "the commit is full");
    try {
      return await work();
    } finally {
      room.release();
    }
  }

  /**
   * Redis says there is no room. The record decides: was this answered before, and is the quota really used
   * up?
   */
  async #refusedByLedger(caller: Caller, outgoing: Outgoing): Promise<Submitted | null> {
    const { reads, clock } = this.#parts;
    const { claim, counted } = outgoing;
    const now = clock.now();
    try {
      if (claim) {
        const earlier = await within(recall(reads, caller.workspaceId, claim, clock.given()), RECORD_MS_MAX);
        if (earlier) return earlier;
      }
      const account = await within(readAccount(reads, caller.workspaceId), RECORD_MS_MAX);
      if (!account) return { kind: "key revoked" };
      advance(account.ledger, now);
      const verdict = judge(account.ledger, account.allowance, {
        ...TRANSACTIONAL_STREAM,
        counted,
        countsDay: true,
        weights: [],
      });
      return verdict.kind === "over" ? overQuota(verdict, account, counted, now) : null;
    } catch (error) {
      throw new Unavailable("postgres", "Postgres did not answer", error);
    }
  }

  #commit(caller: Caller, outgoing: Outgoing): Promise<Committed | NotAdmitted> {
    const { span } = outgoing;
    return span ? this.#traced(caller, outgoing, span) : this.#write(caller, outgoing);
  }

  async #traced(caller: Caller, outgoing: Outgoing, span: TraceSpan): Promise<Committed | NotAdmitted> {
    const committing = span.begin("commit");
    const committed = await this.#write(caller, outgoing);
    committing?.end({ "postrider.emails": outgoing.emails.length, "postrider.result": committed.kind });
    return committed;
  }

  /** Commits; a caller admitted under an older version of the workspace is looked up again, a few times. */
  async #write(caller: Caller, outgoing: Outgoing): Promise<Committed | NotAdmitted> {
    const { commit, clock } = this.#parts;
    let { version } = caller;
    const { ahead, rest: attachments } = partAhead(outgoing.attachments);
    const failed = ahead.length === 0 ? null : await this.#keepAhead(ahead);
    if (failed) return failed;
    for (let attempt = 0; attempt < STALE_ATTEMPTS_MAX; attempt++) {
      const committed = await commit.submit(
        submission(version, caller, { ...outgoing, attachments }, clock.given()),
      );
      if (committed.kind !== "stale") return committed;
      const record = await this.#reload(caller);
      if (!record) return { kind: "key revoked" };
      if (record.isSuspended) return { kind: "workspace suspended" };
      version = record.version;
    }
    throw new Unavailable("workspace", "the workspace keeps changing");
  }

  async #keepAhead(attachments: readonly NewAttachment[]): Promise<Committed | null> {
    const { uploads, clock } = this.#parts;
    let isWanted = true;
    const kept = keepAhead(uploads, attachments, new Date(clock.now()), () => isWanted);
    try {
      await within(kept, UPLOAD_MS_MAX);
      return null;
    } catch (error) {
      isWanted = false;
      return { kind: "failed", error, isBroken: false };
    }
  }

  #tidy(asked: Asked, grant: Grant, committed: Committed | NotAdmitted): void {
    const { reservations, onLag } = this.#parts;
    const sent: Promise<unknown>[] = [];
    if (committed.kind === "accepted") {
      if (asked.claim) sent.push(reservations.endClaim(asked));
      const agrees =
        grant.kind === "granted" && asked.isWhole && grant.go === committed.go && committed.suppressed === 0;
      if (!agrees && "epoch" in grant) sent.push(reservations.restore(committed.account, grant.epoch));
    } else if (committed.kind === "unknown") {
      // the caller is told to ask again under the same key, and only the record can answer
      if (asked.claim) sent.push(reservations.endClaim(asked));
    } else {
      if (grant.kind === "granted") sent.push(reservations.refund(asked, grant));
      if (committed.kind === "over" && "epoch" in grant)
        sent.push(reservations.restore(committed.account, grant.epoch));
    }
    for (const one of sent) one.catch(onLag);
  }
}

/**
 * Nobody is there to be refused: over the month's quota or a cap the mail waits, unless it is private, and
 * what fails is thrown, to be submitted again under the same ids. Redis is told, and not needed.
 */
export function ownSubmitter(parts: Omit<SubmitParts, "admitter" | "uploads">): SubmitOwn {
  const { reservations, commit, clock } = parts;

  return async function submitOwn({ workspaceId, handle, bulk, emails: given, attachments = [] }) {
    const short = parts.shortage();
    if (short) throw new Unavailable(short.name, short.reason);
    const ids = await idsOf(parts.reads, given, clock.now());
    const emails = given.map((email, n) =>
      email.id === ids[n] ? email : { ...email, id: ids[n] as string },
    );
    const counted = emails.every(isPrivateMail) ? 0 : emails.reduce((sum, { weight }) => sum + weight, 0);
    const weights = emails.filter(({ scheduledAt }) => scheduledAt === null).map(({ weight }) => weight);
    const reservationId = newReservationId(emails);
    const stream = bulk ? BULK_STREAM : TRANSACTIONAL_STREAM;
    const asked: Asked = {
      ...stream,
      ...{ reservationId, handle, workspaceId, counted, weights, claim: null },
      ...{ countsDay: false, isWhole: true },
    };
    const grant = await reservations.reserve(asked, noRecord).catch(() => null);
    const submission = { workspaceId, version: null, given: clock.given(), counted, claim: null };
    const committed = await commit.submit({ ...submission, emails, attachments });
    const agrees =
      grant?.kind === "granted" &&
      committed.kind === "accepted" &&
      committed.go === grant.go &&
      committed.suppressed === 0;
    if (!agrees) reservations.forget(handle).catch(parts.onLag);
    switch (committed.kind) {
      case "accepted":
        return { kind: "written", ids };
      case "stale":
        return { kind: "workspace gone" };
      case "failed":
        if (committed.isBroken && !isMoving(committed.error))
          throw new BrokenMail("postgres", "Postgres refuses an e-mail", committed.error);
        throw new Unavailable("postgres", "the commit did not go through", committed.error);
      case "unknown":
        throw new Unavailable("postgres", "the commit did not go through", committed.error);
      case "over":
      case "claimed":
        throw new Error(`the engine's own mail was judged ${committed.kind}`);
    }
  };
}

async function idsOf(reads: Sql, emails: readonly NewEmail[], now: number): Promise<string[]> {
  try {
    return await within(writableIds(reads, emails, now), RECORD_MS_MAX);
  } catch (error) {
    throw new Unavailable("postgres", "Postgres did not answer", error);
  }
}

/** The record of a workspace comes with a caller's key, and here is none. */
async function noRecord(): Promise<never> {
  throw new Unavailable("memory", "Redis does not hold the workspace");
}

/** Of e-mails in several streams Redis is asked about the first of these; its counters are then corrected. */
function ask(caller: Caller, { emails, counted, claim }: Outgoing): Asked {
  const ready = emails.filter((email) => email.scheduledAt === null);
  const { bulk, stream } = ready[0] ?? TRANSACTIONAL_STREAM;
  const asked = ready.filter((email) => email.bulk === bulk && email.stream === stream);
  return {
    bulk,
    stream,
    isWhole: asked.length === ready.length,
    reservationId: newReservationId(emails),
    handle: caller.bearer.handle,
    workspaceId: caller.workspaceId,
    counted,
    countsDay: true,
    weights: asked.map((email) => email.weight),
    claim: claim && { scope: claim.scope, keyHash: hashOf(claim.key), digest: claim.digest },
  };
}

function submission(version: number, caller: Caller, outgoing: Outgoing, given: number): Submission {
  const { workspaceId } = caller;
  const { emails, attachments, counted, claim } = outgoing;
  return {
    workspaceId,
    version,
    given,
    counted,
    emails,
    attachments,
    claim: claim && { workspaceId, ...claim },
  };
}

function answer(committed: Committed | NotAdmitted, outgoing: Outgoing, now: number): Submitted {
  switch (committed.kind) {
    case "accepted":
    case "key revoked":
    case "workspace suspended":
      return { kind: committed.kind };
    case "claimed":
      return repeat(committed.claim, outgoing.claim?.digest ?? "");
    case "over":
      return overQuota(committed, committed.account, outgoing.counted, now);
    case "unknown":
      return { kind: "outcome unknown", error: committed.error };
    case "failed":
      throw rolledBack(committed);
    case "stale":
      throw new Unavailable("workspace", "the workspace keeps changing");
  }
}

/** How a request with this idempotency key was answered before, if it was. */
export async function recall(
  reads: Sql,
  workspaceId: string,
  claim: { scope: string; key: string; digest: string },
  given: number,
): Promise<Submitted | null> {
  const [held] = await findClaims(reads, [{ workspaceId, ...claim }], given);
  return held ? repeat(held, claim.digest) : null;
}

function repeat(held: Claim, digest: string): Submitted {
  return held.digest === digest ? { kind: "replayed", answer: held.answer } : { kind: "conflict" };
}

function overQuota(
  { period, limit, used }: { period: "day" | "month"; limit: number; used: number },
  { plan, ledger }: Account,
  requested: number,
  now: number,
): Submitted {
  const requiredPlan = planThatFits(period, used + requested);
  const retryAfterSeconds = secondsToReset(period, ledger, now);
  return {
    kind: "over quota",
    refusal: { period, limit, used, requested, plan, requiredPlan, retryAfterSeconds },
  };
}

/** The first e-mail's id is unique and known to nobody else. */
function newReservationId(emails: readonly NewEmail[]): string {
  return emails[0]?.id ?? newId(0);
}

function bytesOf({ emails }: Outgoing): number {
  let bytes = 0;
  for (const email of emails) bytes += email.bytes;
  return bytes;
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}
