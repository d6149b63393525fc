/**
 * From a bag in line to the receiver's answer: claim the bag, load its open e-mails, compose, sign, send,
 * classify, settle.
 *
 * What is limited is e-mails in flight, not bags: the job of a bag ends as soon as its e-mails are on their
 * way, however slow their receivers are, and its lease stays until the last of them is noted. One e-mail that
 * cannot be composed fails visibly and alone; a bag that was claimed three times without progress is split
 * into bags of one, and an e-mail that has had three such bags to itself fails visibly.
 */
import { randomUUID } from "node:crypto";
import { type Mailbox, parseMailbox } from "../address.ts";
import { messageOf } from "../caught.ts";
import { atMost, type Clock } from "../clock.ts";
import { contentOf, type People, readPeople } from "../content.ts";
import type { Owners } from "../domain/owners.ts";
import type { Signer } from "../domain/signer.ts";
import { newId } from "../ids.ts";
import { compose, needsUtf8 } from "../message/compose.ts";
import type { Attachment } from "../message/tree.ts";
import { Gauge } from "../meter.ts";
import { type AttemptRules, attempted, type JudgedReply, judged } from "../outcome/attempt.ts";
import type { Settler } from "../outcome/settler.ts";
import { warmUp } from "../outcome/verdict.ts";
import type { BagRef } from "../queue/bagqueue.ts";
import { type AskToConfirm, standingAsks } from "../record/contacts/confirmations.ts";
import type { Sql } from "../record/db/connect.ts";
import { readAttachments } from "../record/mail/attachments.ts";
import {
  adoptUnnamed,
  type Claimed,
  claimBag,
  type HeldBag,
  loadOpen,
  markComposing,
  narrowBag,
  type OpenEmail,
  releaseBags,
  splitBag,
  UNASKED,
} from "../record/mail/bagleases.ts";
import { BAG_EMAILS_MAX, unqueue } from "../record/mail/bags.ts";
import { barOpen, findBarred, type HashOf } from "../record/mail/barred.ts";
import type { AttachmentRef } from "../record/mail/emails.ts";
import { renewGrant } from "../record/mail/keeperwork.ts";
import { CONFIRM_WITHIN_MS } from "../rules/contact.ts";
import { GRANT_LIVES_MS } from "../rules/ledger.ts";
import { nameOfStream } from "../rules/stream.ts";
import type { MailSender } from "../shaping/shaping.ts";
import { toWireInTurns } from "../smtp/dots.ts";
import { domainOf, type Permit } from "../smtp/envelope.ts";
import { type Reply, troubleOf } from "../smtp/reply.ts";
import { turnIfLate } from "../turn.ts";
import { beginAttempt, endAttempt } from "./attemptspan.ts";
import { ByteBudget } from "./bytesinhand.ts";
import type { Courier } from "./courier.ts";
import type { Figures } from "./figures.ts";
import type { Leases } from "./leases.ts";
import { countOutcome, countSuppressed } from "./outcomecounts.ts";
import type { PathWriter, ReturnPaths } from "./returnpaths.ts";

const IN_FLIGHT = new Gauge("postrider_delivery_emails_in_flight", "E-mails that a worker is delivering");
const LEASED = new Gauge("postrider_delivery_bags_leased", "Bags on which a worker has a lease");
const CONNECTIONS = new Gauge(
  "postrider_delivery_connections",
  "SMTP connections to receivers or the smarthost",
  ["state"],
);
const WAITING = new Gauge("postrider_delivery_waiting", "E-mails of a worker that wait for a connection");

const CLAIMS_MAX = 3;
/** An e-mail that may have ended so many workers in the moment in which each composed it fails. */
const COMPOSING_MAX = 3;
/**
 * One that was taken so often, and was not what ended its workers, leaves the others in peace for a while.
 */
