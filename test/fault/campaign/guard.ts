/**
 * Outlives the campaign, however that ends: when the channel to it closes, every process that still works in
 * its folder is killed, those that stand still too, and the folder is removed.
 */
import { readdirSync, readlinkSync, rmSync } from "node:fs";
import { sep } from "node:path";
import { gone } from "../../rig/gone.ts";

const GONE_MS_MAX = 10_000;
const folder = process.argv[2] as string;

process.on("SIGINT", () => {}); // Ctrl-C is the campaign's
process.on("SIGTERM", () => {});
process.once("disconnect", end);

async function end(): Promise<void> {
  const left = processesIn(folder);
  for (const pid of left) tryToKill(pid);
  await gone(left, GONE_MS_MAX).catch(() => {});
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

function processesIn(folder: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      try {
        const place = readlinkSync(`/proc/${pid}/cwd`);
        return place === folder || place.startsWith(folder + sep);
      } catch {
        return false; // it has gone, or is somebody else's
      }
    });
}

function tryToKill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // it has gone
  }
}
