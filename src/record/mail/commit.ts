/**
 * Committing mail: e-mails, bodies, bags, due rows, ledger and idempotency claims of many submissions in one
 * transaction of the group commit.
 *
 * Promises: the ledger row, locked, has the last word on quota and caps. Whoever locks several workspaces
 * does so in the order of their ids. Everything happens at the time of the transaction, whatever the clock of
 * this process says. Mail of the engine's own accord (an automation's, a confirmation) is never refused for
 * the quota: it waits for the month to turn; submitted twice under one id it is written once; and mail to a
 * contact who has been erased is not written.
 *
 * Bodies of large submissions are written ahead of all locks, under ids that are fresh, and removed by the
 * same transaction when the submission is refused.
 */
import { floorId, newId } from "../../ids.ts";
import { Counter } from "../../meter.ts";
import {
  advance,
  countAccepted,
  judge,
  type LedgerVerdict,
  letPass,
  nextTurn,
  waitForMonth,
} from "../../rules/ledger.ts";
import { BULK, nameOfStream, TRANSACTIONAL, TRANSACTIONAL_STREAM } from "../../rules/stream.ts";
import { keepContacts } from "../contacts/contacts.ts";
import type { Sql, Statement } from "../db/connect.ts";
import {
  GroupCommit,
  type GroupCommitOptions,
  LARGE_ENTRY_BYTES,
  settled,
  type Transaction,
  type Uncommitted,
} from "../db/groupcommit.ts";
import { type Account, expectRelease, lockAccounts, saveLedgers } from "../workspaces/ledgers.ts";
import { keepAttachments } from "./attachments.ts";
import { type Bag, bagOfEach, insertBags, pack } from "./bags.ts";
import { type Barred, findBarred, type HashOf, markBarred } from "./barred.ts";
import { type Due, insertDue } from "./due.ts";
import {
  type AcceptedEmail,
  bodyChars,
  dropBodies,
  type Extra,
  existingEmails,
  inPieces,
  insertBodies,
  insertEmails,
  isPrivateMail,
  type MarkedEmail,
  markRecipients,
  type NewAttachment,
  type NewEmail,
} from "./emails.ts";
import { type Claim, dropClaims, takeClaims } from "./idempotency.ts";
import { BLOCK_AGE_MS_MIN, forgetBlocks } from "./searchblocks.ts";

const ACCEPTED = new Counter("postrider_emails_accepted_total", "E-mails that were committed", ["stream"]);
export const SUPPRESSED = new Counter(
  "postrider_recipients_suppressed_total",
  "Recipients who are written to no more, found when their mail was accepted or sent",
  ["group", "stream", "when"],
);
/** Where accepted mail goes is not looked up yet. */
const NO_GROUP_YET = "none";

export type Submission = {
  workspaceId: string;
  /** The workspace's version under which the caller was admitted; null: the engine's own mail. */
  version: number | null;
  /** The time that a test gives, in ms; 0: that of the transaction. */
  given: number;
  /** Recipients that count for the quota. */
  counted: number;
  claim: Claim | null;
  emails: NewEmail[];
  attachments: NewAttachment[];
};

type SubmissionVerdict =
  /** `suppressed`: recipients who are written to no more, and whom Redis has counted for the caps. */
  | { kind: "accepted"; go: number; suppressed: number; account: Account }
  | { kind: "over"; period: "day" | "month"; limit: number; used: number; account: Account }
  /** The idempotency key was used before: with what digest, and what was answered. */
  | { kind: "claimed"; claim: Claim }
  /** The workspace has changed since the caller was admitted, or is gone. */
  | { kind: "stale" };

export type Committed = SubmissionVerdict | Uncommitted;

export type MailCommit = GroupCommit<Submission, SubmissionVerdict>;

/**
 * `onBags` is called after each commit with what may travel now; `hashOf` finds addresses that are
 * suppressed; `shards` says over how many shards of the queue bags are spread.
 */
export function mailCommit(
  options: GroupCommitOptions,
  onBags: (bags: Bag[]) => void,
  hashOf: HashOf,
  shards: () => number = () => 1,
): MailCommit {
  return new GroupCommit(
    {
      what: "mail",
      open: (group) => new MailTransaction(group, onBags, hashOf, shards()),
      rowsOf: ({ emails, attachments }) => emails.length + attachments.length,
      bytesOf,
      nameOf: ({ claim }) => claim && claimName(claim),
    },
    options,
  );
}

