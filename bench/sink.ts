/**
 * Where mail goes in a bench: `smtp-sink` of the Debian package postfix, which costs little, or a server of
 * our own on smtp-server, which also answers as slowly and as badly as the world does. Both count what they
 * took.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "../src/embedded/port.ts";
import type { Endings } from "./endings.ts";
import { isInstalled } from "./installed.ts";

export type SinkKind = "smtp-sink" | "node";

/** How a sink behaves to the mail of one provider. */
export type Provider = {
  domain: string;
  /** The parts of all mail it gets; the bench spreads recipients so. */
  share: number;
  /** An answer to the final dot takes this long, evenly spread. */
  replyMs: [least: number, most: number];
  /** Of its recipients, drawn from a fixed seed. */
  deferPercent: number;
  refusePercent: number;
};

export type Sink = {
  port: number;
  kind: "smtp-sink" | "smtp-server";
  pid: number;
  /** Messages taken so far. */
  count(): number;
  stop(): Promise<void>;
};

const TAIL_BYTES = 256;
const BACKLOG = 1_000;
export const STOP_MS_MAX = 10_000;

export async function startSink(
  wanted: SinkKind,
  folder: string,
  endings: Endings,
  providers: readonly Provider[] = [],
): Promise<Sink> {
  return wanted === "smtp-sink" && isInstalled("smtp-sink") && providers.length === 0
    ? startSmtpSink(folder, endings)
    : startOwnSink(endings, providers);
}

/**
 * It writes its counters over each other for a terminal; here they go to a file whose end is read when asked.
 */
async function startSmtpSink(folder: string, endings: Endings): Promise<Sink> {
  const port = await freePort();
  const asRoot = process.getuid?.() === 0 ? ["-u", "nobody"] : [];
  const counters = openSync(join(folder, `sink-${port}`), "w+");
  const child = spawn("smtp-sink", [...asRoot, "-c", `127.0.0.1:${port}`, String(BACKLOG)], {
    stdio: ["ignore", counters, "ignore"],
    detached: true, // Ctrl-C is ours to pass on
  });
  await once(child, "spawn");
  const stop = endings.add(async () => {
    await endChild(child);
    closeSync(counters);
  });
  const count = () => {
    const { size } = fstatSync(counters);
    const tail = Buffer.alloc(Math.min(size, TAIL_BYTES));
    readSync(counters, tail, 0, tail.length, size - tail.length);
    return Number([...tail.toString("latin1").matchAll(/mesg=(\d+)[ \r]/g)].at(-1)?.[1] ?? 0);
  };
  return { port, kind: "smtp-sink", pid: child.pid as number, count, stop };
}

async function startOwnSink(endings: Endings, providers: readonly Provider[]): Promise<Sink> {
  const child = spawn(process.execPath, [fileURLToPath(new URL("sink.mjs", import.meta.url))], {
    env: { PATH: process.env.PATH, PROVIDERS: JSON.stringify(providers) },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    detached: true,
  });
  const stop = endings.add(() => endChild(child));
  let taken = 0;
  const [{ port }] = (await once(child, "message")) as [{ port: number }];
  child.on("message", (message: { taken: number }) => {
    taken = message.taken;
  });
  return { port, kind: "smtp-server", pid: child.pid as number, count: () => taken, stop };
}

export async function endChild(child: ChildProcess, msMax = STOP_MS_MAX): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const timer = setTimeout(() => child.kill("SIGKILL"), msMax);
  child.kill("SIGTERM");
  await once(child, "exit");
  clearTimeout(timer);
}
