/**
 * One request and its answer on uWebSockets.js, which aborts the whole process when a handler throws, touches a
 * response whose client is gone, or leaves one without an answer. Everything that touches `HttpResponse` is here.
 *
 * What arrives of a body before its caller is admitted is kept within the bytes that all bodies of the process may take
 * together. It is not held back with `pause` and `resume`: in the pinned build a resumed connection that had carried
 * large bodies before now and then never read again.
 *
 * An answer given before the body has arrived goes out at once, and the rest of the body is read and thrown away, up to
 * 64 MB or 10 s, before the answer ends: closing at once makes clients that are still sending lose the answer.
 */

import type { HttpRequest, HttpResponse } from "uWebSockets.js";
import { randomUUID } from "node:crypto";

const DRAIN_BYTES_MAX = 64 * 1024 * 1024;
const DRAIN_MS_MAX = 10_000;
const ANSWER_IN_ONE_BYTES = 16 * 1024;

export type Headers = Record<string, string>;

export type BodyResult =
  | { kind: "body"; bytes: Buffer }
  | { kind: "too large" }
  | { kind: "gone" }
  | { kind: "no room" };

export type Visitor = {
  address: string | null;
  forwardedFor: string;
  userAgent: string;
  /** The page that made the request, as its browser says; empty when there is none. */
  origin: string;
  /** What the visitor calls us. */
  host: string;
};

/** Bytes of all bodies that a process holds at once. */
export class BodyBudget {
  readonly #bytesMax: number;
  #bytes = 0;
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }
  give(bytes: number): void {
    this.#bytes -= bytes;
  }
}

export class Exchange {
  readonly requestId = randomUUID();
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly authorization: string;
  readonly contentType: string;
  readonly contentEncoding: string;
  readonly contentLength: number;
  readonly hasBody: boolean;
  /** null when the header is not there. */
  readonly idempotencyKey: string | null;
  readonly batchValidation: string;
  readonly isFromBrowser: boolean;
  /** Set once the caller is known; every answer after that carries them. */
  rateHeaders: readonly [string, string][] = [];
  status = 0;
  onEnd: (() => void) | null = null;

  readonly #visitor: Visitor | null;
  readonly #res: HttpResponse;
  readonly #budget: BodyBudget;
  #isGone = false;
  #hasAnswered = false;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isComplete = false;
  #hadNoRoom = false;
  #bytesMax = Number.POSITIVE_INFINITY;
  #waiting: ((result: BodyResult) => void) | null = null;
  #draining: { bytes: number; timer: NodeJS.Timeout } | null = null;

