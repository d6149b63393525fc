/**
 * One endpoint in the hands of this process: the events that were read for it, those under way, and what
 * became of them since it was last written down.
 *
 * Promises: events of one e-mail or contact go one after the other, in their order; one that is not taken
 * holds back only those that follow it of the same. Failures take connections away, successes give them back,
 * up to CONNECTIONS_MAX. After FAILURES_MAX failures in a row nothing is sent but a try now and then.
 */
import { newId } from "../ids.ts";
import { Counter, Histogram, LONG_SECONDS } from "../meter.ts";
import type {
  DeliveryRow,
  DueEvent,
  HeldWebhook,
  SpanEvent,
  WebhookAttempt,
  WebhookProgress,
} from "../record/outbox/dispatch.ts";
import type { WebhookKey } from "../record/outbox/webhooks.ts";
import { FAILURES_MAX, pauseAfter, retryAfterMs, TRIES_MAX, waitAfter } from "../rules/webhook.ts";
import { turnIfLate } from "../turn.ts";
import { eventId, payloadOf } from "./payload.ts";
import { POST_MS_MAX, Poster, type PosterParts, type PostResult } from "./post.ts";
import { type SecretSealer, Signatures } from "./secret.ts";

const SENT = new Counter(
  "postrider_webhook_attempts_total",
  "Requests to webhooks, by the class of their answer",
  ["answer"],
);
const TOOK = new Histogram("postrider_webhook_seconds", "How long webhooks took to answer", LONG_SECONDS);

const CONNECTIONS_MAX = 32;
const CONNECTIONS_FIRST = 4;
/** Events in hand for each connection: enough until the next are read. */
const EVENTS_PER_CONNECTION = 12;
/**
 * Of addresses and subjects: one e-mail may have 50 KB of them, and an endpoint hundreds of events in hand.
 */
const BYTES_IN_HAND_MAX = 512 * 1024;
const EVENT_BYTES_MIN = 1_024;
/** An event that has been in hand longer gets a row of its own, so that the cursor may pass it. */
const HOLDS_UP_MS = 100;
/** What was erased meanwhile is not sent: contents that were read longer ago are read again. */
const CONTENTS_MS_MAX = 10_000;
const GONE = 410;

export type SenderParts = PosterParts & {
  sealer: SecretSealer;
  now(): number;
  random(): number;
  /** There is something to write down, or room for more. */
  onChange(): void;
};

type EventInHand = {
  event: SpanEvent | DueEvent;
  stream: Stream | null;
  tries: number;
  hasRow: boolean;
  /** Both by the monotonic clock; null: it has not been sent. */
  readAt: number;
  sentAt: number | null;
};

/** Events that are read in the order of their sequence. */
class Stream {
  readonly replayId: string | null;
  readonly last: number | null;
  readTo: number;
  /** Read, not delivered, and without a row: in the order of their sequence. */
  readonly open = new Map<number, EventInHand>();

  constructor(from: number, replay: HeldWebhook["replay"] = null) {
    this.readTo = from;
    this.replayId = replay?.id ?? null;
    this.last = replay?.last ?? null;
  }

  get cursor(): number {
    const first = this.open.keys().next();
    return first.done ? this.readTo : first.value - 1;
  }

  get isOver(): boolean {
    return this.last !== null && this.cursor >= this.last;
  }
}

/** What has to be written down of one endpoint. */
export type SenderReport = {
  progress: WebhookProgress;
  rows: DeliveryRow[];
  done: (WebhookKey & { sequence: number })[];
  freed: (WebhookKey & { subjectId: string })[];
  attempts: WebhookAttempt[];
};

