/**
 * What a connection to the listener for reports is for: messages for return paths and feedback addresses, and
 * nothing else. A 250 is said after the commit. Of a message its beginning is kept in memory, where a report
 * stands. Nothing is ever sent from here, there is no AUTH and no relaying.
 */
import { MessageBytes } from "../smtp/messagebytes.ts";
import { fault, type MessageSink, ok, type SmtpAnswer, type SmtpService } from "../smtp/session.ts";

/** What a recipient's address is to us. `reply` refuses it. */
export type ReportTarget<T> = { kind: "taken"; to: T } | { kind: "refused"; reply: string };

export type ReportServiceParts<T> = {
  remote: string;
  /** Of a message that is kept. */
  keptBytesMax: number;
  addressee(address: string, remote: string): ReportTarget<T>;
  /** Resolves when it is committed. */
  keep(to: readonly T[], message: Buffer): Promise<void>;
  /** Why nothing is taken for now; null in good times. */
  busy(): string | null;
  onFault(error: unknown): void;
};

export class ReportService<T> implements SmtpService {
  readonly #parts: ReportServiceParts<T>;
  #recipients: T[] = [];

  constructor(parts: ReportServiceParts<T>) {
    this.#parts = parts;
  }

  extensions(): readonly string[] {
    return [];
  }

  mail(): SmtpAnswer | null {
    const busy = this.#parts.busy();
    return busy === null ? null : ok(`452 4.3.1 ${busy}`);
  }

  rcpt(address: string): SmtpAnswer | null {
    const found = this.#parts.addressee(address, this.#parts.remote);
    if (found.kind === "refused") return fault(found.reply);
    this.#recipients.push(found.to);
    return null;
  }

  data(): MessageSink {
    const to = this.#recipients;
    const { keptBytesMax } = this.#parts;
    const kept = new MessageBytes();
    return {
      take(piece) {
        if (kept.length < keptBytesMax) kept.add(piece.subarray(0, keptBytesMax - kept.length));
      },
      complete: () => this.#keep(to, kept.whole()),
      abandon() {},
    };
  }

  command(): null {
    return null;
  }

  reset(): void {
    this.#recipients = [];
  }

  async #keep(to: readonly T[], message: Buffer): Promise<SmtpAnswer> {
    try {
      await this.#parts.keep(to, message);
      return ok("250 2.0.0 kept");
    } catch (error) {
      this.#parts.onFault(error);
      return ok("451 4.3.0 the report could not be stored, try again later");
    }
  }
}
