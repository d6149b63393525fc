/** The SMTP envelope, and what must never be written into an SMTP command. */
import { type Reply, troubleOf } from "./reply.ts";

export type Envelope = {
  /** Empty: the null sender. */
  readonly from: string;
  readonly to: readonly string[];
  /**
   * An address is not ASCII, or a header field is written in UTF-8: only a receiver with SMTPUTF8 can take
   * it.
   */
  readonly utf8: boolean;
};

export type Permit = {
  /**
   * Called when the mail's turn comes, and again right before the message is sent; after a no it is not sent.
   */
  mayBegin(): boolean;
};

export function domainOf(address: string): string {
  return address.slice(address.lastIndexOf("@") + 1).toLowerCase();
}

const UNSAFE = troubleOf("session", "ADDRESS_UNSAFE", "an address cannot be written into an SMTP command");

/** Why the envelope must not be sent; null: it is safe. */
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