export class EndpointSender {
  readonly #parts: SenderParts;
  #held: HeldWebhook;
  #poster: Poster;
  #signatures: Signatures;
  #main: Stream;
  #replay: Stream | null = null;
  readonly #ready: EventInHand[] = [];
  /**
   * By e-mail or contact: the one that is ready or under way, and those that wait until it has been taken.
   */
  readonly #queues = new Map<string, EventInHand[]>();
  /** By sequence: about how many bytes of memory each takes. */
  readonly #inHand = new Map<number, number>();
  #bytesInHand = 0;
  /** Of the largest of late. */
  #eventBytes = EVENT_BYTES_MIN;
  /** Of what these are, an event was not taken, and that is not written down yet. */
  #blocked = new Set<string>();
  #rows = new Map<number, DeliveryRow>();
  #done = new Set<number>();
  #freed: string[] = [];
  #attempts: WebhookAttempt[] = [];
  /**
   * Where the log held events no longer: told once the cursor has passed them, since only then nobody finds
   * them again.
   */
  #gaps: { to: number; events: number }[] = [];
  #failures: number;
  #failingSince: number | null;
  #pausedAt = 0;
  #retryAt: number | null;
  #deliveredAt: number | null = null;
  #isGone = false;
  #isBack = false;
  #isDirty = false;
  #isClosed = false;
  #limit = CONNECTIONS_FIRST;
  #running = 0;
  #isPumping = false;
  /** Nothing was read for it since it was claimed. */
  isFresh = true;
  idleSince = performance.now();
  readonly heldSince = performance.now();

  constructor(held: HeldWebhook, parts: SenderParts) {
    this.#parts = parts;
    this.#held = held;
    this.#main = new Stream(held.cursor);
    this.#replay = held.replay && this.#replayOf(held.replay);
    this.#failures = held.failures;
    this.#failingSince = held.failures > 0 ? parts.now() : null;
    this.#retryAt = held.retryAt?.getTime() ?? null;
    this.#poster = new Poster(held.endpoint, CONNECTIONS_MAX, parts);
    this.#signatures = new Signatures(parts.sealer.open(held, held.secrets));
    if (held.failures > 0) this.#limit = 1;
  }

  get key() {
    const { workspaceId, id } = this.#held;
    return { workspaceId, id };
  }

