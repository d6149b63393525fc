/** The thread that parses large request bodies. */
import { parentPort } from "node:worker_threads";
import { HELPING, lowerThread } from "../priority.ts";
import { makeSlabs } from "./bodymemory.ts";
import { doWork, type ParseMemory, type ParseWork } from "./jsonwork.ts";

lowerThread(HELPING);
parentPort?.postMessage({ kind: "memory", slabs: makeSlabs() } satisfies ParseMemory);

parentPort?.on("message", (work: ParseWork) => {
  const done = doWork(work);
  const items = done.kind === "json" ? done.items.map(({ item }) => item.buffer as ArrayBuffer) : [];
  // handed over, not copied
  parentPort?.postMessage(done, [...new Set(items)]);
});
