/**
 * Loaded before a process of a test: how long its event loop was held, and what of that its main thread
 * worked. On a machine that others share, a process also stands still while they run: a test of what the
 * engine *does* asks for the work, not for the time.
 *
 * Plain JavaScript: what reads TypeScript would read all of the engine too, and take 150 MB for it.
 */
import { openSync, readSync } from "node:fs";

const TICK_MS = 1;
const NS_PER_MS = 1e6;

/** Nanoseconds that the main thread has run, as Linux counts them; null elsewhere. */
function openWork() {
  try {
    const file = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
    const bytes = Buffer.alloc(64);
    return () => Number.parseInt(bytes.toString("latin1", 0, readSync(file, bytes, 0, bytes.length, 0)), 10);
  } catch {
    return null;
  }
}

const readWork = openWork() ?? (() => performance.now() * NS_PER_MS);
let turnedAt = performance.now();
let workedNs = readWork();
let report = fresh();

function fresh() {
  return { heldMsMax: 0, workedMsInLongest: 0, workedMsMax: 0, rssMbMax: 0 };
}

function turn() {
  const now = performance.now();
  const worked = readWork();
  const heldMs = now - turnedAt;
  const workedMs = (worked - workedNs) / NS_PER_MS;
  turnedAt = now;
  workedNs = worked;
  if (heldMs > report.heldMsMax) {
    report.heldMsMax = heldMs;
    report.workedMsInLongest = workedMs;
  }
  report.workedMsMax = Math.max(report.workedMsMax, workedMs);
}

setInterval(turn, TICK_MS).unref();

process.on("message", (message) => {
  if (message.kind !== "loop?") return;
  turn();
  process.send?.({
    kind: "loop",
    report: { ...report, rssMbMax: process.resourceUsage().maxRSS / 1024 },
  });
  report = fresh();
});