  get host(): string {
    return hostOf(this.#held);
  }

  get isIdle(): boolean {
    return this.#inHand.size === 0 && !this.#isDirty;
  }

  get isSending(): boolean {
    return this.#running > 0;
  }

  /** Something became of an event since it was last written. */
  get hasNews(): boolean {
    return this.#isDirty;
  }

  get inHand(): number {
    return this.#inHand.size;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /**
   * How many events may be read for it now: what a worker's death sends again is bounded by what is in hand.
   */
  get room(): number {
    if (this.#isClosed || this.#isPaused()) return 0;
    const most = this.#failures >= FAILURES_MAX ? 1 : this.#limit * EVENTS_PER_CONNECTION;
    const fitting = Math.ceil((BYTES_IN_HAND_MAX - this.#bytesInHand) / this.#eventBytes);
    return Math.max(0, Math.min(most - this.#inHand.size - this.#attempts.length, fitting));
  }

  /** Of the log: its present, and a range of its past that was asked for again. */
  get spans(): { stream: Stream; most: number }[] {
    if (this.room === 0) return [];
    const replay = this.#replay;
    if (replay === null || !this.#mayReplay(replay)) return [{ stream: this.#main, most: this.room }];
    const half = Math.ceil(this.room / 2);
    return [
      { stream: this.#main, most: half },
      { stream: replay, most: half },
    ];
  }

  /**
   * A range may reach beyond what has been read of the present. What lies there is told in its turn, and not
   * before. By our own count: the cursor in the record is behind it, and what was told since is asked for
   * too.
   */
  #replayOf(asked: NonNullable<HeldWebhook["replay"]>): Stream {
    const replay = new Stream(asked.cursor, { ...asked, last: Math.min(asked.last, this.#main.readTo) });
    this.#isDirty ||= replay.isOver;
    return replay;
  }

  /** What is being told for the first time comes before what is told again. */
  #mayReplay(replay: Stream): boolean {
    return !replay.isOver && this.#main.cursor >= (replay.last as number);
  }

  /** The endpoint as it is now in the record. */
  follow(held: HeldWebhook): void {
    const before = this.#held;
    this.#held = held;
    if (!held.isOpen) this.close();
    if (
      held.replay &&
      this.#replay?.replayId !== held.replay.id &&
      (this.#replay === null || this.#replay.isOver)
    )
      this.#replay = this.#replayOf(held.replay);
    if (!held.secrets.equals(before.secrets))
      this.#signatures = new Signatures(this.#parts.sealer.open(held, held.secrets));
    if (held.updatedAt.getTime() === before.updatedAt.getTime()) return;
    this.#isGone = false;
    if (held.failures === 0) this.#recover(this.#failures > 0);
    else this.#retryAt = held.retryAt?.getTime() ?? null;
    if (held.endpoint === before.endpoint) return;
    this.#poster.close();
    this.#poster = new Poster(held.endpoint, CONNECTIONS_MAX, this.#parts);
  }

  /** Nothing new is sent; what is under way is waited for. */
  close(): void {
    this.#isClosed = true;
    for (const one of this.#ready) this.#outOfHand(one.event);
    this.#ready.length = 0;
    for (const queue of this.#queues.values()) for (const one of queue.splice(1)) this.#outOfHand(one.event);
  }

  /** After what is under way. */
  end(): void {
    this.close();
    this.#poster.close();
  }

  /** Events of a stream, and how far it was looked through. */
  takeSpan(stream: Stream, events: readonly SpanEvent[], scannedTo: number, missed: number): void {
    // what came of it while this was read counts
    if (this.#isClosed || this.#isPaused()) return;
    for (const event of events) {
      const one = { event, stream, tries: 0, hasRow: false, readAt: performance.now(), sentAt: null };
      if (this.#inHand.has(event.sequence)) continue;
      if (event.isBehind || this.#blocked.has(event.subjectId)) this.#setAside(one, null);
      else {
        stream.open.set(event.sequence, one);
        this.#take(one);
      }
    }
    if (missed > 0) this.#miss(stream, missed);
    stream.readTo = Math.max(stream.readTo, scannedTo);
    this.#isDirty = true;
    this.#pump();
  }

  takeDue(events: readonly DueEvent[]): void {
    if (this.#isClosed || this.#isPaused()) return;
    for (const event of events)
      if (!this.#inHand.has(event.sequence) && !this.#isUnsaved(event))
        this.#take({
          ...{ event, stream: null, tries: event.tries, hasRow: true },
          ...{ readAt: performance.now(), sentAt: null },
        });
    this.#pump();
  }

  /** Its row was read as it was before this. */
  #isUnsaved({ sequence }: DueEvent): boolean {
    return this.#done.has(sequence) || this.#rows.has(sequence);
  }

  /** The log no longer holds what was next. */
  skipTo(stream: Stream, sequence: number): void {
    if (sequence <= stream.readTo) return;
    this.#miss(stream, sequence - stream.readTo);
    stream.readTo = sequence;
    this.#isDirty = true;
  }

  /** What follows what was read. A range of the past may reach back before the log. */
  #miss(stream: Stream, events: number): void {
    if (stream === this.#main) this.#gaps.push({ to: stream.readTo + events, events });
  }

  /** What is to be written down, from which moment it is the caller's; null: nothing. */
  report(): SenderReport | null {
    this.#letCursorPass();
    if (!this.#isDirty) return null;
    const { key } = this;
    const { cursor } = this.#main;
    const passed = this.#gaps.filter(({ to }) => to <= cursor);
    const replay = this.#replay;
    const report: SenderReport = {
      progress: {
        ...key,
        cursor,
        missed: passed.reduce((sum, { events }) => sum + events, 0),
        failures: this.#failures,
        deliveredAt: this.#deliveredAt,
        failingSince: this.#failingSince,
        retryAt: this.#retryAt,
        isGone: this.#isGone,
        updatedAt: this.#held.updatedAt,
        isBack: this.#isBack,
        replay: replay && { id: replay.replayId as string, cursor: replay.cursor, isOver: replay.isOver },
      },
      rows: [...this.#rows.values()],
      done: [...this.#done].map((sequence) => ({ sequence, ...key })),
      freed: this.#freed.map((subjectId) => ({ subjectId, ...key })),
      attempts: this.#attempts,
    };
    this.#rows = new Map();
    this.#done = new Set();
    this.#freed = [];
    this.#attempts = [];
    this.#blocked = new Set();
    this.#gaps = this.#gaps.filter(({ to }) => to > cursor);
    this.#isBack = false;
    this.#isDirty = false;
    if (replay?.isOver) this.#replay = null;
    return report;
  }

  #take(one: EventInHand): void {
    const bytes = bytesOf(one.event);
    this.#inHand.set(one.event.sequence, bytes);
    this.#bytesInHand += bytes;
    this.#eventBytes = Math.max(bytes, this.#eventBytes * 0.99);
    const queue = this.#queues.get(one.event.subjectId);
    if (queue) queue.push(one);
    else {
      this.#queues.set(one.event.subjectId, [one]);
      this.#ready.push(one);
    }
  }

  #pump(): void {
    if (!this.#isPumping) void this.#sendNext();
  }

  /**
   * To sign and to send takes some tenths of a millisecond, and all answers of many endpoints may come at
   * once.
   */
  async #sendNext(): Promise<void> {
    this.#isPumping = true;
    while (this.#maySend()) {
      const late = turnIfLate();
      if (late) await late;
      const one = this.#maySend() ? this.#ready.shift() : undefined;
      if (!one) break;
      if (performance.now() - one.readAt > CONTENTS_MS_MAX) {
        this.#readAnew(one);
        continue;
      }
      this.#running++;
      void this.#send(one);
    }
    this.#isPumping = false;
  }

  #maySend(): boolean {
    return this.#running < this.#limit && !this.#isClosed && this.#ready.length > 0;
  }

  async #send(one: EventInHand): Promise<void> {
    const { event } = one;
    one.sentAt = performance.now();
    const at = this.#parts.now();
    const poster = this.#poster;
    const result = await this.#post(event, at);
    this.#running--;
    SENT.add(1, result.status === null ? "none" : `${Math.floor(result.status / 100)}xx`);
    TOOK.note(result.ms / 1_000);
    const { workspaceId, id } = this.key;
    this.#attempts.push({
      workspaceId,
      id,
      attemptId: newId(at),
      sequence: event.sequence,
      at,
      status: result.status,
      ms: result.ms,
      error: result.error,
      response: result.response,
      subjectId: event.subjectId,
      type: event.type,
    });
    this.#isDirty = true;
    this.idleSince = performance.now();
    if (result.error === null) this.#delivered(one);
    // what is answered at its former URL says nothing about an endpoint
    else if (poster !== this.#poster) this.#readAnew(one);
    else this.#refused(one, result);
    this.#pump();
    this.#parts.onChange();
  }

  async #post(event: SpanEvent | DueEvent, at: number): Promise<PostResult> {
    const id = eventId(event);
    const timestamp = Math.floor(at / 1_000);
    const body = payloadOf(event);
    const signature = this.#signatures.of(id, timestamp, body, at);
    const headers = {
      "webhook-id": id,
      "webhook-timestamp": String(timestamp),
      "webhook-signature": signature,
      "svix-id": id,
      "svix-timestamp": String(timestamp),
      "svix-signature": signature,
    };
    return this.#poster.post(body, headers);
  }

  #delivered(one: EventInHand): void {
    this.#limit = Math.min(CONNECTIONS_MAX, this.#limit + 1);
    this.#deliveredAt = this.#parts.now();
    if (this.#isNews(one)) this.#recover();
    this.#letGo(one);
    if (one.hasRow) this.#finishRow(one);
    this.#next(one.event.subjectId);
  }

  /** Of one that took nothing, what waits for another try is due. */
  #recover(isBack = this.#failures >= FAILURES_MAX): void {
    this.#isBack ||= isBack;
    this.#isDirty ||= this.#isBack;
    this.#failures = 0;
    this.#failingSince = null;
    this.#retryAt = null;
  }

  /** What was under way when it began to fail says nothing new, however it is answered. */
  #isNews({ sentAt }: EventInHand): boolean {
    return (sentAt as number) > this.#pausedAt;
  }

  #refused(one: EventInHand, { status, retryAfter }: PostResult): void {
    const { now, random } = this.#parts;
    const at = now();
    const asked = retryAfterMs(retryAfter, at);
    const tries = one.tries + 1;
    const wait = waitAfter(tries, asked, random());
    this.#limit = Math.max(1, this.#limit >> 1);
    this.#failingSince ??= at;
    if (this.#isNews(one)) this.#failures++;
    if (status === GONE) {
      this.#isGone = true;
      this.#pausedAt = performance.now();
      this.close();
    } else this.#pause(pauseAfter(this.#failures, asked, random()), at);
    this.#letGo(one);
    this.#setAside({ ...one, tries }, wait === null ? null : at + wait);
    if (wait === null) {
      this.#freed.push(one.event.subjectId);
      this.#next(one.event.subjectId);
    } else this.#holdBack(one.event.subjectId);
  }

  /** Nothing is sent meanwhile; what was read already has a row from now on. */
  #pause(ms: number | null, at: number): void {
    if (ms === null) return;
    this.#pausedAt = performance.now();
    this.#retryAt = Math.max(this.#retryAt ?? 0, at + ms);
    for (const one of this.#ready.splice(0)) {
      this.#letGo(one);
      if (one.stream) this.#setAside(one, this.#retryAt);
      this.#holdBack(one.event.subjectId);
    }
  }

  #readAnew(one: EventInHand): void {
    this.#letGo(one);
    this.#setAside(one, this.#parts.now());
    this.#holdBack(one.event.subjectId);
  }

  /** Of one that was not taken, what follows waits for it in the record. */
  #holdBack(subjectId: string): void {
    this.#blocked.add(subjectId);
    for (const one of this.#queues.get(subjectId)?.slice(1) ?? []) {
      this.#letGo(one);
      this.#setAside(one, null);
    }
    this.#queues.delete(subjectId);
  }

  #next(subjectId: string): void {
    const queue = this.#queues.get(subjectId);
    queue?.shift();
    const next = queue?.[0];
    if (next) this.#ready.unshift(next);
    else this.#queues.delete(subjectId);
  }

  #outOfHand({ sequence }: Pick<SpanEvent, "sequence">): void {
    this.#bytesInHand -= this.#inHand.get(sequence) ?? 0;
    this.#inHand.delete(sequence);
  }

  #letGo({ event, stream }: EventInHand): void {
    this.#outOfHand(event);
    stream?.open.delete(event.sequence);
  }

  /** It has a row from now on; due at a time, or (null) when the one before it is delivered, or never. */
  #setAside({ event, tries }: EventInHand, dueAt: number | null): void {
    const { sequence, at, type, subjectId, entry, detail } = event;
    const failedAt = tries >= TRIES_MAX ? this.#parts.now() : null;
    this.#rows.set(sequence, {
      ...{ sequence, at, type, subjectId, entry, detail, tries, dueAt, failedAt },
      ...this.key,
    });
    this.#isDirty = true;
  }

  #finishRow({ event }: EventInHand): void {
    this.#rows.delete(event.sequence);
    this.#done.add(event.sequence);
    this.#freed.push(event.subjectId);
  }

