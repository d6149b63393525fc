/**
 * The life of a process with some roles, from its settings to its end: prints in one line why it cannot
 * start, logs JSON, stops in order on a signal or when its parent is gone, and never hangs while stopping.
 */
import { Session } from "node:inspector/promises";
import { setPriority } from "node:os";
import pino, { type Logger } from "pino";
import { withoutAddresses } from "../address.ts";
import { checkServerBinary, packageOfBinary, WrongBinary } from "../api/binary.ts";
import { codeOf, messageOf } from "../caught.ts";
import { allowLargeHeaders, CONFIG_EXIT, ConfigError, loadConfig } from "../config.ts";
import { onParentGone, report } from "../embedded/parent.ts";
import { isPortTaken } from "../embedded/port.ts";
import { YIELDING } from "../priority.ts";
import type { Role } from "../rules/roles.ts";
import type { Serving } from "./serve.ts";
import { survive } from "./survive.ts";
import { StoreUnreachable, UNREACHABLE_EXIT } from "./unreachable.ts";

/** Roles whose work may wait while the machine is busy: events are told later, and mail is sent now. */
const YIELDING_ROLES: readonly Role[] = ["webhooks"];

/** All of them end a process that is one of its own. */
const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
/** Each role bounds its own end, in five seconds unless a delivery is still to be written. */
const STOP_MS_MAX = 30_000;
const PARENT_GONE_MS_MAX = 3_500;

/** Serves until it is told to stop; hands back the exit status when it could not start. */
export async function runRoles(roles: readonly Role[]): Promise<number | null> {
  try {
    const config = loadConfig();
    const log = pino(
      { level: config.logLevel, base: { roles: roles.join(",") }, serializers: { err: errorOf } },
      pino.destination({ sync: false, minLength: 0 }),
    );
    const unheed = endWhenTold(log);
    log.info({ node: process.versions.node, pid: process.pid }, "starting");
    allowLargeHeaders();
    if (checkServerBinary() === "not recorded")
      log.warn(
        { package: packageOfBinary() },
        "the hash of the native binary is not recorded for this platform",
      );
    const { loadRoles, serve } = await import("./serve.ts");
    await loadRoles(roles);
    await giveBackMemory();
    survive(log);
    const onProgress = (line: string) => report({ kind: "progress", line });
    const onWork = () => {
      unheed();
      untilStopped({ stop: async () => (await serving).stop() }, log, onParentGone, SIGNALS);
    };
    const serving = serve(config, roles, log, null, { onProgress, onWork });
    const { stop: _, ...ports } = await serving;
    if (roles.every((role) => YIELDING_ROLES.includes(role))) yieldToOthers(log);
    log.info(ports, "serving");
    report({ kind: "ready", ...ports });
    return null;
  } catch (error) {
    const reason = reasonOf(error);
    const status = statusOf(error);
    report({ kind: "failed", reason, status, isPortTaken: isPortTaken(error) });
    process.stderr.write(`${reason}\n`);
    return status;
  }
}

/**
 * Loading makes the young generation as large as it may become, and V8 keeps that while there is some work:
 * 30 to 60 MB of each process. Nothing is served yet, so that nobody waits for the 0.2 s.
 */
async function giveBackMemory(): Promise<void> {
  const session = new Session();
  session.connect();
  await session.post("HeapProfiler.collectGarbage");
  session.disconnect();
}

function yieldToOthers(log: Logger): void {
  try {
    setPriority(YIELDING);
  } catch (error) {
    log.warn({ err: error }, "the priority of this process could not be lowered");
  }
}

/**
 * Until its roles begin nothing is under way. Unheeded, the first process of a container would not hear these
 * signals. Hands back how to heed them no longer.
 */
function endWhenTold(log: Logger): () => void {
  const end = (why: NodeJS.Signals) => {
    log.info({ why }, "stopped while it was starting");
    process.exit(0);
  };
  for (const signal of SIGNALS) process.on(signal, end);
  return () => {
    for (const signal of SIGNALS) process.off(signal, end);
  };
}

export function untilStopped(
  serving: Pick<Serving, "stop">,
  log: Logger,
  whenParentGone: typeof onParentGone,
  signals: readonly NodeJS.Signals[],
): void {
  let isStopping = false;
  const stop = (why: string, ms: number): void => {
    if (isStopping) return;
    isStopping = true;
    log.info({ why }, "stopping");
    const began = performance.now();
    setTimeout(() => process.exit(1), ms).unref();
    serving.stop().then(
      () => {
        const ms = Math.round(performance.now() - began);
        log.info({ ms }, "stopped: what was under way is finished or given back");
        process.exit(0);
      },
      (error: unknown) => {
        log.error({ err: error }, "stopping failed");
        process.exit(1);
      },
    );
  };
  for (const signal of signals) process.on(signal, () => stop(signal, STOP_MS_MAX));
  whenParentGone(() => stop("the parent process is gone", PARENT_GONE_MS_MAX));
}

/**
 * What is logged of an error: never the values in it, which may be the contents of a mail, and no address.
 */
function errorOf(error: unknown): object {
  if (!(error instanceof Error)) return { message: withoutAddresses(String(error)) };
  const { name } = error;
  const [message, stack = ""] = [error.message, error.stack].map((text = "") => withoutAddresses(text));
  const code = codeOf(error);
  const cause = error.cause === undefined ? undefined : errorOf(error.cause);
  return { type: name, message, ...(code !== undefined && { code }), stack, ...(cause && { cause }) };
}

export function statusOf(error: unknown): number {
  if (error instanceof StoreUnreachable) return UNREACHABLE_EXIT;
  return error instanceof ConfigError ? CONFIG_EXIT : 1;
}

export function reasonOf(error: unknown): string {
  const message = messageOf(error);
  if (error instanceof WrongBinary) return message;
  if (/uWebSockets|@uwsjs/.test(message))
    return `uWebSockets.js has no binary for Node ${process.versions.node} on ${process.platform}-${process.arch}: use Node 20 or 22 (after a change of Node, run npm ci again).`;
  return message;
}
