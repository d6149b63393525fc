/**
 * What a receiver said about one recipient: a fact without judgement, the receiver's own words or what kept us from
 * having any. What it means is decided in outcome/classify.ts.
 *
 * Promises: `text` can be stored and shown anywhere: no control characters, no lone surrogates, bounded.
 */

/**
 * Where in the conversation it happened. `route` is before any, when DNS is asked who takes the mail of a domain; `session`
 * is outside of any: the mail was stopped on our side.
 */
export type Phase =
  | "route"
  | "connect"
  | "tls"
  | "greeting"
  | "helo"
  | "auth"
  | "mail"
  | "rcpt"
  | "data"
  | "dot"
  | "session";

export type Reply = {
  readonly phase: Phase;
  /** Of the reply; null when there was none, and `error` says why. */
  readonly code: number | null;
  /** RFC 3463, as `5.1.1`. */
  readonly enhanced: string | null;
  /** The literal reply, or the trouble in words. */
  readonly text: string;
  /** A code of the system (ECONNREFUSED, CERT_HAS_EXPIRED, ...) or a `Trouble`. */
  readonly error: string | null;
  /** Of what found no room: when there should be some. */
  readonly retryMs?: number;
  /** Over which connection it came, and how long after the mail was begun there. */
  readonly via?: Via;
  readonly tookMs?: number;
};

/** The other end of a connection. */
export type Via = {
  readonly host: string;
  /** null: there was no connection. */
  readonly ip: string | null;
  /** As `TLSv1.3`; null: in the clear. */
  readonly tls: string | null;
  /** The certificate holds for the host's name and a known authority signed it. */
  readonly isVerified: boolean;
};

/** What stops a mail besides a reply and the network. */
export type Trouble =
  /** No answer in the time allowed. */
  | "TIMEOUT"
  /** What came was no SMTP, or no answer to what was asked. */
  | "GARBLED"
  | "TLS_NOT_OFFERED"
  | "AUTH_NOT_OFFERED"
  /** Too much is waiting already, or it has waited for too long. */
  | "BUSY"
  | "CLOSING"
  /** The domain does not exist, or has nobody who takes its mail, or says that it takes none (RFC 7505). */
  | "NO_DOMAIN"
  | "NO_MAIL"
  /** Those who take its mail are not there, or at addresses where no mail may go. */
  | "NO_HOST"
  | "ADDRESS_BARRED"
  /** DNS says that the domain's own servers fail. */
  | "DNS_FAILED"
  /** DNS does not answer. */
  | "DNS_SILENT"
  /** Whoever asked for the sending took it back before it began. */
  | "WITHDRAWN"
  /** An address that would break out of its command. */
  | "ADDRESS_UNSAFE"
  | "SMTPUTF8_NOT_OFFERED"
  | "SIZE_EXCEEDED"
  /** Of the domain that signs it: the key does not open, or could not be read just now. */
  | "KEY_UNUSABLE"
  | "KEY_UNREAD"
  /** Whose domain it is could not be read just now. */
  | "OWNER_UNREAD"
  /** What is attached could not be read just now. */
  | "CONTENT_UNREAD"
  /** Where reports about it go could not be read just now. */
  | "RETURN_PATH_UNREAD";

const TEXT_CHARS_MAX = 500;

/** What the peer said: whole lines, as they came over the wire, one byte per character. */
export function replyOf(phase: Phase, code: number, wire: string): Reply {
  const text = readable(wire);
  return {
    phase,
    code,
    enhanced: /^\d{3}[ -]([245]\.\d{1,3}\.\d{1,3})(?![\d.])/.exec(text)?.[1] ?? null,
    text,
    error: null,
  };
}

export function troubleOf(
  phase: Phase,
  error: Trouble | (string & {}),
  text: string,
  enhanced: string | null = null,
): Reply {
  return { phase, code: null, enhanced, text: clean(text), error };
}

/** Lines become one, without the code that all of them repeat. */
function readable(wire: string): string {
  const bytes = wire.slice(0, 4 * TEXT_CHARS_MAX);
  const text = PRINTABLE_ASCII.test(bytes) ? bytes : Buffer.from(bytes, "latin1").toString("utf8");
  return clean(text.replace(/\n\d{3}[ -]?/g, " "));
}

function clean(text: string): string {
  const short = text.slice(0, TEXT_CHARS_MAX);
  if (PRINTABLE_ASCII.test(short)) return short;
  return short
    .replace(/\p{Cc}+/gu, " ")
    .toWellFormed()
    .trim();
}

const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;
