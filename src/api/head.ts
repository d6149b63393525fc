/**
 * The head of a request, read in one pass over its headers. A proxy and we must agree where a body ends: an
 * ambiguous length is refused, and no later byte of that connection is read as a request.
 *
 * The server library itself refuses two kinds of length at once, a length that is not a number, blanks before
 * a colon, folded lines, bare LF and control characters, and closes. It accepts the first of several lengths,
 * an empty length as none, and any transfer encoding as `chunked`, which it parses loosely: these are refused
 * here. A header without a name hides those behind it, from the library and from us, and one of them may be a
 * length. So a request that may have a body but declares none is the last of its connection. A GET is not: a
 * body hidden behind it is read as a request.
 */
import type { HttpRequest } from "uWebSockets.js";

export type RequestHead = {
  authorization: string;
  isFromBrowser: boolean;
  /** 0 where none is given. */
  contentLength: number;
  isChunked: boolean;
  contentType: string;
  contentEncoding: string;
  /** null when the header is not there. */
  idempotencyKey: string | null;
  batchValidation: string;
  forwardedFor: string;
  userAgent: string;
  /** Of W3C Trace Context: the span that the request belongs to; empty when there is none. */
  traceparent: string;
  /** The page that made the request, as its browser says; empty when there is none. */
  origin: string;
  /** The Host header. */
  host: string;
  /** Nothing after this request is read from its connection. */
  isLast: boolean;
  fault: string | null;
};

export function readHead(req: HttpRequest, method: string): RequestHead {
  const head: RequestHead = {
    authorization: "",
    isFromBrowser: false,
    contentLength: 0,
    isChunked: false,
    contentType: "",
    contentEncoding: "",
    idempotencyKey: null,
    batchValidation: "",
    forwardedFor: "",
    userAgent: "",
    traceparent: "",
    origin: "",
    host: "",
    isLast: false,
    fault: null,
  };
  const framing: Framing = { hasLength: false };
  req.forEach((name, value) => {
    switch (name) {
      case "authorization":
        // of two neither is a key
        head.authorization += head.authorization === "" ? value : `, ${value}`;
        break;
      case "origin":
        head.origin ||= value;
        head.isFromBrowser ||= value !== "";
        break;
      case "host":
        head.host ||= value;
        break;
      case "referer":
      case "sec-fetch-site":
      case "sec-fetch-dest":
        head.isFromBrowser ||= value !== "";
        break;
      case "content-length":
        readLength(head, framing, value);
        break;
      case "transfer-encoding":
        readEncoding(head, value);
        break;
      case "connection":
        head.isLast ||= /\bclose\b/i.test(value);
        break;
      case "content-type":
        head.contentType ||= value;
        break;
      case "content-encoding":
        head.contentEncoding ||= value;
        break;
      case "idempotency-key":
        head.idempotencyKey ??= value;
        break;
      case "x-batch-validation":
        head.batchValidation ||= value;
        break;
      case "x-forwarded-for":
        // some proxies add a line of their own behind the visitor's
        head.forwardedFor = value;
        break;
      case "user-agent":
        head.userAgent ||= value;
        break;
      case "traceparent":
        head.traceparent ||= value;
        break;
    }
  });
  if (framing.hasLength && head.isChunked) head.fault = "both `Content-Length` and `Transfer-Encoding`";
  const mayHideBody = !framing.hasLength && method !== "GET" && method !== "HEAD";
  if (head.isChunked || mayHideBody || head.fault !== null) head.isLast = true;
  return head;
}

/** The length of the body. Two of them, or two forms, could hide a request in it. */
type Framing = { hasLength: boolean };

function readLength(head: RequestHead, framing: Framing, value: string): void {
  if (framing.hasLength) head.fault = "more than one `Content-Length` header";
  else if (!/^\d+$/.test(value)) head.fault = "a `Content-Length` header that is not a number";
  framing.hasLength = true;
  head.contentLength = Number(value);
}

function readEncoding(head: RequestHead, value: string): void {
  if (head.isChunked) head.fault = "more than one `Transfer-Encoding` header";
  else if (value.toLowerCase() !== "chunked")
    head.fault = "a `Transfer-Encoding` header other than `chunked`";
  head.isChunked = true;
}
