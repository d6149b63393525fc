/** Folders of our own on the disk of this machine, for their owner alone. */
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Makes a folder and those above it. Throws what the system says when it cannot. Node's own recursive mkdir
 * repeats itself for ever where the system answers ENOENT below a folder that exists, as /proc does.
 */
export function makeFolder(folder: string): void {
  const parent = dirname(folder);
  if (parent !== folder && !existsSync(parent)) makeFolder(parent);
  try {
    mkdirSync(folder, 0o700);
  } catch (error) {
    if (!isFolder(folder)) throw error;
  }
}

/** A file, or a folder with all that is in it. Links are not followed, and left alone. */
export function closeToOthers(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isFile()) chmodSync(path, 0o600);
  if (!found?.isDirectory()) return;
  chmodSync(path, 0o700);
  for (const name of readdirSync(path)) closeToOthers(join(path, name));
}

/** What is spawned or made meanwhile makes its files for their owner alone. */
export function withoutOthers<T>(act: () => T): T {
  const before = process.umask(0o077);
  try {
    return act();
  } finally {
    process.umask(before);
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
