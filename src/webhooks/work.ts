/**
 * The webhooks role: takes endpoints with something to tell under leases, reads the log for all of them at
 * once, sends, and writes down together what became of it.
 *
 * One loop writes before it reads: what is read next knows of everything that was not taken before. A worker
 * that dies is succeeded when its leases have run out, and what it had not written down is sent again under
 * the same ids. A slow endpoint delays nobody: each has connections and events in hand of its own.
 */
import { randomUUID } from "node:crypto";
import { atMost, DAY_MS } from "../clock.ts";
import { isMoving } from "../record/cells/moving.ts";
import type { Sql } from "../record/db/connect.ts";
import type { Looks } from "../record/db/looks.ts";
import { hindranceOf, isRefusal } from "../record/db/lost.ts";
import { onlyOne } from "../record/mail/keeperwork.ts";
import {
  claimWebhooks,
  disableFailing,
  type HeldWebhook,
  hasNews,
  logBounds,
  type Report,
  readDue,
  readSpans,
  releaseWebhooks,
  renewWebhooks,
  saveReport,
} from "../record/outbox/dispatch.ts";
import { numberEvents } from "../record/outbox/outbox.ts";
import type { WebhookKey } from "../record/outbox/webhooks.ts";
import { DISABLE_AFTER_MS, NOTICE_MS } from "../rules/webhook.ts";
import { turn } from "../turn.ts";
import { EndpointSender, hostOf, type SenderParts, type SenderReport, type Stream } from "./sender.ts";

const ENDPOINTS_MAX = 500;
/** One workspace may have half of the free places, and as many as these when few are free. */
const ENDPOINTS_OF_ONE_MIN = 20;
const ENDPOINTS_AT_HOST_MAX = 100;
/** While all places are taken, an endpoint leaves its place to another after this time. */
const PLACE_MS = 10_000;
const LEASE_MS = 15_000;
const RENEW_EVERY_MS = 1_000;
/** An endpoint without work is let go of after this time. */
const IDLE_MS = 1_000;
const LOOK_EVERY_MS = 200;
/** While it holds no endpoint: with the looks of others of this process. */
const NEWS_EVERY_MS = 250;
/** Together, so that a set is read and written while the next is sent. */
const GATHER_MS = 15;
const EVENTS_READ_MAX = 2_000;
const EVENTS_OF_ONE_MIN = 4;
const NUMBERED_MAX = 5_000;
/** Where others go first most of the time, mail needs the machine: events wait, and go on a few at a time. */
const CROWDED = 0.5;
const CROWDED_EVENTS_MAX = 100;
const CROWDED_NUMBERED_MAX = 1_000;
const CROWDED_MS = 250;
const SWEEP_EVERY_MS = 60_000;
const DISABLED_MAX = 100;
const FAULT_MS = 1_000;
/** What else this process does has its turn after this time. */
const TURN_MS_MAX = 5;

export type WebhookWorkerParts = Omit<SenderParts, "onChange"> & {
  sql: Sql;
  /** As the clock is told to Postgres. */
  given(): number;
  /** How much of the time in which there is something to do this process waits for a core: 0 to 1. */
  crowding(): number;
  /** Writes to owners of endpoints that fail. */
  tellOwners(now: number): Promise<void>;
  onFault(error: unknown): void;
};

export class WebhookWorker {
  readonly #parts: WebhookWorkerParts;
  readonly #token = randomUUID();
  readonly #senders = new Map<string, EndpointSender>();
  /** Taken from the senders, and not written down yet. */
  #unsaved: SenderReport[] = [];
  #timer: NodeJS.Timeout | null = null;
  #turnAt = 0;
  #running: Promise<void> = Promise.resolve();
  #isRunning = false;
  #isStopped = false;
  #isCrowded = false;
  #unfollow = () => {};
  /** The last workspace of which something was claimed: the next come first. */
  #claimFrom = "00000000-0000-0000-0000-000000000000";
  #lookedAt = Number.NEGATIVE_INFINITY;
  #renewedAt = Number.NEGATIVE_INFINITY;
  #sweptAt = Number.NEGATIVE_INFINITY;

  constructor(parts: WebhookWorkerParts) {
    this.#parts = parts;
  }