const CLAIMS_TO_WAIT = 6;
const LONG_WAIT_MS = 600_000;
const MARK_AGAIN_MS = 500;
/** What only an operator can mend is said this often, not once per mail. */
const COMPLAIN_EVERY_MS = 60_000;
/** Each is in memory up to five times over while it is encoded, signed and sent. */
const ATTACHED_BYTES_MAX = 64 * 2 ** 20;
const ATTACHED_WAIT_MS_MAX = 30_000;
/** Transactions of one mail. */
const AT_ONCE_MAX = 5;
/** For so long a link to confirm must still work when its mail leaves. */
const LINK_LEFT_MS = 3_600_000;
const NONE_UNDER_WAY: ReadonlySet<string> = new Set();
/** Bags that are not given back move when their leases run out, which takes 20 s. */
const RELEASE_MS_MAX = 500;

export type DeliverParts = {
  sql: Sql;
  signer: Signer;
  owners: Owners;
  /** Whom the engine itself writes as: no workspace has to own it. */
  operatorDomain: string | null;
  /** By which the operator finds the workspace of a mail. */
  markOf(workspaceId: string): string;
  /** Under which suppressed addresses are kept. */
  hashOf: HashOf;
  /** Whether a series of soft bounces suppresses. */
  countsSoft: boolean;
  courier: Courier;
  /** Without them the envelope's sender is that of the mail, and reports go there. */
  returnPaths: ReturnPaths | null;
  figures: Figures;
  settler: Settler;
  leases: Leases;
  clock: Clock;
  retrySchedule: readonly number[];
  lifetimeMs: number;
  emailsInFlightMax: number;
  /** Whether complaints of readers at this domain reach us. */
  hasFeedback(domain: string): boolean;
  onFault(error: unknown): void;
};

/**
 * A bag that is claimed, what is open in it, and until when (in ms) the caps let that leave. `underWay`: what
 * was under way here when it was read, so that the record may have known less about it than we did.
 */
type Loaded = {
  bag: HeldBag;
  claim: Claimed;
  emails: OpenEmail[];
  underWay: ReadonlySet<string>;
  lapsesAt: number;
};

/** `isCutShort`: some of its e-mails were taken back before anything was tried, and are still open. */
type Trip = {
  bag: HeldBag;
  permit: Permit;
  open: number;
  isCutShort: boolean;
  /** Set where so many workers have ended while they held its one e-mail that this may be the reason. */
  suspect: Pick<Claimed, "claims" | "composing"> | null;
  /** Something that should not happen kept us from saying what became of one of them. */
  isBroken: boolean;
  onDone(): void;
};

/** How long each part of the end may take, from its beginning. */
/** `notesMs` is behind the last answer, the others are all in all. */
type StopTimes = { courierMs: number; answersMs: number; notesMs: number; deliveriesMs: number };

export class Deliverer {
  readonly #parts: DeliverParts;
  readonly #rules: AttemptRules;
  #inFlight = 0;
  /** Bags that are being claimed: nobody knows yet how many e-mails are in them. */
  #claiming = 0;
  #isClosing = false;
  readonly #attachedRoom = new ByteBudget(ATTACHED_BYTES_MAX);
  #onRoom: (() => void)[] = [];
  /** E-mails under way, until their outcome has been noted. */
  readonly #carried = new Map<string, Promise<void>>();
  /** Claims and give-backs that have been begun: a polite end waits for them. */
  readonly #atRecord = new Set<Promise<unknown>>();
  #complainedAt = Number.NEGATIVE_INFINITY;
  #sender: { text: string; mailbox: Mailbox | null } | null = null;
  #mark = { workspaceId: "", text: "" };
  #shown = { at: 0, text: "" };
  readonly #unfollow: readonly (() => void)[];

  constructor(parts: DeliverParts) {
    this.#parts = parts;
    const { courier } = parts;
    this.#rules = {
      ...parts,
      carriesTo: courier.carriesTo,
      random: Math.random,
      onOutcome: (outcome, domain, isBulk) => countOutcome(courier.groupOf(domain), outcome, isBulk),
      providerOf: (domain) => courier.providerOf(domain) ?? "",
    };
    const { leases } = parts;
    this.#unfollow = [
      IN_FLIGHT.follow(() => this.#inFlight),
      LEASED.follow(() => leases.count),
      CONNECTIONS.follow(() => courier.figures.conversations - courier.figures.idle, "busy"),
      CONNECTIONS.follow(() => courier.figures.idle, "idle"),
      WAITING.follow(() => courier.figures.waiting),
    ];
    warmUp();
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Takes the bag to its receivers. Resolves when its e-mails are on their way. */
  async deliver(ref: BagRef): Promise<void> {
    await this.#room();
    let held: Loaded | null;
    try {
      held = await this.#track(this.#claim(ref));
    } finally {
      this.#claiming--;
      this.#onRoom.shift()?.();
    }
    if (!held) return;
    if (held.emails.length === 0) this.#finish(held.bag);
    else this.#sendAll(held);
  }

