/**
 * What the sink got: every mail it took, every reply it gave to a recipient, and every fault it saw in how
 * the peer speaks SMTP. Tests wait here on signals: a wait is over with the change that makes it true, or
 * fails saying how far things got.
 */
export type Mail = {
  /** Without the angle brackets; empty when the mail has none. */
  messageId: string;
  /** `message-id` and every `x-` header, by lower-case name. */
  headers: ReadonlyMap<string, string>;
  from: string;
  /** The recipients that were accepted in this transaction. */
  to: readonly string[];
  sizeBytes: number;
  /**
   * The bytes between 354 and the final dot as they crossed the wire, dots still doubled; null unless asked
   * for.
   */
  raw: Buffer | null;
  /** Which connection brought it, counted from 1. */
  connection: number;
  /** What the client called itself. */
  client: string;
  /** When MAIL began the transaction. */
  begunAt: number;
  /** When the final dot had arrived. */
  completeAt: number;
  /** When it was taken, and answered unless the connection was broken. */
  at: number;
  /** The answer to the final dot, null when the connection was broken instead. */
  reply: string | null;
};

/** How a connection ended: after QUIT, or all of a sudden. */
export type Ending = { at: number; isPolite: boolean };

export type Difference = { missing: string[]; unexpected: string[]; repeated: string[] };

type Wait = { holds: () => boolean; over: () => void };

export const PATIENCE_MS = 30_000;

export class Ledger {
  readonly mails: Mail[] = [];
  /** Each is one line for a reader; a test that ends with an empty list has met a well-spoken client. */
  readonly faults: string[] = [];
  readonly #copies = new Map<string, number>();
  readonly #replies = new Map<string, string[]>();
  readonly #named = new Map<string, number>();
  readonly #endings = new Map<number, Ending>();
  readonly #waits = new Set<Wait>();

  /** How many copies of this mail were taken. */
  count(messageId: string): number {
    return this.#copies.get(messageId) ?? 0;
  }

  /** The last word on this recipient in each transaction that named it, in order. */
  repliesTo(address: string): readonly string[] {
    return this.#replies.get(address.toLowerCase()) ?? [];
  }

  /** In how many transactions RCPT named this recipient. */
  timesNamed(address: string): number {
    return this.#named.get(address.toLowerCase()) ?? 0;
  }

  /** How a connection ended; null while it is open. */
  endingOf(connection: number): Ending | null {
    return this.#endings.get(connection) ?? null;
  }

  /** What was taken against what should have been, by Message-ID. */
  compare(expected: Iterable<string>): Difference {
    const wanted = new Set(expected);
    const taken = [...this.#copies.keys()];
    return {
      missing: [...wanted].filter((id) => !this.#copies.has(id)),
      unexpected: taken.filter((id) => !wanted.has(id)),
      repeated: taken.filter((id) => this.count(id) > 1),
    };
  }

  /** Resolves with all matching mails as soon as there are `count` of them. */
  async received(
    count: number,
    where: (mail: Mail) => boolean = () => true,
    patienceMs = PATIENCE_MS,
  ): Promise<Mail[]> {
    const found: Mail[] = [];
    let seen = 0;
    const holds = () => {
      for (; seen < this.mails.length; seen++) {
        const mail = this.mails[seen];
        if (mail && where(mail)) found.push(mail);
      }
      return found.length >= count;
    };
    await this.#wait(holds, patienceMs, () => `${found.length} of ${count} mails`);
    return found;
  }

  /** Resolves as soon as the recipient has had `count` replies. */
  async replied(address: string, count: number, patienceMs = PATIENCE_MS): Promise<readonly string[]> {
    const replies = () => this.repliesTo(address);
    await this.#wait(
      () => replies().length >= count,
      patienceMs,
      () => `${replies().length} of ${count} replies to ${address}`,
    );
    return replies();
  }

  take(mail: Mail): void {
    this.mails.push(mail);
    this.#copies.set(mail.messageId, this.count(mail.messageId) + 1);
    this.#changed();
  }

  noteReply(address: string, reply: string): void {
    const key = address.toLowerCase();
    const replies = this.#replies.get(key);
    if (replies) replies.push(reply);
    else this.#replies.set(key, [reply]);
    this.#changed();
  }

  noteNamed(address: string): void {
    this.#named.set(address.toLowerCase(), this.timesNamed(address) + 1);
  }

  noteEnding(connection: number, ending: Ending): void {
    this.#endings.set(connection, ending);
  }

  noteFault(connection: number, fault: string): void {
    this.faults.push(`connection ${connection}: ${fault}`);
  }

  #changed(): void {
    for (const wait of this.#waits) if (wait.holds()) wait.over();
  }

  #wait(holds: () => boolean, patienceMs: number, progress: () => string): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        clearTimeout(timer);
        this.#waits.delete(wait);
        settle();
      };
      const wait: Wait = { holds, over: () => end(resolve) };
      const timer = setTimeout(
        () => end(() => reject(new Error(`the sink got ${progress()} in ${patienceMs} ms`))),
        patienceMs,
      );
      this.#waits.add(wait);
    });
  }
}
