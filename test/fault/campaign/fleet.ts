/**
 * The processes of a campaign: each member is started as in production, has a way of its own to Postgres and
 * Redis, and is started again when it ends, as a supervisor would. A member has many lives; each calls itself
 * by its own name towards the sink, so that it is known who delivered what.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ChildReport } from "../../../src/embedded/parent.ts";
import { pause } from "../../rig/pause.ts";
import { openProxy, type TcpProxy } from "../../rig/proxy.ts";
import type { Life, Role } from "./history.ts";
import { cellsFileOf } from "./stores.ts";

const POSTRIDER = fileURLToPath(new URL("../../../dist/cli/postrider.js", import.meta.url));
const FLEET: readonly Role[] = ["keeper", "keeper", "api", "api", "deliver", "deliver", "automate"];
const EHLO_DOMAIN = "campaign.test";
/** Between an end and the next start. */
const RESTART_MS = 300;
const RESTART_MS_MAX = 3_000;
/** A member that does not end when it is told to is killed, as a supervisor would. */
const STOP_MS_MAX = 30_000;
/** Rather more than a process waits for its stores before it gives up by itself. */
export const START_MS_MAX = 45_000;
/** Workers take little in hand, so that mail stands in line whenever receivers are slow. */
const IN_FLIGHT_MAX = 100;
const LAST_WORDS = 12;
const LINE_CHARS_MAX = 1_000;
const FAKETIME_LIBRARIES = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/faketime/libfaketimeMT.so.1",
];

export type FleetParts = {
  folder: string;
  cells: readonly { name: string; postgres: { url: string; port: number }; redis: { port: number } }[];
  smtpUrl: string;
  secret: string;
  lives: Life[];
};

/** How a member reaches the stores of a cell. */
export type Way = { name: string; postgres: TcpProxy; redis: TcpProxy };

/** null: this machine has no library that makes the clock of one process wrong. */
export function faketimeLibrary(): string | null {
  return FAKETIME_LIBRARIES.find((path) => existsSync(path)) ?? null;
}

export class Fleet {
  readonly members: readonly Member[];

  private constructor(members: readonly Member[]) {
    this.members = members;
  }

  static async open(parts: FleetParts): Promise<Fleet> {
    const members: Member[] = [];
    for (const role of FLEET) {
      const number = members.filter((one) => one.role === role).length + 1;
      const ways: Way[] = [];
      for (const { name, postgres, redis } of parts.cells)
        ways.push({
          name,
          postgres: await openProxy({ port: postgres.port }),
          redis: await openProxy({ port: redis.port }),
        });
      members.push(new Member(`${role}-${number}`, role, ways, parts));
    }
    return new Fleet(members);
  }

  of(role: Role): Member[] {
    return this.members.filter((member) => member.role === role);
  }

  /** The first alone, since it migrates; resolves when all of them serve. */
  async start(): Promise<void> {
    const [first, ...others] = this.members;
    await first?.begin();
    await Promise.all(others.map((member) => member.begin()));
  }

  /** Tells all of them to end, and lets none of them start again. */
  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.finish()));
  }

  /** At once, whatever state they are in. */
  killAll(): void {
    for (const member of this.members) member.killForGood();
  }

  async close(): Promise<void> {
    const ways = this.members.flatMap((member) => member.ways);
    await Promise.all(ways.flatMap(({ postgres, redis }) => [postgres.close(), redis.close()]));
  }
}

export class Member {
  readonly name: string;
  readonly role: Role;
  /** One for each cell. */
  readonly ways: readonly Way[];
  readonly #parts: FleetParts;
  #child: ChildProcess | null = null;
  #life: Life | null = null;
  #port: number | null = null;
  #skewMs = 0;
  #isOver = false;
  #failedStarts = 0;
  #isFrozen = false;

  constructor(name: string, role: Role, ways: readonly Way[], parts: FleetParts) {
    this.name = name;
    this.role = role;
    this.ways = ways;
    this.#parts = parts;
  }

  /** The life that serves now, or will; null: between two lives. */
  get life(): Life | null {
    return this.#life;
  }

