/**
 * One request and its answer on uWebSockets.js, which aborts the whole process when a handler throws, touches
 * a response whose client is gone, or leaves one without an answer. Everything that touches `HttpResponse` is
 * here.
 *
 * Bytes of a body that arrive before its caller is admitted count towards the limit for all bodies of the
 * process. They are not held back with `pause` and `resume`: in the pinned build a resumed connection that
 * had carried large bodies sometimes never read again.
 *
 * An answer given before the body has arrived is sent at once. The rest of the body is read and discarded, up
 * to 64 MB, 10 s or 5 s of silence, before the answer ends: closing at once makes clients that still send
 * lose the answer.
 *
 * While a request is handled the library reads on, and a second request then ends the connection without an
 * answer to either. So the last request of a connection is answered in a later turn of the loop, when the
 * bytes behind it have been read, and its answer closes the connection.
 */

import type { HttpRequest, HttpResponse } from "uWebSockets.js";
import { randomUUID } from "node:crypto";
import type { Caller, Rate } from "../admission/admit.ts";
import type { TraceSpan } from "../trace.ts";
import type { BodyBudget } from "./bodybudget.ts";
import { BodyMemory } from "./bodymemory.ts";
import { type RequestHead, readHead } from "./head.ts";
import { MAIN_THREAD_BYTES_MAX } from "./json.ts";

const DRAIN_BYTES_MAX = 64 * 1024 * 1024;
const DRAIN_MS_MAX = 10_000;
/** The library closes a silent connection after 8 to 12 s; the answer must end before. */
const DRAIN_SILENCE_MS_MAX = 5_000;
const SMALL_BODY_BYTES = 16 * 1024;
const SMALL_BODIES = "small bodies";
const ANSWER_IN_ONE_BYTES = 16 * 1024;

export type Headers = Record<string, string>;

export type BodyResult =
  | { kind: "body"; chunks: Buffer[]; size: number }
  | { kind: "too large" }
  | { kind: "gone" }
  | { kind: "no room" };

/** A body that is read as its reader takes it; its beginning has been read. */
export type PiecedBody = {
  bytes: number;
  first: Buffer;
  /** From this byte on; null: it is kept no longer. */
  next(from: number): Promise<Buffer | null>;
};

export type AnswerBody = string | Buffer | PiecedBody;

export type PageVisitor = {
  address: string | null;
  forwardedFor: string;
  userAgent: string;
  /** The page that made the request, as its browser says; empty when there is none. */
  origin: string;
  /** The Host header. */
  host: string;
};

type Draining = { bytes: number; until: number; timer: NodeJS.Timeout };

export class Exchange {
  readonly beganAt = performance.now();
  readonly requestId = randomUUID();
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly head: RequestHead;
  readonly hasBody: boolean;
  /** Who asked, and which route: set as soon as each is known. */
  caller: Caller | null = null;
  route: string | null = null;
  /** Set with the route; null: traces are off. */
  span: TraceSpan | null = null;
  /** Set once the caller is known; every answer after that tells it. */
  rate: Rate | null = null;
  status = 0;
  onEnd: (() => void) | null = null;
  onGone: (() => void) | null = null;
  /** The answer has left this process, or nobody waits for it any more. */
  onSent: (() => void) | null = null;

  readonly #res: HttpResponse;
  readonly #budget: BodyBudget;
  readonly #isEnding: () => boolean;
  /** The owner of the bytes: the peer, until the workspace is known. Small bodies are counted together. */
  #owner: string | null = null;
  #isGone = false;
  #hasAnswered = false;
  #memory: BodyMemory | null = null;
  #bytes = 0;
  #bytesHeld = 0;
  #isComplete = false;
  #hadNoRoom = false;
  #bytesMax = Number.POSITIVE_INFINITY;
  #waiting: ((result: BodyResult) => void) | null = null;
  #draining: Draining | null = null;

