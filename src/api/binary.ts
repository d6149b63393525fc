/**
 * Checks that uWebSockets.js has a binary for this Node on this machine, and that it is the recorded one. The
 * binary is not signed. The lock file protects the packages; this check protects the file that is loaded,
 * which may have changed since.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/** SHA-256 of `uws.node`, by the package that brings it. docs/operating.md: "What is trusted". */
export const RECORDED_BINARIES: Readonly<Record<string, string>> = {
  "@uwsjs/linux-x64-20": "4d482084b665c225892917ee0e9b9572d89eaa6f3dc200ff5e536293d3456c89",
  "@uwsjs/linux-x64-22": "f687e7c3666b5cca9d355184bbf07bb0550f5ba0d3ffd453248ccfec552dde6c",
};

export class WrongBinary extends Error {}

/** Must be called before the binary is loaded: loading runs its code. */
export function checkServerBinary(): "recorded" | "not recorded" {
  const name = packageOfBinary();
  return checkBinary(pathOfBinary(name), RECORDED_BINARIES[name] ?? null);
}

export function checkBinary(path: string, recorded: string | null): "recorded" | "not recorded" {
  if (recorded === null) return "not recorded";
  const found = createHash("sha256").update(readFileSync(path)).digest("hex");
  if (found === recorded) return "recorded";
  throw new WrongBinary(
    `The binary of uWebSockets.js is not the recorded one: ${path} has the SHA-256 ${found}, recorded is ${recorded}. Run \`npm ci\` again; if that does not help, do not run it.`,
  );
}

export function packageOfBinary(): string {
  return `@uwsjs/${process.platform}-${process.arch}-${process.versions.node.split(".")[0]}`;
}

export function pathOfBinary(name: string): string {
  const library = createRequire(import.meta.url).resolve("uWebSockets.js");
  return join(dirname(createRequire(library).resolve(name)), "uws.node");
}

export async function hasServerBinary(): Promise<boolean> {
  return import("uWebSockets.js").then(
    () => true,
    () => false,
  );
}
