/**
 * Reads messages: small ones at once, large ones on a thread, one at a time and workspaces in turn, so that
 * nobody's attachments hold up others. How many wait is bounded by the memory that messages may have.
 */
import { FairThread } from "../fairthread.ts";
import type { MessageBytes } from "../smtp/messagebytes.ts";
import { turnIfLate } from "../turn.ts";
import { readMail, type SubmittedMail } from "./mail.ts";
import { Malformed } from "./malformed.ts";

/** The worst of so many bytes takes about 10 ms. */
const AT_ONCE_BYTES_MAX = 64 * 1024;
const WAIT_MS_MAX = 30_000;
const READ_MS_MAX = 30_000;
const THREAD = new URL("../../dist/submission/mail-worker.js", import.meta.url);

export type ReadingWork = { blocks: Uint8Array[]; envelope: readonly string[] };
export type ReadingDone = { kind: "mail"; mail: SubmittedMail } | { kind: "malformed"; reason: string };

export class MailReader {
  readonly #thread = new FairThread<ReadingWork, ReadingDone>(THREAD);

  /** Rejects with `Malformed`. The bytes of a large message are gone afterwards. */
  async read(
    workspaceId: string,
    message: MessageBytes,
    envelope: readonly string[],
  ): Promise<SubmittedMail> {
    if (message.length <= AT_ONCE_BYTES_MAX) {
      const late = turnIfLate();
      if (late) await late;
      return readMail(message.whole(), envelope);
    }
    const blocks = message.blocks();
    const done = await this.#thread.run({
      workspaceId,
      work: { blocks, envelope },
      memory: blocks.map(({ buffer }) => buffer as ArrayBuffer),
      waitMsMax: WAIT_MS_MAX,
      runMsMax: READ_MS_MAX,
      late: () => new Error("a large message was not read in time"),
    });
    if (done.kind === "malformed") throw new Malformed(done.reason);
    for (const file of done.mail.files) {
      const { buffer, byteOffset, length } = file.bytes;
      file.bytes = Buffer.from(buffer, byteOffset, length);
    }
    return done.mail;
  }

  async close(): Promise<void> {
    await this.#thread.close();
  }
}