  /**
   * What takes long gets a row: if this process dies, only that is sent again, and not all that went by
   * meanwhile.
   */
  #letCursorPass(): void {
    const before = performance.now() - HOLDS_UP_MS;
    const later = this.#parts.now() + 2 * POST_MS_MAX;
    for (const stream of [this.#main, this.#replay])
      for (const one of stream?.open.values() ?? []) {
        const [first] = this.#queues.get(one.event.subjectId) ?? [];
        if (one.sentAt === null ? one === first || !first?.hasRow : one.sentAt > before) break;
        one.hasRow = true;
        stream?.open.delete(one.event.sequence);
        // the row of the first lets that of the next go
        this.#setAside(one, one === first ? later : null);
      }
  }

  #isPaused(): boolean {
    return this.#retryAt !== null && this.#retryAt > this.#parts.now();
  }
}

/** With its port, where it names one. */
export function hostOf({ endpoint }: Pick<HeldWebhook, "endpoint">): string {
  return new URL(endpoint).host;
}

function bytesOf({ email }: Pick<SpanEvent, "email">): number {
  if (!email) return EVENT_BYTES_MIN;
  const { to, cc, bcc, reply_to, subject } = email.head;
  return [...to, ...cc, ...bcc, ...reply_to, subject].reduce(
    (bytes, text) => bytes + text.length,
    EVENT_BYTES_MIN,
  );
}

export type { Stream };
