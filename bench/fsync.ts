/**
 * What the disk below Postgres takes to make 8 KB durable: every commit waits for that, and nothing of ours
 * can shorten it.
 */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { quantile } from "./load.ts";

const BYTES = 8_192;
const PAGES = 300;

/** The median, in ms; `folder` is on the filesystem in question. */
export function fdatasyncMs(folder: string): number {
  const own = mkdtempSync(join(folder, "fsync-"));
  const file = openSync(join(own, "pages"), "w");
  const page = Buffer.alloc(BYTES, 1);
  const write = (n: number): number => {
    const began = performance.now();
    writeSync(file, page, 0, BYTES, n * BYTES);
    fdatasyncSync(file);
    return performance.now() - began;
  };
  const pages = Array.from({ length: PAGES }, (_, n) => n);
  try {
    pages.forEach(write); // Postgres' log is written over too: a file that grows costs more
    return quantile(
      pages.map(write).sort((a, b) => a - b),
      0.5,
    );
  } finally {
    closeSync(file);
    rmSync(own, { recursive: true });
  }
}