/** What is written, without the attachments that are kept already. */
function bytesOf({ emails, attachments }: Submission): number {
  const texts = emails.reduce((bytes, email) => bytes + bodyChars(email), 0);
  return attachments.reduce((bytes, { content }) => bytes + content.byteLength, texts);
}

class MailTransaction implements Transaction<Submission, SubmissionVerdict> {
  readonly #group: readonly Submission[];
  readonly #onBags: (bags: Bag[]) => void;
  readonly #hashOf: HashOf;
  readonly #shards: number;
  readonly #given: number;
  readonly #verdicts = new Map<Submission, SubmissionVerdict>();
  readonly #accepted: AcceptedEmail[] = [];
  readonly #bodiesAhead = new Set<NewEmail>();
  readonly #going = new Map<string, NewEmail[]>();
  readonly #due: Due[] = [];
  readonly #marked: MarkedEmail[] = [];
  readonly #suppressed = { [BULK]: 0, [TRANSACTIONAL]: 0 };
  readonly #attachments = new Map<string, NewAttachment>();
  #accounts: readonly Account[] = [];
  #held: readonly Claim[] = [];
  #written = new Set<string>();
  #kept: ReadonlySet<string> = new Set();
  #barred: ReadonlyMap<string, readonly Barred[]> = new Map();
  #bags: Bag[] = [];

  constructor(group: readonly Submission[], onBags: (bags: Bag[]) => void, hashOf: HashOf, shards: number) {
    this.#group = group;
    this.#onBags = onBags;
    this.#hashOf = hashOf;
    this.#shards = shards;
    this.#given = Math.max(...group.map(({ given }) => given));
  }

