/** Who takes a composed message out of the house: a relay (one smarthost), or direct to the receivers. */
import { type Reply, troubleOf } from "../outcome/outcome.ts";

export type Envelope = {
  /** Empty: the null sender. */
  readonly from: string;
  readonly to: readonly string[];
  /** An address is not ASCII, or a header field is written in UTF-8: only a receiver with SMTPUTF8 can take it. */
  readonly utf8: boolean;
};

export type Permit = {
  /** Asked when the mail's turn comes, and again right before the message leaves; after a no, nothing of it does. */
  mayBegin(): boolean;
};

export interface Courier {
  /** Whom its conversations are with: one smarthost takes all mail, or each receiver its own. */
  readonly carriesTo: "smarthost" | "receivers";
  /**
   * One reply per recipient, in their order. Never rejects and never hangs, whatever the receiver does: every wait is
   * bounded. Sends beyond a bound are answered at once, as busy.
   */
  send(envelope: Envelope, message: Buffer, permit: Permit): Promise<Reply[]>;
  /** Finishes the mails under way, as far as the deadline allows; those that wait come back unsent. */
  close(deadlineMs: number): Promise<void>;
  readonly figures: CourierFigures;
}

export type CourierFigures = {
  /** Mails that no conversation carries yet. */
  waiting: number;
  conversations: number;
  idle: number;
  /** What keeps us from connecting now, if anything does. */
  trouble: Reply | null;
};

const UNSAFE = troubleOf("session", "ADDRESS_UNSAFE", "an address cannot be written into an SMTP command");

/** What no receiver may be told; null: it is safe to say. */
export function dangerOf({ from, to, utf8 }: Envelope): Reply | null {
  const isSafe = utf8 ? isSafeAddress : isSafeAsciiAddress;
  return (from === "" || isSafe(from)) && to.every(isSafe) ? null : UNSAFE;
}

/** What cannot end its command or its brackets; a space only stands in a quoted local part. */
const SAFE = /^(?:[^\s<>"\\\p{Cc}]+|"(?: |[^\s<>"\\\p{Cc}]|\\[ "\\])*")@[^\s<>"\\\p{Cc}@]+$/u;
const ADDRESS_CHARS_MAX = 320;

function isSafeAddress(address: string): boolean {
  return address.length <= ADDRESS_CHARS_MAX && SAFE.test(address) && address.isWellFormed();
}

function isSafeAsciiAddress(address: string): boolean {
  return isSafeAddress(address) && /^[\x20-\x7e]*$/.test(address);
}
