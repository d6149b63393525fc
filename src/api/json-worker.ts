/** The thread that parses large request bodies. */
import { parentPort } from "node:worker_threads";
import { doWork, type Work } from "./jsonwork.ts";

parentPort?.on("message", (work: Work) => {
  const done = doWork(work);
  // what is handed over is not copied
  const memory = done.kind === "json" ? [...done.items, ...contentsOf(done.decoded)] : [];
  const owned = memory.filter(({ byteLength, buffer }) => buffer.byteLength === byteLength);
  parentPort?.postMessage(
    done,
    owned.map(({ buffer }) => buffer as ArrayBuffer),
  );
});

function contentsOf(all: readonly { decoded: { kind: string; bytes?: Uint8Array } }[]): Uint8Array[] {
  return all.flatMap(({ decoded }) => decoded.bytes ?? []);
}