  /** `isEnding`: connections are closed with their next answer. */
  constructor(res: HttpResponse, req: HttpRequest, budget: BodyBudget, isEnding: () => boolean) {
    this.#res = res;
    this.#isEnding = isEnding;
    this.#budget = budget;
    res.onAborted(() => this.#onAborted());
    this.method = req.getCaseSensitiveMethod();
    this.path = req.getUrl();
    this.query = req.getQuery() ?? "";
    const head = readHead(req, this.method);
    this.head = head;
    this.hasBody = head.fault === null && (head.contentLength > 0 || head.isChunked);
    this.#isComplete = !this.hasBody;
    if (this.hasBody) res.onData((chunk, isLast) => this.#onData(chunk, isLast));
  }

  /** The visitor of a page; null once the client is gone. */
  get visitor(): PageVisitor {
    const { forwardedFor, userAgent, origin, host } = this.head;
    return { address: this.#isGone ? null : addressOf(this.#res), forwardedFor, userAgent, origin, host };
  }

  /** The workspace that is calling: from now on the body counts for it. */
  belongsTo(workspaceId: string): void {
    if (!this.hasBody || this.#isGone || this.#hasAnswered || this.#owner === SMALL_BODIES) return;
    const peer = this.#owner;
    this.#owner = workspaceId;
    if (peer === null || this.#budget.move(peer, workspaceId, this.#bytesHeld)) return;
    this.#bytesHeld = 0;
    this.dropBody();
    this.#hadNoRoom = true;
  }

  /** The whole body, once; asked for only when the caller may send it. */
  body(bytesMax: number): Promise<BodyResult> {
    this.#bytesMax = bytesMax;
    if (this.head.contentLength > bytesMax || this.#bytes > bytesMax)
      return Promise.resolve({ kind: "too large" });
    if (this.#isGone) return Promise.resolve({ kind: "gone" });
    if (this.#hadNoRoom) return Promise.resolve({ kind: "no room" });
    if (this.#isComplete) return Promise.resolve(this.#whole());
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  /** The body was read to its end by whoever asked for it. */
  dropBody(): void {
    this.#memory?.clear();
  }

  answer(status: number, body: AnswerBody, headers: Headers = {}): void {
    if (this.#hasAnswered || this.#isGone) return;
    this.#hasAnswered = true;
    this.status = status;
    this.#forget();
    if (!this.#isComplete && !isPieced(body)) this.#answerAndDrain(status, body, headers);
    else if (this.isLast) setImmediate(() => this.#answerLast(status, body, headers));
    else this.#answerNow(status, body, headers);
  }

  #answerNow(status: number, body: AnswerBody, headers: Headers): void {
    this.#res.cork(() => {
      this.#writeHead(status, headers);
      if (isPieced(body)) this.#endPieced(body);
      else if (body.length > ANSWER_IN_ONE_BYTES && this.method !== "HEAD") this.#endLarge(body);
      else this.#endSmall(body, false);
    });
    this.#ended();
  }

  #answerLast(status: number, body: AnswerBody, headers: Headers): void {
    if (this.#isGone) return;
    this.#res.cork(() => {
      this.#writeHead(status, headers);
      // behind such a request the library closes the connection itself
      if (isPieced(body)) this.#endPieced(body);
      else if (typeof body !== "string" && body.length > ANSWER_IN_ONE_BYTES && !this.hasBody)
        this.#endLarge(body);
      else this.#endSmall(body, true);
    });
    this.#ended();
  }

  /** Its answer closes the connection. */
  get isLast(): boolean {
    return this.head.isLast || this.#isEnding();
  }

  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Of an answer that is sent too slowly. */
  cutOff(): void {
    if (!this.#isGone) this.#res.close();
  }

  #writeHead(status: number, headers: Headers): void {
    const res = this.#res;
    res.writeStatus(STATUS_LINES[status] ?? String(status));
    if (!("Content-Type" in headers)) res.writeHeader("Content-Type", "application/json; charset=utf-8");
    res.writeHeader("X-Request-Id", this.requestId);
    if (this.rate) res.writeHeader("X-RateLimit-Limit", rateLines(this.rate));
    for (const name in headers) res.writeHeader(name, headers[name] as string);
  }

  #endSmall(body: string | Buffer, isLast: boolean): void {
    this.#res.end(this.method === "HEAD" ? undefined : body, isLast);
    this.#sent();
  }

  /** A large answer is written in pieces: one large write to a slow reader may lose bytes in this version. */
  #endLarge(body: string | Buffer): void {
    const res = this.#res;
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const total = bytes.byteLength;
    const [, isDone] = res.tryEnd(bytes, total);
    if (isDone) {
      this.#sent();
      return;
    }
    res.onWritable((offset) => {
      if (this.#isGone) return true;
      const [hasRoom, isOver] = res.tryEnd(bytes.subarray(offset), total);
      if (isOver) this.#sent();
      return hasRoom;
    });
  }

  /** The next piece is read when all of this one has left. */
  #endPieced({ bytes, first, next }: PiecedBody): void {
    const res = this.#res;
    let piece = first;
    let from = 0;
    let isReading = false;
    const give = (offset: number): boolean => {
      if (this.#isGone || isReading) return true;
      const [hasRoom, isOver] = res.tryEnd(piece.subarray(offset - from), bytes);
      if (isOver) this.#sent();
      else if (hasRoom) void read();
      return hasRoom;
    };
    const read = async (): Promise<void> => {
      isReading = true;
      from += piece.byteLength;
      const following = await next(from).catch(() => null);
      if (this.#isGone) return;
      isReading = false;
      if (!following || following.byteLength === 0) return this.cutOff();
      piece = following;
      res.cork(() => give(from));
    };
    res.onWritable(give);
    give(0);
  }

  #sent(): void {
    const onSent = this.onSent;
    this.onSent = null;
    onSent?.();
  }

  #answerAndDrain(status: number, body: string | Buffer, headers: Headers): void {
    if (this.head.contentLength > DRAIN_BYTES_MAX) {
      setImmediate(() => this.#answerLast(status, body, headers));
      return;
    }
    const res = this.#res;
    res.cork(() => {
      this.#writeHead(status, headers);
      res.write(body);
    });
    const timer = setTimeout(() => this.#endDrain(), DRAIN_SILENCE_MS_MAX);
    this.#draining = { bytes: this.#bytes, until: performance.now() + DRAIN_MS_MAX, timer };
  }

  /** The answer ends, and with it a connection on which the rest of the body may still come. */
  #endDrain(): void {
    if (this.#isGone || this.#draining === null) return;
    clearTimeout(this.#draining.timer);
    this.#draining = null;
    this.#res.cork(() => this.#res.end(undefined, this.isLast || !this.#isComplete));
    this.#sent();
    this.#ended();
  }

  #onData(chunk: ArrayBuffer, isLast: boolean): void {
    if (isLast) this.#isComplete = true;
    if (this.#draining) {
      this.#drain(this.#draining, chunk.byteLength);
      return;
    }
    if (this.#isGone || this.#hasAnswered) return;
    if (!this.#keep(chunk)) this.#finish({ kind: "no room" });
    else if (this.#waiting && this.#bytes > this.#bytesMax) this.#finish({ kind: "too large" });
    else if (isLast && this.#waiting) this.#finish(this.#whole());
  }

  #keep(chunk: ArrayBuffer): boolean {
    const { byteLength } = chunk;
    if (byteLength === 0 || this.#hadNoRoom) return !this.#hadNoRoom;
    this.#owner ??= this.#firstOwner();
    if (!this.#budget.take(this.#owner, byteLength)) {
      this.#hadNoRoom = true;
      this.#forget();
      return false;
    }
    this.#bytes += byteLength;
    this.#bytesHeld += byteLength;
    this.#memory ??= new BodyMemory();
    this.#memory.add(chunk, Math.max(this.#bytes, this.head.contentLength) > MAIN_THREAD_BYTES_MAX);
    return true;
  }

  #firstOwner(): string {
    const { contentLength, isChunked } = this.head;
    return !isChunked && contentLength <= SMALL_BODY_BYTES ? SMALL_BODIES : (addressOf(this.#res) ?? "");
  }

  #drain(draining: Draining, bytes: number): void {
    draining.bytes += bytes;
    draining.timer.refresh();
    if (this.#isComplete && !this.isLast) this.#endDrain();
    else if (this.#isComplete || draining.bytes > DRAIN_BYTES_MAX || performance.now() > draining.until)
      setImmediate(() => this.#endDrain());
  }

  #whole(): BodyResult {
    if (this.#bytes > this.#bytesMax) return { kind: "too large" };
    return { kind: "body", chunks: this.#memory?.pieces ?? [], size: this.#bytes };
  }

  #finish(result: BodyResult): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.(result);
  }

  #onAborted(): void {
    this.#isGone = true;
    if (this.#draining) clearTimeout(this.#draining.timer);
    this.#forget();
    this.#finish({ kind: "gone" });
    this.onGone?.();
    this.#ended();
    this.#sent();
  }

  /** The body is no longer needed: its bytes are free for others. */
  #forget(): void {
    if (this.#owner !== null) this.#budget.give(this.#owner, this.#bytesHeld);
    this.#bytesHeld = 0;
    this.dropBody();
  }

  #ended(): void {
    const onEnd = this.onEnd;
    this.onEnd = null;
    onEnd?.();
  }
}

/** The value of the first header and five more lines: the library writes it as it is, in one call for all. */
function rateLines({ limit, remaining, resetSeconds }: Rate): string {
  return `${limit}\r\nX-RateLimit-Remaining: ${remaining}\r\nX-RateLimit-Reset: ${resetSeconds}\r\nratelimit-limit: ${limit}\r\nratelimit-remaining: ${remaining}\r\nratelimit-reset: ${resetSeconds}`;
}

function isPieced(body: AnswerBody): body is PiecedBody {
  return typeof body === "object" && "next" in body;
}

function addressOf(res: HttpResponse): string | null {
  return Buffer.from(res.getRemoteAddressAsText()).toString() || null;
}

const STATUS_LINES: Record<number, string> = {
  200: "200 OK",
  201: "201 Created",
  202: "202 Accepted",
  303: "303 See Other",
  400: "400 Bad Request",
  401: "401 Unauthorized",
  402: "402 Payment Required",
  403: "403 Forbidden",
  404: "404 Not Found",
  405: "405 Method Not Allowed",
  409: "409 Conflict",
  410: "410 Gone",
  413: "413 Payload Too Large",
  415: "415 Unsupported Media Type",
  422: "422 Unprocessable Entity",
  429: "429 Too Many Requests",
  500: "500 Internal Server Error",
  503: "503 Service Unavailable",
};
