/**
 * Request bodies as JSON: UTF-8, at most 32 levels deep, no U+0000 and no lone surrogate in any string (neither can be
 * stored). Bodies over 1 MB are parsed in a worker thread, one at a time, so that they hold up nobody else.
 */
import { isUtf8 } from "node:buffer";
import { Worker } from "node:worker_threads";

export const JSON_DEPTH_MAX = 32;
const OFF_LOOP_BYTES = 1024 * 1024;
/** As it was built, also when this file runs from the sources: a thread has no loader for them. */
const WORKER = new URL("../../dist/api/json-worker.js", import.meta.url);

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Parsed =
  | { kind: "json"; value: Json }
  | { kind: "not json" }
  | { kind: "too deep" }
  | { kind: "bad text" };

export function parseJson(bytes: Buffer): Parsed {
  if (!isUtf8(bytes)) return { kind: "not json" };
  const text = bytes.toString("utf8");
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "not json" };
  }
  // a string can only hold what is looked for when it was written as an escape
  return inspect(value, text.includes("\\u")) ?? { kind: "json", value };
}

function inspect(value: Json, checkText: boolean, depth = 1): Parsed | null {
  if (typeof value === "string")
    return checkText && (value.includes("\0") || !value.isWellFormed()) ? { kind: "bad text" } : null;
  if (value === null || typeof value !== "object") return null;
  if (depth > JSON_DEPTH_MAX) return { kind: "too deep" };
  if (Array.isArray(value)) {
    for (const item of value) {
      const found = inspect(item, checkText, depth + 1);
      if (found) return found;
    }
    return null;
  }
  for (const name of Object.keys(value)) {
    const found = inspect(name, checkText) ?? inspect(value[name] as Json, checkText, depth + 1);
    if (found) return found;
  }
  return null;
}

/** Parses large bodies on a thread of its own, in the order they come. */
export class JsonParser {
  #worker: Worker | null = null;
  #last: Promise<unknown> = Promise.resolve();

  parse(bytes: Buffer): Parsed | Promise<Parsed> {
    if (bytes.byteLength <= OFF_LOOP_BYTES) return parseJson(bytes);
    const parsed = this.#last.then(() => this.#parseOffLoop(bytes));
    this.#last = parsed.catch(() => {});
    return parsed;
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #parseOffLoop(bytes: Buffer): Promise<Parsed> {
    this.#worker ??= new Worker(WORKER, { execArgv: [] });
    const worker = this.#worker;
    worker.unref();
    return new Promise((resolve, reject) => {
      const onMessage = (parsed: Parsed): void => {
        worker.off("error", onError);
        resolve(parsed);
      };
      const onError = (error: Error): void => {
        worker.off("message", onMessage);
        this.#worker = null;
        reject(error);
      };
      worker.once("message", onMessage);
      worker.once("error", onError);
      worker.postMessage(bytes);
    });
  }
}
