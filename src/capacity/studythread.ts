/** One study, on a thread of its own: it computes for seconds. */
import { parentPort, workerData } from "node:worker_threads";
import { lowerThread, YIELDING } from "../priority.ts";
import { readableStudy } from "./report/plain.ts";
import { type Setup, study } from "./study.ts";

lowerThread(YIELDING);
study(workerData as Setup, null, null, () => {}).then((found) =>
  parentPort?.postMessage(readableStudy(found)),
);
