/** The thread that parses large request bodies. */
import { parentPort } from "node:worker_threads";
import { makeSlabs } from "./bodymemory.ts";
import { doWork, type Memory, type Work } from "./jsonwork.ts";

parentPort?.postMessage({ kind: "memory", slabs: makeSlabs() } satisfies Memory);

parentPort?.on("message", (work: Work) => {
  const done = doWork(work);
  const items = done.kind === "json" ? done.items.map(({ buffer }) => buffer as ArrayBuffer) : [];
  // handed over, not copied
  parentPort?.postMessage(done, [...new Set(items)]);
});