  /** While it holds no endpoint, a look at Postgres says when there is something to tell. */
  start(looks: Looks): void {
    this.#unfollow = looks.ask(NEWS_EVERY_MS, hasNews, (isNew: boolean) => {
      if (isNew && !this.#isRunning) this.#after(0);
    });
    this.#after(0);
  }

  /** Sends nothing new, waits for what is under way, and writes it down. */
  async stop(deadlineMs: number): Promise<void> {
    this.#isStopped = true;
    this.#unfollow();
    if (this.#timer) clearTimeout(this.#timer);
    const until = performance.now() + deadlineMs;
    await atMost(deadlineMs, this.#running);
    for (const sender of this.#senders.values()) sender.close();
    while (performance.now() < until && [...this.#senders.values()].some((sender) => sender.isSending))
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS));
    await atMost(
      Math.max(until - performance.now(), 500),
      this.#save().then(() => releaseWebhooks(this.#parts.sql, this.#token, this.#keys())),
    );
    for (const sender of this.#senders.values()) sender.end();
  }

  /** Events that were read and are not told yet. */
  get inHand(): number {
    return [...this.#senders.values()].reduce((sum, { inHand }) => sum + inHand, 0);
  }

  /** One turn of the loop; says whether there is more to do at once. */
  async turn(): Promise<boolean> {
    const { sql, given, now } = this.#parts;
    await this.#save();
    const at = performance.now();
    this.#isCrowded = this.#parts.crowding() > CROWDED;
    let isMore = false;
    if (at - this.#lookedAt >= LOOK_EVERY_MS) {
      this.#lookedAt = at;
      const most = this.#isCrowded ? CROWDED_NUMBERED_MAX : NUMBERED_MAX;
      const numbered = await onlyOne(sql, "events", given(), (tx) => numberEvents(tx, most));
      isMore = !this.#isCrowded && (numbered ?? 0) >= most;
      await this.#claim();
    }
    if (at - this.#renewedAt >= RENEW_EVERY_MS) {
      this.#renewedAt = at;
      await this.#renew();
    }
    await this.#readDue();
    await this.#readLog();
    if (at - this.#sweptAt >= SWEEP_EVERY_MS) {
      this.#sweptAt = at;
      await this.sweep(now());
    }
    return isMore;
  }

  /** Owners are told, and later endpoints disabled. */
  async sweep(now: number): Promise<void> {
    const { sql, tellOwners } = this.#parts;
    await tellOwners(now);
    await disableFailing(sql, {
      now,
      failingMs: DISABLE_AFTER_MS,
      noticeMs: NOTICE_MS,
      most: DISABLED_MAX,
    });
  }

  async #claim(): Promise<void> {
    const { sql, now, onFault } = this.#parts;
    const most = ENDPOINTS_MAX - this.#senders.size;
    if (most <= 0) return this.#vacate();
    const all = [...this.#senders.values()];
    const held = counted(all, ({ key }) => key.workspaceId);
    const hosts = counted(all, ({ host }) => host);
    const claimed = await claimWebhooks(sql, this.#token, {
      leaseMs: LEASE_MS,
      now: new Date(now()),
      most,
      mostOfOne: Math.max(ENDPOINTS_OF_ONE_MIN, most >> 1),
      held,
      fullHosts: [...hosts].flatMap(([host, count]) => (count >= ENDPOINTS_AT_HOST_MAX ? host : [])),
      from: this.#claimFrom,
    });
    this.#claimFrom = claimed.at(-1)?.workspaceId ?? this.#claimFrom;
    const [fitting, excess] = parted(claimed, (one) => {
      const host = hostOf(one);
      hosts.set(host, (hosts.get(host) ?? 0) + 1);
      return (hosts.get(host) as number) <= ENDPOINTS_AT_HOST_MAX;
    });
    if (excess.length > 0) await this.#release(excess);
    for (const held of fitting)
      try {
        // one that was lost and is held again begins anew
        this.#senders.get(held.id)?.end();
        this.#senders.set(
          held.id,
          new EndpointSender(held, { ...this.#parts, onChange: () => this.#wake() }),
        );
      } catch (error) {
        onFault(error);
      }
  }

  /** All places are taken: who has had one for long leaves it when what is under way has ended. */
  #vacate(): void {
    const before = performance.now() - PLACE_MS;
    for (const sender of this.#senders.values()) if (sender.heldSince < before) sender.close();
  }

  async #renew(): Promise<void> {
    const { sql } = this.#parts;
    const idle = performance.now() - IDLE_MS;
    const over = [...this.#senders.values()].filter(
      (sender) => sender.isIdle && (sender.isClosed || sender.idleSince < idle),
    );
    for (const { key } of over) this.#drop(key.id);
    if (over.length > 0) await this.#release(over.map(({ key }) => key));
    if (this.#senders.size === 0) return;
    const held = await renewWebhooks(sql, this.#token, this.#keys(), LEASE_MS);
    const heldOf = new Map<string, HeldWebhook>(held.map((one) => [one.id, one]));
    for (const [id, sender] of this.#senders) {
      const now = heldOf.get(id);
      if (now) sender.follow(now);
      else this.#drop(id);
    }
  }

  /** One whose workspace moves to another cell costs no other: its lease runs out. */
  async #release(keys: readonly WebhookKey[]): Promise<void> {
    const { sql, onFault } = this.#parts;
    try {
      await releaseWebhooks(sql, this.#token, keys);
    } catch (error) {
      if (!isMoving(error)) throw error;
      for (const key of keys) await releaseWebhooks(sql, this.#token, [key]).catch(onFault);
    }
  }

  async #readDue(): Promise<void> {
    const { sql, now } = this.#parts;
    const wanted = [...this.#senders.values()].flatMap((sender) =>
      sender.room > 0 ? [{ ...sender.key, most: sender.room + sender.inHand }] : [],
    );
    if (wanted.length === 0) return;
    const due = await readDue(sql, wanted, new Date(now()));
    await inTurns(
      grouped(due, ({ webhookId }) => webhookId),
      ([id, events]) => this.#senders.get(id)?.takeDue(events),
    );
  }

  async #readLog(): Promise<void> {
    const { sql } = this.#parts;
    const asked = [...this.#senders.values()].flatMap((sender) =>
      sender.spans.map((span) => ({ sender, ...span })),
    );
    if (asked.length === 0) return;
    const readMax = this.#isCrowded ? CROWDED_EVENTS_MAX : EVENTS_READ_MAX;
    const share = Math.max(EVENTS_OF_ONE_MIN, Math.floor(readMax / asked.length));
    const { events, ends } = await readSpans(
      sql,
      asked.map(({ sender, stream, most }, n) => ({
        ...sender.key,
        place: n,
        after: stream.readTo,
        last: stream.last,
        most: Math.min(most, share),
      })),
    );
    const eventsOf = grouped(events, ({ place }) => place);
    await inTurns(ends, ({ place: n, scannedTo, missed }) => {
      const { sender, stream } = asked[n] as (typeof asked)[number];
      sender.takeSpan(stream, eventsOf.get(n) ?? [], scannedTo, missed);
    });
    const found = new Set(ends.map(({ place }) => place));
    const silent = asked.filter((_, n) => !found.has(n));
    await this.#skipMissing(silent);
    for (const { sender } of asked) sender.isFresh = false;
  }

  /**
   * There is nothing where the next event should be: there is none yet, or the log does not hold it any more.
   */
  async #skipMissing(silent: readonly { sender: EndpointSender; stream: Stream }[]): Promise<void> {
    const doubted = silent.filter(({ sender, stream }) => stream.last !== null || sender.isFresh);
    if (doubted.length === 0) return;
    const bounds = await logBounds(
      this.#parts.sql,
      doubted.map(({ sender }) => sender.key.workspaceId),
    );
    for (const { sender, stream } of doubted) {
      const { first = null, last = 0 } = bounds.get(sender.key.workspaceId) ?? {};
      const next = first ?? last + 1;
      if (next > stream.readTo + 1) sender.skipTo(stream, Math.min(next - 1, stream.last ?? next));
    }
  }

  async #save(): Promise<void> {
    // alone: what could not be written, or was without our hearing of it, comes before what is new of the
    // same endpoints
    await this.#saveAll();
    for (const sender of this.#senders.values()) {
      const report = sender.report();
      if (report) this.#unsaved.push(report);
    }
    await this.#saveAll();
  }

  async #saveAll(): Promise<void> {
    if (this.#unsaved.length === 0) return;
    try {
      await this.#write(this.#unsaved);
    } catch (error) {
      if (!mayBeOfOne(error, this.#unsaved, this.#parts.now())) throw error;
      await this.#saveEach();
    }
    this.#unsaved = [];
  }

  /** What cannot be written down of one endpoint costs no other: it is let go of, and taken up anew. */
  async #saveEach(): Promise<void> {
    for (const report of this.#unsaved)
      try {
        await this.#write([report]);
      } catch (error) {
        if (!mayBeOfOne(error, [report], this.#parts.now())) throw error;
        this.#parts.onFault(error);
        this.#drop(report.progress.id);
      }
  }

  async #write(reports: readonly SenderReport[]): Promise<void> {
    const { sql, now } = this.#parts;
    await saveReport(sql, this.#token, merged(reports), new Date(now()));
  }

  #drop(id: string): void {
    this.#senders.get(id)?.end();
    this.#senders.delete(id);
  }

  #keys(): WebhookKey[] {
    return [...this.#senders.values()].map(({ key }) => key);
  }

  #wake(): void {
    if (!this.#isRunning && !this.#isStopped) this.#after(this.#isCrowded ? CROWDED_MS : GATHER_MS);
  }

  /** Unless a turn is planned sooner. */
  #after(ms: number): void {
    const at = performance.now() + ms;
    if (this.#isStopped || (this.#timer && this.#turnAt <= at)) return;
    if (this.#timer) clearTimeout(this.#timer);
    this.#turnAt = at;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#running = this.#run();
    }, ms);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    let ms = LOOK_EVERY_MS;
    try {
      if (await this.turn()) ms = 0;
    } catch (error) {
      this.#parts.onFault(error);
      ms = FAULT_MS;
    }
    this.#isRunning = false;
    if (ms === LOOK_EVERY_MS && this.#hasNews()) ms = this.#isCrowded ? CROWDED_MS : GATHER_MS;
    const isIdle = ms === LOOK_EVERY_MS && this.#senders.size === 0;
    this.#after(isIdle ? this.#sweptAt + SWEEP_EVERY_MS - performance.now() : ms);
  }

  /** Something happened while the loop was at work. */
  #hasNews(): boolean {
    return [...this.#senders.values()].some((sender) => sender.hasNews);
  }
}

/**
 * A full disk or a missing right hinders every endpoint: whoever lets go of them would tell all of them the
 * same again, each time their leases run out. The partition of another day may never be there: what was told
 * on that day is let go of.
 */
function mayBeOfOne(error: unknown, reports: readonly SenderReport[], now: number): boolean {
  if (!isRefusal(error)) return false;
  const hindrance = hindranceOf(error);
  const isOfAnotherDay = ({ attempts }: SenderReport) =>
    attempts.some(({ at }) => Math.abs(now - at) > DAY_MS);
  return hindrance === null || (hindrance === "partition" && reports.some(isOfAnotherDay));
}

/**
 * To sign and to send takes some tenths of a millisecond for each event, and hundreds of endpoints may be
 * told at once.
 */
async function inTurns<T>(all: Iterable<T>, take: (one: T) => void): Promise<void> {
  let began = performance.now();
  for (const one of all) {
    take(one);
    if (performance.now() - began < TURN_MS_MAX) continue;
    await turn();
    began = performance.now();
  }
}

function parted<T>(all: readonly T[], isFirst: (one: T) => boolean): [T[], T[]] {
  const [first, second]: [T[], T[]] = [[], []];
  for (const one of all) (isFirst(one) ? first : second).push(one);
  return [first, second];
}

function counted<T>(all: readonly T[], nameOf: (one: T) => string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const one of all) counts.set(nameOf(one), (counts.get(nameOf(one)) ?? 0) + 1);
  return counts;
}

function merged(reports: readonly SenderReport[]): Report {
  return {
    progress: reports.map(({ progress }) => progress),
    rows: reports.flatMap(({ rows }) => rows),
    done: reports.flatMap(({ done }) => done),
    freed: reports.flatMap(({ freed }) => freed),
    attempts: reports.flatMap(({ attempts }) => attempts),
  };
}

function grouped<T, K>(all: readonly T[], keyOf: (one: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const one of all) {
    const group = groups.get(keyOf(one));
    if (group) group.push(one);
    else groups.set(keyOf(one), [one]);
  }
  return groups;
}
