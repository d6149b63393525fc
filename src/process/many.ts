/**
 * `serve --processes N`: so many processes with the same roles, and the api of all of them on one port. Each
 * is started again when it ends. SIGTERM ends all of them in order; SIGHUP replaces one after the other, and
 * callers notice nothing.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import pino, { type Logger } from "pino";
import { type Config, childEnv, loadConfig } from "../config.ts";
import { type ChildReport, onParentGone, report } from "../embedded/parent.ts";
import { freePort, isPortFree, isPortTaken } from "../embedded/port.ts";
import type { Role } from "../rules/roles.ts";
import { urlAt } from "../rules/urlat.ts";
import { type MetricsServer, startCollecting } from "./metrics.ts";
import { reasonOf, statusOf, untilStopped } from "./run.ts";
import { StartError } from "./stores.ts";

const AGAIN_MS_MIN = 200;
const AGAIN_MS_MAX = 10_000;
/** Who served for so long has not failed to start. */
const STEADY_MS = 30_000;

type Ready = Extract<ChildReport, { kind: "ready" }>;
type Member = {
  process: ChildProcess;
  metricsUrl: string | null;
  beganAt: number;
  /** How many in a row had its place, and ended soon. */
  shortLives: number;
};

/** Serves until it is told to stop; hands back the exit status when it could not start. */
export async function runProcesses(roles: readonly Role[], count: number): Promise<number | null> {
  let isTold = false;
  try {
    const config = loadConfig();
    const log = pino({ level: config.logLevel, base: { roles: roles.join(","), processes: count } });
    const group = new ProcessGroup(config, roles, count, log);
    const stop = () => {
      isTold = true;
      return group.stop();
    };
    untilStopped({ stop }, log, onParentGone, ["SIGTERM", "SIGINT"]);
    const starting = group.start();
    process.on("SIGHUP", () => void starting.then(() => group.replaceAll()).catch(() => {}));
    const served = await starting;
    log.info(served, "serving");
    report({ kind: "ready", ...served });
    return null;
  } catch (error) {
    if (isTold) return null; // ends when all of them have ended
    const [reason, status] = [
      reasonOf(error),
      error instanceof MemberFailed ? error.status : statusOf(error),
    ];
    report({ kind: "failed", reason, status, isPortTaken: isPortTaken(error) });
    process.stderr.write(`${reason}\n`);
    return status;
  }
}

class MemberFailed extends Error {
  readonly status: number;

  constructor(reason: string, status: number) {
    super(reason);
    this.status = status;
  }
}

class ProcessGroup {
  readonly #config: Config;
  readonly #roles: readonly Role[];
  readonly #log: Logger;
  /** By place: who serves there, or who did last. */
  readonly #members: (Member | null)[];
  /** All that have not ended, also those that are starting and those that are being replaced. */
  readonly #running = new Set<ChildProcess>();
  #env: Record<string, string> = {};
  #metrics: MetricsServer | null = null;
  #isStopping = false;
  #replacing: Promise<void> = Promise.resolve();

  constructor(config: Config, roles: readonly Role[], count: number, log: Logger) {
    this.#config = config;
    this.#roles = roles;
    this.#log = log;
    this.#members = new Array<Member | null>(count).fill(null);
  }