  /** The lease of the bag and what is open in it; null when it is not ours to send. */
  async #claim(ref: BagRef): Promise<Loaded | null> {
    const { workspaceId, id, generation } = ref;
    const { sql, settler, leases, clock, onFault } = this.#parts;
    if (!this.#isClosing) await settler.healthy();
    if (this.#isClosing) {
      // its job ends here, so the keeper has to queue it again
      await unqueue(sql, [ref]);
      return null;
    }
    const bag: HeldBag = { workspaceId, id, generation, token: randomUUID() };
    const claimedAt = leases.moment();
    const asked = clock.now();
    const claim = await claimBag(sql, bag, clock.given());
    if (!claim) {
      // of a suspended workspace: nobody has it, and its job ends here
      await unqueue(sql, [ref]);
      return null;
    }
    leases.hold(bag, claimedAt);
    try {
      // before they are read: what is written from now on may be missing in what is read
      const underWay = this.#underWay(claim.emailIds);
      // counted from before Postgres was asked: an answer that is late makes no place last longer
      const lapsesAt = claim.lapsesInMs > 0 ? asked + claim.lapsesInMs : clock.now() + GRANT_LIVES_MS;
      const opened = await this.#whileAsked(bag, await this.#open(bag, claim));
      const emails = claim.suppresses ? await this.#withoutBarred(bag, opened, underWay) : opened;
      if (claim.claims > 1 && (await this.#isolate(bag, claim, emails))) return null;
      return { bag, claim, emails, underWay, lapsesAt };
    } catch (error) {
      // a lease that is renewed for nobody would keep everybody from it
      leases.drop(bag);
      await releaseBags(sql, [bag]).catch(onFault);
      throw error;
    }
  }

  /** Which of these are on their way from here, or have an outcome that is not written yet. */
  #underWay(emailIds: readonly string[]): ReadonlySet<string> {
    const { settler } = this.#parts;
    return new Set(emailIds.filter((id) => this.#carried.has(id) || settler.isUnwritten(id)));
  }

  /** A mail that asked to confirm may have waited until its link is dead, or its person has decided. */
  async #whileAsked(bag: HeldBag, emails: OpenEmail[]): Promise<OpenEmail[]> {
    const asks = emails.flatMap(({ extra }) => extra?.asks ?? []);
    if (asks.length === 0) return emails;
    const { sql, clock } = this.#parts;
    const after = new Date(clock.now() - CONFIRM_WITHIN_MS + LINK_LEFT_MS);
    const standing = await standingAsks(sql, bag.workspaceId, asks, after);
    const isStanding = ({ contactId, askedAt }: AskToConfirm): boolean =>
      standing.some((one) => one.contactId === contactId && one.askedAt === askedAt);
    return emails.map((email) => {
      const asked = email.extra?.asks;
      return asked && !isStanding(asked) ? { ...email, barred: UNASKED } : email;
    });
  }

  /** Some addresses may have been suppressed since the mail was accepted: those who are left get theirs. */
  async #withoutBarred(
    bag: HeldBag,
    emails: OpenEmail[],
    underWay: ReadonlySet<string>,
  ): Promise<OpenEmail[]> {
    const { sql, hashOf, clock, courier } = this.#parts;
    const waiting = emails.filter(({ id, extra }) => !underWay.has(id) && extra?.account !== true);
    if (waiting.length === 0) return emails;
    const addressed = waiting.map(({ id, head }) => ({ workspaceId: bag.workspaceId, id, head }));
    const barred = await findBarred(sql, hashOf, addressed);
    if (barred.size === 0) return emails;
    for (const { id, bulk } of waiting)
      for (const { address } of barred.get(id) ?? [])
        countSuppressed(courier.groupOf(domainOf(address)), bulk);
    const marksOf = await barOpen(sql, bag, barred, clock.given());
    return emails.flatMap((email) => {
      const marks = barred.has(email.id) ? marksOf.get(email.id) : email.marks;
      return marks?.includes("o") ? { ...email, marks } : [];
    });
  }

  /**
   * What may leave of the bag: its open e-mails. When its place in the caps has lapsed, the caps are asked
   * again.
   */
  async #open(bag: HeldBag, { emailIds, lapsesInMs }: Claimed): Promise<OpenEmail[]> {
    const { sql, clock } = this.#parts;
    let emails = await loadOpen(sql, bag, emailIds);
    if (emails.length < emailIds.length && (await adoptUnnamed(sql, bag, emailIds)) > 0)
      emails = await loadOpen(sql, bag, emailIds);
    if (lapsesInMs > 0 || emails.length === 0) return emails;
    const granted = await renewGrant(
      sql,
      bag,
      emails.map(({ id }) => id),
      clock.given(),
    );
    if (granted === null || granted.size === 0) return [];
    // the time for which they have been tried has stopped
    if (emails.some(({ sentAt }) => sentAt !== null)) emails = await loadOpen(sql, bag, [...granted]);
    return emails.filter(({ id }) => granted.has(id));
  }

