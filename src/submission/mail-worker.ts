/** The thread that reads large messages. Attachments are handed over in shared memory, not copied. */
import { parentPort } from "node:worker_threads";
import { HELPING, lowerThread } from "../priority.ts";
import { readMail } from "./mail.ts";
import type { ReadingDone, ReadingWork } from "./mailreader.ts";
import { Malformed } from "./malformed.ts";

lowerThread(HELPING);
parentPort?.on("message", ({ blocks, envelope }: ReadingWork) => {
  parentPort?.postMessage(read(Buffer.concat(blocks), envelope));
});

function read(message: Buffer, envelope: readonly string[]): ReadingDone {
  try {
    const mail = readMail(message, envelope);
    for (const file of mail.files) file.bytes = shared(file.bytes);
    return { kind: "mail", mail };
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    return { kind: "malformed", reason: error.message };
  }
}

function shared(bytes: Buffer): Buffer {
  const copy = Buffer.from(new SharedArrayBuffer(bytes.length));
  bytes.copy(copy);
  return copy;
}
