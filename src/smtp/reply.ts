/**
 * The reply of a receiver about one recipient, or the error that took its place, without judgement:
 * outcome/classify.ts decides what it means.
 *
 * Promises: `text` can be stored and shown anywhere: no control characters, no lone surrogates, bounded.
 */
import { type Connection, connectionText } from "../rules/connection.ts";

/**
 * Where in the conversation it happened. `route` is before any, when DNS is asked who takes the mail of a
 * domain; `session` is outside of any: the mail was stopped on our side.
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
  /** For a mail that found no room: when to expect some. */
  readonly retryMs?: number;
  /** The suspended destination that the mail waits for. */
  readonly heldBy?: string;
  /** Over which connection it came, and how long after the mail was begun there. */
  readonly via?: Via | undefined;
  readonly tookMs?: number | undefined;
};

/** The other end of a connection, also as it is kept of each attempt. */
export type Via = Readonly<Connection> & {
  readonly text: string;
  /** Why its certificate does not hold, as a code of TLS. */
  readonly doubt: string | null;
  /** Ours; null: there was no connection. */
  readonly localIp: string | null;
};

export function viaOf(
  connection: Connection,
  { doubt = null, localIp = null }: Partial<Pick<Via, "doubt" | "localIp">> = {},
): Via {
  const { host, ip, tls, isVerified, policy } = connection;
  const text = connectionText(connection, localIp);
  return { host, ip, tls, isVerified, ...(policy && { policy }), text, doubt, localIp };
}

/** Reasons other than a reply or a network error. */
export type Trouble =
  /** No answer in the time allowed. */
  | "TIMEOUT"
  /** The peer sent no valid SMTP, or no answer to the command. */
  | "GARBLED"
  | "TLS_NOT_OFFERED"
  | "AUTH_NOT_OFFERED"
  /** Too much is waiting already, or it has waited for too long. */
  | "BUSY"
  | "CLOSING"
  /** Its destination is suspended, or gets no more for now. */
  | "SUSPENDED"
  | "LIMITED"
  /** The domain does not exist, or has nobody who takes its mail, or says that it takes none (RFC 7505). */
  | "NO_DOMAIN"
  | "NO_MAIL"
  /** Its mail hosts do not exist, or have addresses that mail may not go to. */
  | "NO_HOST"
  | "ADDRESS_BARRED"
  /** No source address of ours is of a family that its hosts have. */
  | "NO_SOURCE"
  /** Its mail hosts, or their TLSA records, could not be looked up with proof. */
  | "DANE_FAILED"
  /** The certificate is none of those that the host publishes. */
  | "TLSA_MISMATCH"
  /** None of its mail hosts is in its MTA-STS policy. */
  | "MX_NOT_IN_POLICY"
  /** DNS says that the domain's own servers fail. */
  | "DNS_FAILED"
  /** DNS does not answer. */
  | "DNS_SILENT"
  /** The send was withdrawn before it began. */
  | "WITHDRAWN"
  /** An address that would break out of its command. */
  | "ADDRESS_UNSAFE"
  | "SMTPUTF8_NOT_OFFERED"
  | "SIZE_EXCEEDED"
  /** The DKIM key of the sender's domain could not be decrypted or read. */
  | "KEY_UNUSABLE"
  | "KEY_UNREAD"
  /** The owner of the sender's domain could not be read. */
  | "OWNER_UNREAD"
  /** The attachments could not be read. */
  | "CONTENT_UNREAD"
  /** Several workers have ended while they held the e-mail, so it is left alone for a while. */
  | "WORKERS_ENDED"
  /** Whether the receiver requires TLS could not be read. */
  | "POLICY_UNREAD"
  /** The return path could not be read. */
  | "RETURN_PATH_UNREAD";

const TEXT_CHARS_MAX = 500;

/** What the peer said: whole lines, as they came over the wire, one byte per character. */
export function replyOf(phase: Phase, code: number, wire: string, via?: Via, tookMs?: number): Reply {
  const text = readable(wire);
  return {
    phase,
    code,
    enhanced: text.charCodeAt(ENHANCED_DOT) === DOT ? (ENHANCED.exec(text)?.[1] ?? null) : null,
    text,
    error: null,
    via,
    tookMs,
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
  if (wire.length <= TEXT_CHARS_MAX && PRINTABLE_ASCII.test(wire)) return wire;
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
const ENHANCED = /^\d{3}[ -]([245]\.\d{1,3}\.\d{1,3})(?![\d.])/;
/** Where its first dot is: `250 2.0.0`. */
const ENHANCED_DOT = 5;
const DOT = 0x2e;