  async start(): Promise<Omit<Ready, "kind">> {
    const { host, port, metricsPort } = this.#config;
    const shared = this.#roles.includes("api") ? await this.#sharedPort() : port;
    const metrics = metricsPort === null ? {} : { METRICS_PORT: "0" };
    this.#env = childEnv({ PORT: String(shared), SHARED_PORT: "true", ...metrics });
    try {
      const all = await Promise.all(this.#members.map((_, place) => this.#begin(place)));
      if (metricsPort !== null) this.#metrics = await this.#collect(host, metricsPort);
      return { ...(all[0] as Ready), metricsPort: this.#metrics?.port ?? null };
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#running].map(ended));
    await this.#metrics?.stop();
  }

  /** Each is replaced before it ends. */
  replaceAll(): Promise<void> {
    this.#replacing = this.#replacing.then(async () => {
      for (let place = 0; place < this.#members.length && !this.#isStopping; place++) {
        const before = this.#members[place];
        try {
          await this.#begin(place);
          if (before) await ended(before.process);
        } catch (error) {
          if (this.#isStopping) return;
          this.#log.error({ err: error, place }, "a process could not be replaced; the former one goes on");
          // it may have ended while its place was taken
          if (before && hasEnded(before.process)) void this.#restart(place, before);
          return;
        }
      }
      this.#log.info("all processes are replaced");
    });
    return this.#replacing;
  }

  async #sharedPort(): Promise<number> {
    const { host, port, sharedPort } = this.#config;
    if (port === 0) return freePort(host);
    if (!sharedPort && !(await isPortFree(port, host)))
      throw new StartError(
        `Port ${port} on ${host} is in use. Stop the process that listens there, or set PORT.`,
      );
    return port;
  }

  #collect(host: string, port: number): Promise<MetricsServer> {
    const onFault = (error: unknown) => this.#log.error({ err: error }, "the metrics could not be served");
    const processes = () =>
      this.#members.flatMap((member, place) =>
        member?.metricsUrl
          ? [{ name: `${this.#roles.join("+")}-${place + 1}`, metricsUrl: member.metricsUrl }]
          : [],
      );
    return startCollecting({ host, port, token: this.#config.metricsToken, onFault }, processes);
  }

  /**
   * Resolves when it serves, and watches it from then on; rejects, and gives its place back, when it ends
   * before.
   */
  async #begin(place: number, shortLives = 0): Promise<Ready> {
    const before = this.#members[place] ?? null;
    const args = ["serve", "--role", this.#roles.join()];
    const child = fork(process.argv[1] as string, args, { env: this.#env });
    this.#running.add(child);
    child.once("exit", () => this.#running.delete(child));
    const member = { process: child, metricsUrl: null, beganAt: Number.POSITIVE_INFINITY, shortLives };
    this.#members[place] = member;
    try {
      return await this.#untilReady(place, member);
    } catch (error) {
      if (child.pid === undefined) this.#running.delete(child);
      if (this.#members[place] === member) this.#members[place] = before;
      throw error;
    }
  }

  async #untilReady(place: number, member: Member): Promise<Ready> {
    const { process: child } = member;
    const ready = await new Promise<Ready>((resolve, reject) => {
      let failure: MemberFailed | null = null;
      child.on("message", (told: ChildReport) => {
        if (told.kind === "ready") resolve(told);
        else if (told.kind === "failed") failure = new MemberFailed(told.reason, told.status);
      });
      // one that never began has no exit
      child.on("error", reject);
      child.once("exit", (status, signal) => {
        const why = `A process ended while it was starting (${signal ?? status}).`;
        reject(failure ?? new MemberFailed(why, status || 1));
      });
    });
    member.metricsUrl =
      ready.metricsPort === null ? null : `${urlAt(this.#config.host, ready.metricsPort)}/metrics`;
    member.beganAt = performance.now();
    child.once("exit", () => void this.#restart(place, member));
    return ready;
  }

  /** Until somebody else has its place. */
  async #restart(place: number, member: Member): Promise<void> {
    const { signalCode, exitCode } = member.process;
    const why = signalCode ?? `${exitCode}`;
    const shortLives = performance.now() - member.beganAt > STEADY_MS ? 0 : member.shortLives + 1;
    let waitMs = Math.min(AGAIN_MS_MIN * 2 ** shortLives, AGAIN_MS_MAX);
    while (!this.#isStopping && this.#members[place] === member) {
      this.#log.error({ place, why, in_ms: waitMs }, "a process ended and is started again");
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      if (this.#isStopping || this.#members[place] !== member) return;
      try {
        await this.#begin(place, shortLives);
        return;
      } catch (error) {
        waitMs = Math.min(2 * waitMs, AGAIN_MS_MAX);
        this.#log.error({ err: error, place }, "a process could not be started again");
      }
    }
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const over = once(child, "exit");
  child.kill("SIGTERM");
  await over;
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
