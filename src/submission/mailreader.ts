/**
 * Reads messages: small ones at once, large ones on a thread, one at a time, so that nobody's attachments
 * hold up others. How many wait is bounded by the memory that messages may have.
 */
import { Worker } from "node:worker_threads";
import { whenLate } from "../clock.ts";
import type { MessageBytes } from "../smtp/messagebytes.ts";
import { turnIfLate } from "../turn.ts";
import { readMail, type SubmittedMail } from "./mail.ts";
import { Malformed } from "./malformed.ts";

/** The worst of so many bytes takes about 10 ms. */
const AT_ONCE_BYTES_MAX = 64 * 1024;
const READ_MS_MAX = 30_000;
const HEAP_MB_MAX = 512;
/** The compiled file, even when this one runs from the sources: a thread has no TypeScript loader. */
const WORKER = new URL("../../dist/submission/mail-worker.js", import.meta.url);

export type ReadingWork = { blocks: Uint8Array[]; envelope: readonly string[] };
export type ReadingDone = { kind: "mail"; mail: SubmittedMail } | { kind: "malformed"; reason: string };

type ReadingJob = { work: ReadingWork; resolve(mail: SubmittedMail): void; reject(error: unknown): void };

export class MailReader {
  readonly #waiting: ReadingJob[] = [];
  #running: { job: ReadingJob; inTime(): void } | null = null;
  #worker: Worker | null = null;

  /** Rejects with `Malformed`. The bytes of a large message are gone afterwards. */
  async read(message: MessageBytes, envelope: readonly string[]): Promise<SubmittedMail> {
    if (message.length <= AT_ONCE_BYTES_MAX) {
      const late = turnIfLate();
      if (late) await late;
      return readMail(message.whole(), envelope);
    }
    const mail = await new Promise<SubmittedMail>((resolve, reject) => {
      this.#waiting.push({ work: { blocks: message.blocks(), envelope }, resolve, reject });
      this.#next();
    });
    for (const file of mail.files) {
      const { buffer, byteOffset, length } = file.bytes;
      file.bytes = Buffer.from(buffer, byteOffset, length);
    }
    return mail;
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #next(): void {
    if (this.#running) return;
    const job = this.#waiting.shift();
    if (!job) return;
    const inTime = whenLate(READ_MS_MAX, () => this.#replaceThread());
    this.#running = { job, inTime };
    // handed over, not copied
    const memory = job.work.blocks.map(({ buffer }) => buffer as ArrayBuffer);
    this.#ready().postMessage(job.work, memory);
  }

  #ready(): Worker {
    if (this.#worker) return this.#worker;
    const worker = new Worker(WORKER, {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB_MAX },
    });
    worker.unref();
    worker.on("message", (done: ReadingDone) =>
      this.#ended((job) => {
        if (done.kind === "mail") job.resolve(done.mail);
        else job.reject(new Malformed(done.reason));
      }),
    );
    worker.on("error", (error) => {
      if (this.#worker === worker) this.#worker = null;
      this.#ended((job) => job.reject(error));
    });
    this.#worker = worker;
    return worker;
  }

  #ended(tell: (job: ReadingJob) => void): void {
    const running = this.#running;
    this.#running = null;
    running?.inTime();
    if (running) tell(running.job);
    this.#next();
  }

  #replaceThread(): void {
    this.#worker?.removeAllListeners().terminate();
    this.#worker = null;
    this.#ended((job) => job.reject(new Error("a message was not read in time")));
  }
}
