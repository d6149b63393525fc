/** The thread that parses large request bodies. */
import { parentPort } from "node:worker_threads";
import { parseJson } from "./json.ts";

parentPort?.on("message", (bytes: Uint8Array) => {
  parentPort?.postMessage(parseJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)));
});