  /**
   * Stops taking bags. What is on its way is waited for until the courier's deadline, and the rest is given
   * back; what was answered is written until the deadline of the notes, and a delivery until a later one,
   * since what is not would be sent again.
   */
  async close({ courierMs, answersMs, notesMs, deliveriesMs }: StopTimes): Promise<void> {
    this.#isClosing = true;
    const { courier, settler, leases, sql, onFault } = this.#parts;
    for (const resolve of this.#onRoom.splice(0)) resolve();
    settler.releaseWaiting();
    const began = performance.now();
    await courier.close(courierMs, answersMs);
    const answeredAt = performance.now();
    const notesLeftMs = () => notesMs - (performance.now() - answeredAt);
    // the last answers are noted a little later than they come
    await atMost(notesMs, Promise.allSettled(this.#carried.values()));
    await settler.close(notesLeftMs(), deliveriesMs - (performance.now() - began));
    const releaseUntil = performance.now() + RELEASE_MS_MAX;
    await atMost(RELEASE_MS_MAX / 2, this.#idle());
    const held = leases.all();
    leases.close();
    for (const unfollow of this.#unfollow) unfollow();
    if (held.length > 0)
      await atMost(releaseUntil - performance.now(), releaseBags(sql, held).catch(onFault));
  }

  /** Resolves when no claim and no give-back is under way. */
  async #idle(): Promise<void> {
    while (this.#atRecord.size > 0) await Promise.allSettled(this.#atRecord);
  }

  #track<T>(work: Promise<T>): Promise<T> {
    const tracked = work.finally(() => this.#atRecord.delete(tracked));
    this.#atRecord.add(tracked);
    return tracked;
  }

  /** A bag whose workers keep ending: says whether it was dealt with here. */
  async #isolate(bag: HeldBag, claim: Claimed, emails: readonly OpenEmail[]): Promise<boolean> {
    const { sql, clock, leases } = this.#parts;
    if (emails.length > 0 && emails.length < claim.emailIds.length) {
      await narrowBag(
        sql,
        bag,
        emails.map((email) => email.id),
      );
      return false;
    }
    if (claim.claims <= CLAIMS_MAX) return false;
    if (emails.length > 1) {
      const now = clock.now();
      await splitBag(sql, bag, emails, () => newId(now), new Date(now));
      leases.drop(bag);
      return true;
    }
    if (claim.composing < COMPOSING_MAX) return false;
    for (const email of emails)
      this.#fail(bag, email, "Three workers ended while they were composing this e-mail.");
    this.#finish(bag);
    return true;
  }

  #finish(bag: HeldBag): void {
    const { settler, leases } = this.#parts;
    leases.end(bag);
    settler.finish(bag, () => leases.drop(bag));
  }

  /**
   * What is still open in it is for whoever takes it next; what was noted has to be written under our lease.
   */
  async #giveBack(bag: HeldBag): Promise<void> {
    const { settler, leases, sql } = this.#parts;
    await settler.written();
    leases.drop(bag);
    await releaseBags(sql, [bag]);
  }

  #sendAll({ bag, claim, emails, underWay, lapsesAt }: Loaded): void {
    const { settler, leases, clock, onFault } = this.#parts;
    this.#inFlight += emails.length;
    const trip: Trip = {
      bag,
      permit: { mayBegin: () => leases.isFresh(bag) && !this.#isClosing && clock.now() < lapsesAt },
      open: emails.length,
      isCutShort: false,
      suspect: claim.claims > CLAIMS_MAX && emails.length === 1 ? claim : null,
      isBroken: false,
      onDone: () => {
        // it counts among its claims, as if we had ended: what keeps failing us is isolated
        if (trip.isBroken) settler.written().then(() => leases.drop(bag), onFault);
        else if (trip.isCutShort) this.#track(this.#giveBack(bag)).catch(onFault);
        else this.#finish(bag);
      },
    };
    for (const email of emails) {
      const sending = underWay.has(email.id) ? this.#sendAgain(trip, email) : this.#begin(trip, email);
      if (sending) this.#follow(trip, email, sending);
      else this.#arrived(trip);
    }
  }

  /** The e-mails of a bag are begun together, and others have their turn in between. */
  #begin(trip: Trip, email: OpenEmail): Promise<void> | null {
    const late = turnIfLate();
    if (late) return late.then(() => this.#send(trip, email) ?? undefined);
    try {
      return this.#send(trip, email);
    } catch (error) {
      this.#break(trip, error);
      return null;
    }
  }

  #follow(trip: Trip, { id }: OpenEmail, sending: Promise<void>): void {
    this.#carried.set(id, sending);
    const ended = (): void => {
      if (this.#carried.get(id) === sending) this.#carried.delete(id);
      this.#arrived(trip);
    };
    sending.then(ended, (error: unknown) => {
      this.#break(trip, error);
      ended();
    });
  }

  #break(trip: Trip, error: unknown): void {
    this.#parts.onFault(error);
    trip.isBroken = true;
  }

  /**
   * An e-mail that is under way is not begun a second time: it comes here again when the lease of its bag was
   * lost for a while. Its first answer is awaited, and what is still open then is sent.
   */
  async #sendAgain(trip: Trip, { id }: OpenEmail): Promise<void> {
    const { settler, sql } = this.#parts;
    await this.#carried.get(id)?.catch(() => {});
    await settler.written();
    const opened = await this.#whileAsked(trip.bag, await loadOpen(sql, trip.bag, [id]));
    // the wait may have taken minutes, in which an address was suppressed
    const [email] = await this.#withoutBarred(trip.bag, opened, NONE_UNDER_WAY);
    if (email) await this.#send(trip, email);
  }

