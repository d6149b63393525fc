/**
 * One study, on a thread of its own: it computes for seconds. It tells how far it is, and at its end what it
 * found.
 */
import { parentPort, workerData } from "node:worker_threads";
import { lowerThread, YIELDING } from "../priority.ts";
import { readableStudy } from "./report/plain.ts";
import { type Setup, study } from "./study.ts";

export type StudyNews = { share: number } | { found: object };

lowerThread(YIELDING);
const tell = (news: StudyNews) => parentPort?.postMessage(news);
let percent = 0;
study(workerData as Setup, null, null, (share) => {
  if (Math.floor(share * 100) === percent) return;
  percent = Math.floor(share * 100);
  tell({ share });
}).then((found) => tell({ found: readableStudy(found) }));