  constructor(res: HttpResponse, req: HttpRequest, budget: BodyBudget) {
    this.#res = res;
    this.#budget = budget;
    res.onAborted(() => this.#onAborted());
    this.method = req.getCaseSensitiveMethod();
    this.path = req.getUrl();
    this.query = req.getQuery() ?? "";
    this.authorization = req.getHeader("authorization");
    this.#visitor = this.path.startsWith("/api/") ? null : readVisitor(res, req);
    this.isFromBrowser =
      req.getHeader("origin") !== "" ||
      req.getHeader("sec-fetch-site") !== "" ||
      req.getHeader("sec-fetch-dest") !== "" ||
      req.getHeader("referer") !== "";
    const length = req.getHeader("content-length");
    this.contentLength = Number(length);
    this.hasBody = this.contentLength > 0 || (length === "" && req.getHeader("transfer-encoding") !== "");
    this.#isComplete = !this.hasBody;
    this.contentType = this.hasBody ? req.getHeader("content-type") : "";
    this.contentEncoding = this.hasBody ? req.getHeader("content-encoding") : "";
    this.idempotencyKey = this.hasBody ? idempotencyKey(req) : null;
    this.batchValidation = this.hasBody ? req.getHeader("x-batch-validation") : "";
    if (this.hasBody) res.onData((chunk, isLast) => this.#onData(chunk, isLast));
  }

  /** Who looks at a page; not read for requests of the API. */
  get visitor(): Visitor {
    return this.#visitor ?? { address: null, forwardedFor: "", userAgent: "", origin: "", host: "" };
  }

  /** The whole body, once; asked for only when the caller may send it. */
  body(bytesMax: number): Promise<BodyResult> {
    this.#bytesMax = bytesMax;
    if (this.contentLength > bytesMax || this.#bytes > bytesMax)
      return Promise.resolve({ kind: "too large" });
    if (this.#isGone) return Promise.resolve({ kind: "gone" });
    if (this.#hadNoRoom) return Promise.resolve({ kind: "no room" });
    if (this.#isComplete) return Promise.resolve(this.#whole());
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  answer(status: number, body: string, headers: Headers = {}): void {
    if (this.#hasAnswered || this.#isGone) return;
    this.#hasAnswered = true;
    this.status = status;
    this.#forget();
    const res = this.#res;
    if (!this.#isComplete) {
      this.#answerAndDrain(status, body, headers);
      return;
    }
    const isLarge = body.length > ANSWER_IN_ONE_BYTES;
    res.cork(() => {
      this.#writeHead(status, headers);
      if (this.method === "HEAD") res.end();
      else if (isLarge) this.#endLarge(Buffer.from(body));
      else res.end(body);
    });
    this.#ended();
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  #writeHead(status: number, headers: Headers): void {
    const res = this.#res;
    res.writeStatus(STATUS_LINES[status] ?? String(status));
    if (!("Content-Type" in headers)) res.writeHeader("Content-Type", "application/json; charset=utf-8");
    res.writeHeader("X-Request-Id", this.requestId);
    for (const [name, value] of this.rateHeaders) res.writeHeader(name, value);
    for (const name in headers) res.writeHeader(name, headers[name] as string);
  }

  /** A slow reader takes a large answer bit by bit; handing it over at once may lose bytes in this version. */
  #endLarge(body: Buffer): void {
    const res = this.#res;
    const total = body.byteLength;
    const [, isDone] = res.tryEnd(body, total);
    if (isDone) return;
    res.onWritable((offset) => {
      if (this.#isGone) return true;
      const [hasRoom] = res.tryEnd(body.subarray(offset), total);
      return hasRoom;
    });
  }

  #answerAndDrain(status: number, body: string, headers: Headers): void {
    const res = this.#res;
    if (this.contentLength > DRAIN_BYTES_MAX) {
      res.cork(() => {
        this.#writeHead(status, headers);
        res.end(body, true);
      });
      this.#ended();
      return;
    }
    res.cork(() => {
      this.#writeHead(status, headers);
      res.write(body);
    });
    const timer = setTimeout(() => this.#stopDraining(), DRAIN_MS_MAX);
    this.#draining = { bytes: this.#bytes, timer };
  }

  #stopDraining(): void {
    if (this.#isGone) return;
    this.#res.close(); // calls onAborted
  }

  #onData(chunk: ArrayBuffer, isLast: boolean): void {
    const { byteLength } = chunk;
    if (this.#draining) {
      this.#drain(byteLength, isLast);
      return;
    }
    if (this.#isGone || this.#hasAnswered) return;
    if (byteLength > 0) {
      if (this.#hadNoRoom || !this.#budget.take(byteLength)) {
        this.#hadNoRoom = true;
        this.#finish({ kind: "no room" });
        return;
      }
      this.#bytes += byteLength;
      // the memory of a chunk is only lent
      this.#chunks.push(Buffer.from(new Uint8Array(chunk)));
    }
    if (isLast) this.#isComplete = true;
    if (this.#waiting && this.#bytes > this.#bytesMax) this.#finish({ kind: "too large" });
    else if (isLast && this.#waiting) this.#finish(this.#whole());
  }

  #drain(bytes: number, isLast: boolean): void {
    const draining = this.#draining as { bytes: number; timer: NodeJS.Timeout };
    draining.bytes += bytes;
    if (isLast) {
      clearTimeout(draining.timer);
      this.#draining = null;
      this.#isComplete = true;
      this.#res.cork(() => this.#res.end());
      this.#ended();
    } else if (draining.bytes > DRAIN_BYTES_MAX) {
      this.#stopDraining();
    }
  }

  #whole(): BodyResult {
    if (this.#bytes > this.#bytesMax) return { kind: "too large" };
    return {
      kind: "body",
      bytes: this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks),
    };
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
    this.#ended();
  }

  /** The body is no longer needed: its bytes are free for others. */
  #forget(): void {
    let bytes = 0;
    for (const chunk of this.#chunks) bytes += chunk.byteLength;
    this.#budget.give(bytes);
    this.#chunks = [];
  }

  #ended(): void {
    const onEnd = this.onEnd;
    this.onEnd = null;
    onEnd?.();
  }
}

function readVisitor(res: HttpResponse, req: HttpRequest): Visitor {
  return {
    address: Buffer.from(res.getRemoteAddressAsText()).toString() || null,
    forwardedFor: req.getHeader("x-forwarded-for"),
    userAgent: req.getHeader("user-agent"),
    origin: req.getHeader("origin"),
    host: req.getHeader("host"),
  };
}

/** An empty header and none read the same here; only a walk over all headers can tell, so only then it is made. */
function idempotencyKey(req: HttpRequest): string | null {
  const value = req.getHeader("idempotency-key");
  if (value !== "") return value;
  let found: string | null = null;
  req.forEach((name) => {
    if (name === "idempotency-key") found = "";
  });
  return found;
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