  #arrived(trip: Trip): void {
    this.#inFlight--;
    this.#onRoom.shift()?.();
    trip.open--;
    if (trip.open === 0) trip.onDone();
  }

  /** Until its outcome is noted; null: it is. */
  #send(trip: Trip, email: OpenEmail): Promise<void> | null {
    const { bag } = trip;
    if (email.barred !== null) {
      this.#drop(bag, email, "canceled", `The contact is ${email.barred}.`);
      return null;
    }
    const from = this.#readSender(email.head.from);
    if (!from) {
      this.#fail(bag, email, "The e-mail has no valid sender.");
      return null;
    }
    const people = readPeople(email.head);
    const held = this.#heldBack(bag, email, people);
    if (held) {
      this.#noteUntried(bag, email, people, held);
      return null;
    }
    const foreign = this.#isForeign(bag.workspaceId, from.domain);
    if (foreign === false && !email.extra?.attachments) return this.#carry(trip, email, from, people, []);
    return this.#sendWhenKnown(trip, email, from, people, foreign);
  }

  /** Whether the sender's domain is still theirs has to be asked, or there are attachments to read. */
  async #sendWhenKnown(
    trip: Trip,
    email: OpenEmail,
    from: Mailbox,
    people: People,
    foreign: boolean | Promise<boolean>,
  ): Promise<void> {
    const { bag, suspect } = trip;
    const found = await Promise.resolve(foreign).catch(unknownOwner);
    if (typeof found !== "boolean") return this.#wait(bag, email, people, found);
    if (found) return this.#fail(bag, email, `The domain ${from.domain} belongs to another workspace now.`);
    const refs = email.extra?.attachments;
    if (!refs) return this.#carry(trip, email, from, people, []);
    const bytes = refs.reduce((sum, ref) => sum + ref.bytes, 0);
    const hadRoom = await this.#attachedRoom.with(bytes, ATTACHED_WAIT_MS_MAX, async () => {
      if (suspect) await this.#noteComposing(bag, suspect.composing + 1);
      let attachments: Attachment[];
      try {
        attachments = await this.#attachments(bag.workspaceId, refs);
      } catch (error) {
        if (suspect) await this.#noteComposing(bag, 0);
        if (error instanceof ContentGone) this.#fail(bag, email, uncomposed(error));
        else this.#wait(bag, email, people, unread(error));
        return;
      }
      await this.#carry(trip, email, from, people, attachments);
    });
    if (!hadRoom) this.#wait(bag, email, people, NO_ROOM);
  }

  /**
   * Until it is written, or the lease is lost: a mark that stays behind because Postgres was away would
   * accuse the e-mail, though we live. What is marked when its answer is lost is marked again.
   */
  async #noteComposing(bag: HeldBag, composing: number): Promise<void> {
    const { sql, leases, onFault } = this.#parts;
    for (;;) {
      try {
        return await markComposing(sql, bag, composing);
      } catch (error) {
        if (this.#isClosing || !leases.holds(bag)) throw error;
        onFault(error);
      }
      await new Promise((resolve) => setTimeout(resolve, MARK_AGAIN_MS));
    }
  }

  /** Composing what does not go now would be for nothing. */
  #heldBack(bag: HeldBag, email: OpenEmail, people: People): Reply[] | null {
    const { courier } = this.#parts;
    if (!courier.isShaped) return null;
    const to = openRecipients(people.recipients, email.marks).map(({ address }) => address);
    return courier.holdsBack(to, senderOf(bag, email));
  }

  /** Mail is judged when it is accepted; by now the domain may have been verified for somebody else. */
  #isForeign(workspaceId: string, domain: string): boolean | Promise<boolean> {
    const { owners, operatorDomain } = this.#parts;
    if (domain === operatorDomain) return false;
    const refused = owners.refused({ workspaceId, version: 0 }, [domain]);
    return refused instanceof Promise ? refused.then(({ size }) => size > 0) : refused.size > 0;
  }

  async #carry(
    trip: Trip,
    email: OpenEmail,
    from: Mailbox,
    people: People,
    attachments: readonly Attachment[],
  ): Promise<void> {
    const { bag, permit, suspect } = trip;
    const { signer, courier, returnPaths, figures, clock } = this.#parts;
    if (suspect) await this.#noteComposing(bag, suspect.composing + 1);
    const attemptedAt = clock.now();
    const content = contentOf(email, from, people, attachments, attemptedAt, this.#markOf(bag.workspaceId));
    let message: Buffer;
    try {
      const late = turnIfLate();
      if (late) await late;
      const composed = compose(content);
      message = composed instanceof Promise ? await composed : composed;
    } catch (error) {
      this.#fail(bag, email, uncomposed(error));
      return;
    }
    // each wait takes a turn of the queue of promises, so nothing is waited for that is there
    const signing = signer.sign(bag.workspaceId, from.domain, message);
    const signed = signing instanceof Promise ? await signing : signing;
    if (!Buffer.isBuffer(signed)) {
      // it waits rather than goes unsigned
      this.#wait(bag, email, people, signed);
      return;
    }
    const open = openRecipients(people.recipients, email.marks);
    const to = open.map(({ address }) => address);
    const utf8 = needsUtf8(content);
    const rewriting = toWireInTurns(signed);
    const wire = rewriting instanceof Promise ? await rewriting : rewriting;
    if (suspect) {
      await this.#noteComposing(bag, 0);
      if (suspect.claims > CLAIMS_TO_WAIT) return this.#wait(bag, email, people, WORKERS_ENDED);
    }
    const sender = senderOf(bag, email);
    const known = returnPaths?.writer(bag.workspaceId, from.domain) ?? null;
    const writer = known instanceof Promise ? await known.catch(noReturnPath) : known;
    if (writer !== null && typeof writer !== "function") return this.#wait(bag, email, people, writer);
    figures.begin(open);
    const span = beginAttempt(bag, email);
    const replies =
      writer !== null && to.length !== 1
        ? await this.#sendEach(email, { writer, to, utf8 }, wire, permit, sender)
        : await courier.send(
            { from: writer?.(email.id, email.marks.indexOf("o"), attemptedAt) ?? from.address, to, utf8 },
            wire,
            permit,
            sender,
          );
    figures.end(open, replies);
    if (span) endAttempt(span, replies);
    if (replies.every(wasTakenBack)) {
      trip.isCutShort = true;
      return;
    }
    const answers: JudgedReply[] = [];
    for (const reply of replies) {
      // receivers choose the words that are judged, and many may answer at once
      const crowded = turnIfLate();
      if (crowded) await crowded;
      answers.push(judged(reply, email, attemptedAt, this.#rules));
    }
    this.#note(bag, email, people.recipients, answers, attemptedAt);
  }

  /**
   * Each recipient gets a transaction and a return path of their own, so that a report names the recipient by
   * where it comes, whatever it says. Most mail has one recipient, for whom this costs nothing; a MAC over
   * the whole mail would have to believe the address in a report, which anybody who got the mail can write.
   */
  async #sendEach(
    { id, marks }: OpenEmail,
    { writer, to, utf8 }: { writer: PathWriter; to: readonly string[]; utf8: boolean },
    wire: Buffer,
    permit: Permit,
    sender: MailSender,
  ): Promise<Reply[]> {
    const { courier, clock } = this.#parts;
    const places = [...marks].flatMap((mark, place) => (mark === "o" ? [place] : []));
    const send = async (n: number): Promise<Reply> => {
      const from = writer(id, places[n] as number, clock.now());
      const [reply] = await courier.send({ from, to: [to[n] as string], utf8 }, wire, permit, sender);
      return reply as Reply;
    };
    const replies: Reply[] = [];
    for (let n = 0; n < to.length; n += AT_ONCE_MAX)
      replies.push(...(await Promise.all(to.slice(n, n + AT_ONCE_MAX).map((_, k) => send(n + k)))));
    return replies;
  }

  /** Nothing of it was sent, for a reason that may pass. */
  #wait(bag: HeldBag, email: OpenEmail, people: People, why: Reply): void {
    const replies = openRecipients(people.recipients, email.marks).map(() => why);
    this.#noteUntried(bag, email, people, replies);
  }

  /** The replies are our own, and quick to judge. */
  #noteUntried(bag: HeldBag, email: OpenEmail, people: People, replies: readonly Reply[]): void {
    const now = this.#parts.clock.now();
    const answers = replies.map((reply) => judged(reply, email, now, this.#rules));
    this.#note(bag, email, people.recipients, answers, now);
  }

  /** The e-mails of a bag have mostly one sender. */
  #readSender(text: string): Mailbox | null {
    if (this.#sender?.text !== text) this.#sender = { text, mailbox: parseMailbox(text) };
    return this.#sender.mailbox;
  }

  /** One after the other, mails are mostly of one workspace. */
  #markOf(workspaceId: string): string {
    if (this.#mark.workspaceId !== workspaceId)
      this.#mark = { workspaceId, text: this.#parts.markOf(workspaceId) };
    return this.#mark.text;
  }

  async #attachments(workspaceId: string, refs: readonly AttachmentRef[]): Promise<Attachment[]> {
    const contents = await readAttachments(this.#parts.sql, workspaceId, refs);
    return refs.map(({ filename, content_type, content_id }, n) => {
      const content = contents[n];
      if (!content) throw new ContentGone(`the content of ${filename} is gone`);
      return { filename, content, contentType: content_type, contentId: content_id };
    });
  }

  #note(
    bag: HeldBag,
    email: OpenEmail,
    recipients: readonly Mailbox[],
    answers: readonly JudgedReply[],
    beganAt: number,
  ): void {
    const at = this.#parts.clock.now();
    const time = { beganAt, at, shown: this.#shownTime(at) };
    const { note, complaints } = attempted(bag, email, recipients, answers, time, this.#rules);
    for (const complaint of complaints) this.#complain(complaint);
    this.#parts.settler.note(note);
  }

  #complain(reply: string): void {
    const now = performance.now();
    if (now - this.#complainedAt < COMPLAIN_EVERY_MS) return;
    this.#complainedAt = now;
    this.#parts.onFault(
      new Error(
        `a receiver refuses all mail from this engine (address, name or login); an operator has to act: ${reply}`,
      ),
    );
  }

  #fail(bag: HeldBag, email: OpenEmail, reason: string): void {
    this.#drop(bag, email, "failed", reason);
  }

  /** Ends an e-mail that nobody tried to send. */
  #drop(bag: HeldBag, email: OpenEmail, status: "failed" | "canceled", reason: string): void {
    const at = this.#parts.clock.now();
    this.#parts.settler.note({
      bag,
      emailId: email.id,
      status,
      marks: email.marks.replaceAll("o", status === "failed" ? "f" : "x"),
      attemptedAt: null,
      at,
      events: [{ type: status, at: this.#shownTime(at), detail: reason }],
      places: [],
      nextAt: null,
      domain: null,
      reply: null,
      counts: status === "failed" ? { failed: 1 } : {},
    });
  }

  /** As callers read it. Many are noted in one millisecond, and writing a time takes half a microsecond. */
  #shownTime(at: number): string {
    if (this.#shown.at !== at) this.#shown = { at, text: new Date(at).toISOString() };
    return this.#shown.text;
  }

  /** Room for one more bag, which is then being claimed. */
  async #room(): Promise<void> {
    while (!this.#hasRoom() && !this.#isClosing)
      await new Promise<void>((resolve) => this.#onRoom.push(resolve));
    this.#claiming++;
  }

  #hasRoom(): boolean {
    const { emailsInFlightMax, courier } = this.#parts;
    const expected = this.#inFlight + this.#claiming * BAG_EMAILS_MAX;
    // a full bag may be more than all of the room
    return (
      (this.#claiming === 0 ? this.#inFlight : expected) < Math.min(emailsInFlightMax, courier.inHandMax)
    );
  }
}

