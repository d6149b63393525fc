/**
 * What a reply makes of a mail: the value that travels unchanged from the judgement, made in classify.ts and
 * nowhere else, to status, event, counters and log.
 */
import type { Reply } from "../smtp/reply.ts";
import type { Reason } from "./replies.ts";
import type { BounceCategory, Confidence } from "./verdict.ts";

export type Outcome =
  | { readonly kind: "delivered"; readonly reply: Reply }
  /** It was tried and will be tried again. */
  | { readonly kind: "deferred"; readonly reply: Reply; readonly why: DeferralReason }
  | {
      readonly kind: "bounced";
      readonly reply: Reply;
      readonly why: BounceReason;
      readonly category: BounceCategory;
      readonly reason: Reason;
      readonly confidence: Confidence;
    }
  /** Nothing of this mail was tried: it is no attempt and costs no capacity. */
  | { readonly kind: "unsent"; readonly reply: Reply; readonly why: UnsentReason };

export type DeferralReason =
  | "temporary"
  /** The receiver could not be found or reached. */
  | "unreachable"
  /** The receiver is closing the connection (421). */
  | "closing"
  /** The connection broke before the message was complete. */
  | "network"
  /**
   * The message was complete and no answer came: it may have been delivered, and trying again may repeat it.
   */
  | "lost answer"
  /** Refused for good, but because of us and not of this mail: an operator has to look. */
  | "our standing";

export type UnsentReason =
  /** No connection could be had. */
  | "unreachable"
  /** The receiver does not let us in: banner, EHLO, TLS, credentials. An operator has to look. */
  | "turned away"
  /** Its domain's key cannot be used. An operator has to look. */
  | "unsigned"
  | "busy"
  | "stopped";

export type BounceReason =
  | "refused"
  /** DNS says that nobody takes mail there. */
  | "nobody there"
  /** The receiver cannot take a mail like this one. */
  | "unsendable"
  | "expired";
