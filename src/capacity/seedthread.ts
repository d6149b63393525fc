/** A thread of the simulator: tells each run as it ends. */
import { parentPort, workerData } from "node:worker_threads";
import { type SeedRange, simulateHere } from "./seeds.ts";

simulateHere(workerData as SeedRange, (run) => parentPort?.postMessage(run));
