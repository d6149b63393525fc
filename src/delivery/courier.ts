/** Who takes a composed message out of the house: a relay (one smarthost), or direct to the receivers. */
import type { Envelope, Permit } from "../smtp/envelope.ts";
import type { PoolFigures } from "../smtp/pool.ts";
import type { Reply } from "../smtp/reply.ts";

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
  readonly figures: PoolFigures;
}