  ahead(tx: Sql): Statement[] {
    const large = this.#group.filter((one) => one.version !== null && bytesOf(one) > LARGE_ENTRY_BYTES);
    for (const email of large.flatMap(({ emails }) => emails)) this.#bodiesAhead.add(email);
    return inPieces([...this.#bodiesAhead]).map((piece) => insertBodies(tx, piece));
  }

  async read(tx: Sql): Promise<void> {
    const workspaceIds = [...new Set(this.#group.map((one) => one.workspaceId))];
    const claims = this.#group.flatMap(({ claim }) => claim ?? []);
    const own = this.#group.filter(({ version }) => version === null).flatMap(({ emails }) => emails);
    const addressed = own.flatMap((email) => addresseeOf(email) ?? []);
    const [kept, accounts, held, written] = await settled([
      addressed.length > 0 ? keepContacts(tx, addressed) : Promise.resolve(new Set<string>()),
      lockAccounts(tx, workspaceIds),
      claims.length > 0 ? takeClaims(tx, claims, this.#given) : Promise.resolve([]),
      own.length > 0 ? existingEmails(tx, own) : Promise.resolve([]),
    ]);
    this.#accounts = accounts;
    this.#held = held;
    this.#written = new Set(written);
    this.#kept = kept;
    const suppressing = new Set(
      accounts.flatMap(({ workspaceId, suppresses }) => (suppresses ? workspaceId : [])),
    );
    if (suppressing.size > 0) this.#barred = await this.#findBarred(tx, suppressing);
  }

  async #findBarred(
    tx: Sql,
    workspaceIds: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, readonly Barred[]>> {
    const emails = this.#group
      .filter((one) => workspaceIds.has(one.workspaceId))
      .flatMap((one) => one.emails.filter(isBarrable));
    const mails = emails.map(({ workspaceId, id, head }) => ({ workspaceId, id, head: JSON.parse(head) }));
    return findBarred(tx, this.#hashOf, mails);
  }

  write(tx: Sql, transactionTime: number): Statement[] {
    const now = this.#given || transactionTime;
    const at = new Date(now);
    const untaken = this.#decide(now);
    const writes: Statement[] = [];
    if (untaken.length > 0) writes.push(dropClaims(tx, untaken));
    const emails = this.#accepted.map((one) => one.email);
    if (this.#bodiesAhead.size > 0) writes.push(...this.#dropBodiesInVain(tx, emails));
    if (emails.length === 0) return writes;
    writes.push(insertEmails(tx, this.#accepted, bagOfEach(this.#bags), at));
    if (this.#marked.length > 0) writes.push(markRecipients(tx, this.#marked));
    const lateBefore = floorId(now - BLOCK_AGE_MS_MIN);
    const late = emails.filter(({ id }) => id < lateBefore);
    if (late.length > 0) writes.push(forgetBlocks(tx, late));
    const isAhead = this.#bodiesAhead.size > 0;
    const bodies = isAhead ? emails.filter((email) => !this.#bodiesAhead.has(email)) : emails;
    if (bodies.length > 0) writes.push(insertBodies(tx, bodies));
    if (this.#attachments.size > 0) writes.push(...keepAttachments(tx, [...this.#attachments.values()], at));
    if (this.#bags.length > 0) writes.push(insertBags(tx, this.#bags, at));
    if (this.#due.length > 0) writes.push(insertDue(tx, this.#due));
    writes.push(saveLedgers(tx, this.#accounts));
    return writes;
  }

  #dropBodiesInVain(tx: Sql, accepted: readonly NewEmail[]): Statement[] {
    const kept = new Set(accepted);
    const inVain = [...this.#bodiesAhead].filter((email) => !kept.has(email));
    return inVain.length > 0 ? [dropBodies(tx, inVain)] : [];
  }

  verdictOf(submission: Submission): SubmissionVerdict {
    return this.#verdicts.get(submission) as SubmissionVerdict;
  }

  committed(): void {
    for (const one of this.#group) {
      const verdict = this.verdictOf(one);
      if (verdict.kind !== "accepted") continue;
      const bulk = one.emails.filter((email) => email.bulk).length;
      if (bulk > 0) ACCEPTED.add(bulk, BULK);
      if (bulk < one.emails.length) ACCEPTED.add(one.emails.length - bulk, TRANSACTIONAL);
    }
    for (const [stream, recipients] of Object.entries(this.#suppressed))
      if (recipients > 0) SUPPRESSED.add(recipients, NO_GROUP_YET, stream, "accepted");
    if (this.#bags.length > 0) this.#onBags(this.#bags);
  }

  /** Fills in every request's verdict; hands back the claims that were taken in vain. */
  #decide(now: number): Claim[] {
    const accountOf = new Map(this.#accounts.map((account) => [account.workspaceId, account]));
    const heldBy = new Map(this.#held.map((claim) => [claimName(claim), claim]));
    const untaken: Claim[] = [];
    for (const submission of this.#group) {
      const { claim, version, workspaceId } = submission;
      const account = accountOf.get(workspaceId);
      const holder = claim && heldBy.get(claimName(claim));
      let verdict: SubmissionVerdict;
      if (holder) verdict = { kind: "claimed", claim: holder };
      else if (!account || (version !== null && version !== account.version)) verdict = { kind: "stale" };
      else verdict = this.#judge(submission, account, now);
      this.#verdicts.set(submission, verdict);
      if (claim && !holder && verdict.kind !== "accepted") untaken.push(claim);
    }
    for (const [workspaceId, emails] of this.#going)
      this.#bags.push(...packAt(now, workspaceId, emails, this.#shards));
    return untaken;
  }

  #judge(submission: Submission, account: Account, now: number): SubmissionVerdict {
    const isOwn = submission.version === null;
    const wanted = isOwn ? submission.emails.filter((email) => this.#isWanted(email)) : submission.emails;
    if (wanted.length === 0) return { kind: "accepted", go: 0, suppressed: 0, account };
    const isDueLater = (email: NewEmail): boolean => email.scheduledAt !== null;
    advance(account.ledger, now);
    const marked = this.#markBarred(wanted, now);
    const openOf = (email: NewEmail): number => marked.get(email)?.open ?? email.weight;
    const emails = marked.size > 0 ? wanted.filter((email) => openOf(email) > 0) : wanted;
    const ready = emails.filter((email) => !isDueLater(email));
    const lines = byStream(ready);
    const isPrivate = isOwn && wanted.every(isPrivateMail);
    const counted = isOwn ? weightOf(wanted) : submission.counted;
    const judged: LedgerVerdict[] = [];
    for (const [n, mails] of lines.entries()) {
      const { bulk, stream } = mails[0] ?? TRANSACTIONAL_STREAM;
      const weights = mails.map(openOf);
      // the quota is asked once, for all of them
      const ask = { bulk, stream, counted: n === 0 ? counted : 0, countsDay: !isOwn, weights };
      const verdict = isPrivate
        ? letPass(account.ledger, { bulk, stream }, weights)
        : judge(account.ledger, account.allowance, ask);
      // before other streams are asked, whose caps would count what is not sent
      if (verdict.kind === "over" && !isOwn) return { ...verdict, account };
      judged.push(verdict);
    }
    countAccepted(account.ledger, weightOf(wanted));
    let suppressed = 0;
    for (const [email, { open, ...mark }] of marked) {
      suppressed += email.weight - open;
      this.#suppressed[email.bulk ? BULK : TRANSACTIONAL] += email.weight - open;
      this.#marked.push({ workspaceId: email.workspaceId, id: email.id, ...mark });
      if (open === 0) this.#accepted.push({ email, standing: "suppressed" });
    }
    const going: NewEmail[] = [];
    for (const [n, mails] of lines.entries()) {
      const verdict = judged[n] as LedgerVerdict;
      const { go, waitsFor } =
        verdict.kind === "over" ? waitForMonth(account.ledger, mails[0] as NewEmail, mails.length) : verdict;
      const waiting = mails.slice(go);
      for (const email of mails.slice(0, go)) {
        this.#accepted.push({ email, standing: "accepted" });
        going.push(email);
      }
      if (!waitsFor) continue;
      expectRelease(account, waitsFor);
      // some of them fit: the keeper lets these go
      if (verdict.kind === "over" && verdict.used < verdict.limit) account.nextReleaseAt = now;
      const at = nextTurn(account.ledger, waitsFor);
      for (const email of waiting) {
        this.#accepted.push({ email, standing: "waiting" });
        this.#due.push(dueOf(email, openOf(email), waitsFor, at));
      }
    }
    for (const email of emails.filter(isDueLater)) {
      this.#accepted.push({ email, standing: "scheduled" });
      this.#due.push(dueOf(email, openOf(email), "scheduled", email.scheduledAt as number));
    }
    for (const attachment of submission.attachments)
      this.#attachments.set(attachment.workspaceId + attachment.hash, attachment);
    for (const { id } of isOwn ? wanted : []) this.#written.add(id);
    const travelling = this.#going.get(account.workspaceId);
    if (travelling) travelling.push(...going);
    else if (going.length > 0) this.#going.set(account.workspaceId, going);
    return { kind: "accepted", go: going.length, suppressed, account };
  }

  /** Of these e-mails those that somebody gets none of, and how many recipients are left. */
  #markBarred(
    emails: readonly NewEmail[],
    now: number,
  ): Map<NewEmail, Omit<MarkedEmail, "workspaceId" | "id"> & { open: number }> {
    const found = new Map<NewEmail, Omit<MarkedEmail, "workspaceId" | "id"> & { open: number }>();
    if (this.#barred.size === 0) return found;
    for (const email of emails) {
      const barred = this.#barred.get(email.id);
      if (!barred) continue;
      const { marks, events } = markBarred("o".repeat(email.weight), barred, new Date(now).toISOString());
      found.set(email, { marks, events, open: email.weight - events.length });
    }
    return found;
  }

  /** Of the engine's own mail: it is not written yet, and its contact is still there. */
  #isWanted(email: NewEmail): boolean {
    const addressee = addresseeOf(email);
    return !this.#written.has(email.id) && (addressee === null || this.#kept.has(addressee.id));
  }
}

/** E-mails of each stream together; one list, maybe empty, where there is no more than one stream. */
function byStream(emails: readonly NewEmail[]): (readonly NewEmail[])[] {
  const [first] = emails;
  if (!first || emails.every(({ bulk, stream }) => bulk === first.bulk && stream === first.stream))
    return [emails];
  const lines = new Map<string, NewEmail[]>();
  for (const email of emails) {
    const name = nameOfStream(email);
    const line = lines.get(name);
    if (line) line.push(email);
    else lines.set(name, [email]);
  }
  return [...lines.values()];
}

/** Most have no such word in what else is kept of them, and are not read for it. */
function isBarrable({ extra }: NewEmail): boolean {
  return !extra?.includes('"account"') || (JSON.parse(extra) as Extra).account !== true;
}

function addresseeOf({
  workspaceId,
  contactId,
  writtenFor,
}: NewEmail): { workspaceId: string; id: string } | null {
  const id = contactId ?? writtenFor;
  return id === undefined ? null : { workspaceId, id };
}

function weightOf(emails: readonly NewEmail[]): number {
  return emails.reduce((sum, { weight }) => sum + weight, 0);
}

function packAt(grantedAt: number, workspaceId: string, emails: readonly NewEmail[], shards: number): Bag[] {
  const packable = emails.map(({ id, bytes }) => ({ id, bytes, grantedAt }));
  return pack(workspaceId, packable, { newId: () => newId(grantedAt), shards });
}

function dueOf(email: NewEmail, weight: number, why: Due["why"], at: number): Due {
  const { workspaceId, id: emailId, bulk, stream, bytes } = email;
  return { workspaceId, emailId, at, why, bulk, stream, weight, bytes };
}

function claimName({ workspaceId, scope, key }: Claim): string {
  return `${workspaceId} ${scope} ${key}`;
}