class ContentGone extends Error {}

const NO_ROOM = troubleOf("session", "BUSY", "attachments of other e-mails use all the memory for them");

/** Whatever ended them: what else they held goes on without it meanwhile. */
const WORKERS_ENDED: Reply = {
  ...troubleOf(
    "session",
    "WORKERS_ENDED",
    "too many workers ended while they held it; it is tried again in ten minutes",
  ),
  retryMs: LONG_WAIT_MS,
};

function uncomposed(error: unknown): string {
  return `The e-mail could not be composed: ${messageOf(error)}`;
}

function unread(error: unknown): Reply {
  return troubleOf("session", "CONTENT_UNREAD", `its attachments could not be read: ${messageOf(error)}`);
}

function unknownOwner(error: unknown): Reply {
  return troubleOf(
    "session",
    "OWNER_UNREAD",
    `the owner of the sender's domain could not be read: ${messageOf(error)}`,
  );
}

function noReturnPath(error: unknown): Reply {
  return troubleOf("session", "RETURN_PATH_UNREAD", `its return path could not be read: ${messageOf(error)}`);
}

/**
 * By us: the worker stops, its lease is no longer fresh, or its place in the caps has lapsed. Not what the
 * receiver has all of: it may have been delivered, and is no business of the next worker at once.
 */
function wasTakenBack({ error, phase }: Reply): boolean {
  return (error === "WITHDRAWN" || error === "CLOSING") && phase !== "dot";
}

function senderOf({ workspaceId }: HeldBag, email: OpenEmail): MailSender {
  return { workspaceId, stream: nameOfStream(email), pool: email.pool };
}

/** Where it still has to go. */
function openRecipients(recipients: readonly Mailbox[], marks: string): Mailbox[] {
  return recipients.filter((_, n) => marks[n] === "o");
}