  /** Of its api. */
  get port(): number | null {
    return this.#port;
  }

  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /** Resolves when it serves for the first time. */
  async begin(): Promise<void> {
    if (!(await this.#live())) throw new Error(`${this.name} did not start: see ${this.#logFile}`);
  }

  /** SIGTERM or SIGKILL; it starts again by itself. */
  end(signal: "SIGTERM" | "SIGKILL"): void {
    const [child, life] = [this.#child, this.#life];
    if (!child || !life || life.ended) return;
    if (life.told === null || signal === "SIGKILL") life.told = { at: Date.now(), signal };
    child.kill(signal);
    if (signal === "SIGKILL") return;
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
    child.once("exit", () => clearTimeout(timer));
  }

  freeze(): void {
    if (this.#child?.kill("SIGSTOP")) this.#isFrozen = true;
  }

  thaw(): void {
    this.#isFrozen = false;
    this.#child?.kill("SIGCONT");
  }

  /** From its next life on its clock is wrong by so much. */
  skew(ms: number): void {
    this.#skewMs = ms;
  }

  /** Ends it for good, politely. */
  async finish(): Promise<void> {
    this.#isOver = true;
    this.thaw();
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    this.end("SIGTERM");
    await ended;
  }

  killForGood(): void {
    this.#isOver = true;
    this.#child?.kill("SIGKILL");
  }

  get #logFile(): string {
    return join(this.#parts.folder, `${this.name}.log`);
  }

  /** One life after the other; resolves when the first serves, or has ended without. */
  async #live(): Promise<boolean> {
    const { lives, folder } = this.#parts;
    const number = lives.filter(({ member }) => member === this.name).length + 1;
    const life: Life = {
      name: `${this.name}.${number}`,
      member: this.name,
      role: this.role,
      startedAt: Date.now(),
      readyAt: null,
      told: null,
      ended: null,
      skewMs: this.#skewMs,
      lastWords: [],
    };
    lives.push(life);
    const log = openSync(this.#logFile, "a");
    const child = spawn(process.execPath, ["--enable-source-maps", POSTRIDER, "serve", "--role", this.role], {
      cwd: folder,
      stdio: ["ignore", log, log, "ipc"],
      env: this.#environment(life),
    });
    closeSync(log);
    this.#child = child;
    this.#life = life;
    child.once("exit", (status, signal) => void this.#onExit(life, status, signal));
    const patience = setTimeout(() => this.end("SIGKILL"), START_MS_MAX);
    return new Promise((resolve) => {
      child.once("exit", () => {
        clearTimeout(patience);
        resolve(false);
      });
      child.on("message", (report: ChildReport) => {
        if (report.kind !== "ready") return;
        clearTimeout(patience);
        life.readyAt = Date.now();
        this.#port = report.port;
        this.#failedStarts = 0;
        resolve(true);
      });
    });
  }

  async #onExit(life: Life, status: number | null, signal: string | null): Promise<void> {
    life.ended = { at: Date.now(), status, signal };
    if (life.told === null || life.readyAt === null) life.lastWords = this.#lastWords();
    if (life.readyAt === null) this.#failedStarts++;
    this.#port = null;
    this.#isFrozen = false;
    await pause(Math.min(RESTART_MS * 2 ** this.#failedStarts, RESTART_MS_MAX));
    if (!this.#isOver) await this.#live();
  }

  #lastWords(): string[] {
    const lines = readFileSync(this.#logFile, "utf8").trimEnd().split("\n");
    return lines.slice(-LAST_WORDS).map((line) => line.slice(0, LINE_CHARS_MAX));
  }

  #addresses() {
    return this.ways.map(({ name, postgres, redis }, n) => {
      const databaseUrl = new URL(this.#parts.cells[n]?.postgres.url ?? "");
      databaseUrl.port = String(postgres.port);
      return { name, databaseUrl: databaseUrl.href, redisUrl: `redis://127.0.0.1:${redis.port}` };
    });
  }

  #environment(life: Life): Record<string, string> {
    const { folder, smtpUrl, secret } = this.#parts;
    const addresses = this.#addresses();
    const file = join(folder, `${this.name}.cells.json`);
    writeFileSync(file, cellsFileOf(addresses));
    return {
      PATH: process.env.PATH ?? "",
      NODE_ENV: "test",
      DATABASE_URL: addresses[0]?.databaseUrl ?? "",
      REDIS_URL: addresses[0]?.redisUrl ?? "",
      ...(addresses.length > 1 && { CELLS_FILE: file }),
      SMTP_URL: smtpUrl,
      POSTRIDER_SECRET: secret,
      POSTRIDER_HOME: folder,
      PORT: "0",
      PUBLIC_URL: "https://campaign.test",
      EHLO_NAME: `${life.name}.${EHLO_DOMAIN}`,
      DELIVERY_CONCURRENCY: String(IN_FLIGHT_MAX),
      RETRY_SCHEDULE: "1,2,4",
      EMAIL_LIFETIME_HOURS: "1",
      DISK_FREE_MIN_MB: "0",
      LOG_LEVEL: "warn",
      REQUIRE_VERIFIED_DOMAINS: "false",
      ...skewed(life.skewMs),
    };
  }
}

/** The life that an EHLO name names. */
export function lifeOf(ehloName: string): string {
  return ehloName.replace(`.${EHLO_DOMAIN}`, "");
}

function skewed(ms: number): Record<string, string> {
  const library = faketimeLibrary();
  if (ms === 0 || library === null) return {};
  const offset = `${ms > 0 ? "+" : ""}${Math.round(ms / 1000)}s`;
  return { LD_PRELOAD: library, FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: "1" };
}
