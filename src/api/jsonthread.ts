/**
 * Parses large bodies on a separate thread, one at a time, workspaces in turn. A body whose client has gone
 * is dropped; one that waits or takes too long is refused.
 */
import { createHash } from "node:crypto";
import { deserialize } from "node:v8";
import { Unavailable } from "../admission/unavailable.ts";
import { FairThread } from "../fairthread.ts";
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
const PARSE_MS_MAX = 10_000;
const THREAD = new URL("../../dist/api/json-worker.js", import.meta.url);

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

export class JsonParser {
  readonly #thread = new FairThread<ParseWork, Done, ParseMemory>(THREAD, isDone);

  constructor() {
    this.#thread.start();
  }

  parse(body: Body): ParsedBody | Promise<ParsedBody> {
    if (body.size > MAIN_THREAD_BYTES_MAX) return this.#parseLarge(body).then(takeOver);
    const late = turnIfLate();
    if (!late) return parseHere(body);
    // the pieces go when the client does, who may have sent all of it
    const chunks = [...body.chunks];
    return late.then(() => parseHere({ ...body, chunks }));
  }

  async close(): Promise<void> {
    await this.#thread.close();
  }

  #parseLarge({ chunks, workspaceId, reading, digestPrefix, onGone }: Body): Promise<Done> {
    return this.#thread.run({
      workspaceId,
      work: { chunks, reading, digestPrefix },
      waitMsMax: WAIT_MS_MAX,
      runMsMax: PARSE_MS_MAX,
      late: () => new Unavailable("capacity", "a large body was not parsed in time"),
      onGone: (drop) => onGone(() => drop(new Unavailable("capacity", "the client has gone"))),
    });
  }
}

function isDone(said: Done | ParseMemory): said is Done {
  if (said.kind === "memory") giveSlabs(said.slabs);
  return said.kind !== "memory";
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
