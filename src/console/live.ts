/**
 * What happens, told as it happens (server-sent events). All tabs of a workspace share one look a second at
 * the record: at its events where they are written, else at its newest e-mails. What came before the first
 * look is told by nobody: a stream says when it is `ready`, and its page reads again then. Whoever loses
 * session or membership is told no more.
 */
import type { ServerResponse } from "node:http";
import type { Sql } from "../record/db/connect.ts";
import { lastSequence, type News, newestEmails, newsSince } from "../record/outbox/news.ts";
import { deny } from "./refusal.ts";
import { headersOf } from "./server.ts";

const LOOK_EVERY_MS = 1_000;
const BEAT_EVERY_MS = 15_000;
const STREAMS_PER_ACCOUNT_MAX = 10;
/** Admins may invite as many accounts as they like. */
const STREAMS_PER_WORKSPACE_MAX = 50;
const STREAMS_MAX = 500;
const NEWS_MAX = 200;
const READY = "event: ready\ndata: {}\n\n";
const NEWEST_SPAN_MS = 900_000;
/** How often to ask whether events are written by now. */
const LOOKS_PER_SOURCE = 30;
const UNREAD_BYTES_MAX = 64 * 1024;

export type LiveParts = { lists(): Sql; now(): number; onFault(error: unknown): void };

export type Listener = {
  accountId: string;
  workspaceId: string;
  /** Whether they may still listen. */
  mayListen(): Promise<boolean>;
};

type OpenStream = Listener & { response: ServerResponse };

export class Live {
  readonly #parts: LiveParts;
  readonly #feeds = new Map<string, Feed>();
  readonly #streams = new Set<OpenStream>();
  #beat: NodeJS.Timeout | null = null;

  constructor(parts: LiveParts) {
    this.#parts = parts;
  }

  open(listener: Listener, response: ServerResponse): void {
    if (response.destroyed) return; // the tab was closed before its session was found; nothing tells of it later
    const streams = [...this.#streams];
    const own = streams.filter(({ accountId }) => accountId === listener.accountId);
    const neighbours = streams.filter(({ workspaceId }) => workspaceId === listener.workspaceId);
    if (
      own.length >= STREAMS_PER_ACCOUNT_MAX ||
      neighbours.length >= STREAMS_PER_WORKSPACE_MAX ||
      streams.length >= STREAMS_MAX
    )
      throw deny("rate_limit_exceeded", "The console is open in too many tabs. Close some.");
    const stream = { ...listener, response };
    response.writeHead(200, headersOf({ "Content-Type": "text/event-stream", "X-Accel-Buffering": "no" }));
    response.write("retry: 2000\n\n");
    this.#streams.add(stream);
    this.#beat ??= setInterval(() => this.#beatAll(), BEAT_EVERY_MS);
    this.#feedOf(listener.workspaceId).add(stream);
    response.once("close", () => this.#drop(stream));
  }

  stop(): void {
    for (const { response } of this.#streams) response.end();
  }

  #feedOf(workspaceId: string): Feed {
    const known = this.#feeds.get(workspaceId);
    if (known) return known;
    const feed = new Feed(this.#parts, workspaceId);
    this.#feeds.set(workspaceId, feed);
    return feed;
  }

  #drop(stream: OpenStream): void {
    this.#streams.delete(stream);
    const feed = this.#feeds.get(stream.workspaceId);
    if (feed?.remove(stream)) this.#feeds.delete(stream.workspaceId);
    if (this.#streams.size > 0 || this.#beat === null) return;
    clearInterval(this.#beat);
    this.#beat = null;
  }

  #beatAll(): void {
    for (const { response, mayListen } of this.#streams) {
      response.write(": still here\n\n");
      mayListen().then(
        (may) => {
          if (!may) response.end();
        },
        (error: unknown) => this.#parts.onFault(error),
      );
    }
  }
}

/** The looks at one workspace, for as long as somebody listens. */
class Feed {
  readonly #parts: LiveParts;
  readonly #workspaceId: string;
  readonly #streams = new Set<OpenStream>();
  readonly #timer: NodeJS.Timeout;
  #isLooking = false;
  /** Whether all that happens from now on is told. */
  #isReady = false;
  #looks = 0;
  /** null: events are not written. */
  #sequence: number | null = null;
  #known: Map<string, string> | null = null;

  constructor(parts: LiveParts, workspaceId: string) {
    this.#parts = parts;
    this.#workspaceId = workspaceId;
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS);
    this.#look();
  }

  add(stream: OpenStream): void {
    this.#streams.add(stream);
    if (this.#isReady) stream.response.write(READY);
  }

  /** Whether that was the last one. */
  remove(stream: OpenStream): boolean {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return false;
    clearInterval(this.#timer);
    return true;
  }

  /** A look that takes longer than a second is not begun twice. */
  #look(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    this.#news()
      .then((news) => {
        this.#tell(news);
        if (!this.#isReady) this.#write(READY);
        this.#isReady = true;
      }, this.#parts.onFault)
      .finally(() => {
        this.#isLooking = false;
      });
  }

  async #news(): Promise<News[]> {
    const sql = this.#parts.lists();
    if (this.#looks % LOOKS_PER_SOURCE === 0) await this.#chooseSource(sql);
    const news = await (this.#sequence === null
      ? this.#changedEmails()
      : this.#newEvents(sql, this.#sequence));
    this.#looks++; // one that failed is begun again from its start
    return news;
  }

  /** Another source knows nothing of what was told last: what happened in between is told by neither. */
  async #chooseSource(sql: Sql): Promise<void> {
    const last = await lastSequence(sql, this.#workspaceId);
    if ((last === null) === (this.#sequence === null)) return;
    this.#sequence = last;
    this.#known = null;
    this.#isReady = false;
  }

  async #newEvents(sql: Sql, after: number): Promise<News[]> {
    const news = await newsSince(sql, this.#workspaceId, after, NEWS_MAX);
    this.#sequence = news.at(-1)?.sequence ?? after;
    return news;
  }

  /** The first look only learns how things stand. */
  async #changedEmails(): Promise<News[]> {
    const { lists, now } = this.#parts;
    const emails = await newestEmails(lists(), this.#workspaceId, new Date(now() - NEWEST_SPAN_MS), NEWS_MAX);
    const before = this.#known;
    this.#known = new Map(emails.map(({ id, status, at }) => [id, `${status} ${at.getTime()}`]));
    if (before === null) return [];
    return emails
      .filter(({ id }) => before.get(id) !== this.#known?.get(id))
      .map(({ id, at }) => ({ type: "email.changed", id, at }));
  }

  #tell(news: readonly News[]): void {
    if (news.length === 0) return;
    const text = news
      .map(
        ({ type, id, at }) =>
          `event: change\ndata: ${JSON.stringify({ type, id, at: at.toISOString() })}\n\n`,
      )
      .join("");
    this.#write(text);
  }

  #write(text: string): void {
    for (const { response } of this.#streams) {
      // whoever reads too slowly connects again
      if (response.writableLength > UNREAD_BYTES_MAX) response.destroy();
      else response.write(text);
    }
  }
}
