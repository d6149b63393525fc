/**
 * Parses large bodies on a separate thread, one at a time, workspaces in turn. A body whose client has gone
 * is dropped; one that waits or takes too long is refused.
 */
import { createHash } from "node:crypto";
import { deserialize } from "node:v8";
import { Worker } from "node:worker_threads";
import { Unavailable } from "../admission/unavailable.ts";
import { whenLate } from "../clock.ts";
import { turnIfLate } from "../turn.ts";
import { noteDecoded } from "./attachment.ts";
import { giveSlabs } from "./bodymemory.ts";
import { type BadItems, type Json, MAIN_THREAD_BYTES_MAX, type NotJson, parseJson } from "./json.ts";
import {
  type Done,
  itemsSparedMax,
  type ParseMemory,
  type ParseWork,
  type ReadItem,
  type Reading,
} from "./jsonwork.ts";

const WAIT_MS_MAX = 10_000;
const HEAP_MB_MAX = 512;
/** The compiled file, even when this one runs from the sources: a thread has no TypeScript loader. */
const WORKER = new URL("../../dist/api/json-worker.js", import.meta.url);

export type Body = {
  chunks: Buffer[];
  size: number;
  workspaceId: string;
  reading: Reading;
  /** What the digest covers before the bytes. */
  digestPrefix: string;
  /** Calls back once when the client has gone. */
  onGone(dropped: () => void): void;
};

export type ParsedBody = { kind: "json"; value: Json; badItems: BadItems; digest(): string } | NotJson;

type Job = { work: ParseWork; resolve(done: Done): void; reject(error: unknown): void };

export class JsonParser {
  readonly #waiting = new Map<string, Job[]>();
  #running: Job | null = null;
  #worker: Worker | null = null;

  constructor() {
    // beforehand, since starting a thread holds up this one for 30 ms
    this.#ready();
  }

  parse(body: Body): ParsedBody | Promise<ParsedBody> {
    if (body.size > MAIN_THREAD_BYTES_MAX) return this.#queue(body).then(takeOver);
    const late = turnIfLate();
    if (!late) return parseHere(body);
    // the pieces go when the client does, who may have sent all of it
    const chunks = [...body.chunks];
    return late.then(() => parseHere({ ...body, chunks }));
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  async #queue({ chunks, workspaceId, reading, digestPrefix, onGone }: Body): Promise<Done> {
    let job: Job | undefined;
    const done = new Promise<Done>((resolve, reject) => {
      job = { work: { chunks, reading, digestPrefix }, resolve, reject };
    });
    const giveUp = (why: string) => this.#giveUp(workspaceId, job as Job, new Unavailable("capacity", why));
    const inTime = whenLate(WAIT_MS_MAX, () => {
      giveUp("a large body was not parsed in time");
      if (this.#running === job) this.#replaceThread();
    });
    // the parse is not interrupted: a new thread for each client that leaves would cost more
    onGone(() => giveUp("the client has gone"));
    const line = this.#waiting.get(workspaceId);
    if (line) line.push(job as Job);
    else this.#waiting.set(workspaceId, [job as Job]);
    this.#next();
    try {
      return await done;
    } finally {
      inTime();
    }
  }

  #next(): void {
    const [first] = this.#waiting;
    if (this.#running || !first) return;
    const [workspaceId, line] = first;
    const job = line.shift() as Job;
    // to the end of the round
    this.#waiting.delete(workspaceId);
    if (line.length > 0) this.#waiting.set(workspaceId, line);
    this.#running = job;
    this.#ready().postMessage(job.work);
  }

  #ready(): Worker {
    if (this.#worker) return this.#worker;
    const worker = new Worker(WORKER, {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB_MAX },
    });
    worker.unref();
    worker.on("message", (said: Done | ParseMemory) => {
      if (said.kind === "memory") giveSlabs(said.slabs);
      else this.#ended((job) => job.resolve(said));
    });
    worker.on("error", (error) => {
      if (this.#worker === worker) this.#worker = null;
      this.#ended((job) => job.reject(error));
    });
    this.#worker = worker;
    return worker;
  }

  #ended(tell: (job: Job) => void): void {
    const job = this.#running;
    this.#running = null;
    if (job) tell(job);
    this.#next();
  }

  #replaceThread(): void {
    this.#worker?.removeAllListeners().terminate();
    this.#worker = null;
    this.#ended(() => {});
  }

  #giveUp(workspaceId: string, job: Job, error: Unavailable): void {
    job.reject(error);
    const left = this.#waiting.get(workspaceId)?.filter((one) => one !== job) ?? [];
    if (left.length > 0) this.#waiting.set(workspaceId, left);
    else this.#waiting.delete(workspaceId);
  }
}

function parseHere({ chunks, reading, digestPrefix }: Body): ParsedBody {
  const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
  const parsed = parseJson(bytes, itemsSparedMax(reading));
  if (parsed.kind !== "json") return parsed;
  const { value, badItems } = parsed;
  const digest = () => createHash("sha256").update(digestPrefix).update(bytes).digest("hex");
  return { kind: "json", value, badItems, digest };
}

async function takeOver(done: Done): Promise<ParsedBody> {
  if (done.kind !== "json") return done;
  const { length, items, badItems, digest } = done;
  const values: Json[] = [];
  for (const { item, bytes } of items) {
    const late = turnIfLate();
    if (late) await late;
    const read: ReadItem = deserialize(item);
    noteContents(read, bytes);
    values.push(read.value);
  }
  if (length === null) return { kind: "json", value: values[0] as Json, badItems, digest: () => digest };
  values.length = length;
  return { kind: "json", value: values, badItems, digest: () => digest };
}

function noteContents({ value, contents }: ReadItem, bytes: SharedArrayBuffer): void {
  if (contents.length === 0) return;
  const { attachments } = value as unknown as { attachments: object[] };
  for (const { attachment, ...content } of contents) {
    const decoded =
      content.kind === "content"
        ? { ...content, bytes: Buffer.from(bytes, content.from, content.to - content.from) }
        : content;
    noteDecoded(attachments[attachment] as object, decoded);
  }
}
