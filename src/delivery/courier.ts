/**
 * A courier delivers composed messages: `relay` to one smarthost, `direct` to the MX hosts of each receiver.
 */
import type { MailSender } from "../shaping/shaping.ts";
import type { Envelope, Permit } from "../smtp/envelope.ts";
import type { PoolFigures } from "../smtp/pool.ts";
import type { Reply } from "../smtp/reply.ts";

export interface Courier {
  /** The other side: one smarthost for all mail, or each receiver for its own. */
  readonly carriesTo: "smarthost" | "receivers";
  /**
   * One reply per recipient, in their order. Never rejects and never hangs: every wait has a limit. When too
   * many mails are given at once, the rest are answered as busy at once.
   */
  send(envelope: Envelope, message: Buffer, permit: Permit, sender: MailSender): Promise<Reply[]>;
  /** More e-mails than this in the hands of a worker would only wait in its memory. */
  readonly inHandMax: number;
  /** The group of the domain's receivers among the metrics. */
  groupOf(domain: string): string;
  /** As the shaping file names it; null: none, or none is known. */
  providerOf(domain: string): string | null;
  /** Whether anything may hold mail back. */
  readonly isShaped: boolean;
  /**
   * Before a mail is composed: one reply per recipient when none of them gets mail for now; null: it may be
   * sent.
   */
  holdsBack(to: readonly string[], sender: MailSender): Reply[] | null;
  /**
   * Finishes the mails being sent until the deadline, and until `answersMs` those that the receiver has all
   * of and has not answered. Mails that wait are returned unsent.
   */
  close(deadlineMs: number, answersMs?: number): Promise<void>;
  readonly figures: PoolFigures;
}
