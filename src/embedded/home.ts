/**
 * The folder of `npm start`: what it keeps between runs (the server secret, the demo key, logs) and what it
 * tells others while it runs. `processes.json` is there from the first moment and keeps a second start out;
 * `ready.json` is there when, and only when, requests are accepted. Files appear whole, and all of it is for
 * its owner alone.
 */
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  linkSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { codeOf } from "../caught.ts";
import { ChildStartError } from "./child.ts";
import { closeToOthers, makeFolder } from "./folder.ts";
import { endProcess, type Identity, identify, stillRuns } from "./process.ts";

/** Where everything is. */
export type ReadyInfo = {
  base_url: string;
  api_key: string;
  workspace_id: string;
  audience_id: string;
  console_url: string | null;
  console_email: string | null;
  console_password: string | null;
  mailbox_url: string | null;
  database_url: string | null;
  redis_url: string | null;
  smtp_url: string | null;
  /** Where reports about mail are taken. */
  inbound_url: string | null;
  bounce_domain: string | null;
  /** Where mail is taken over SMTP: with STARTTLS, and with TLS from the first byte. */
  submission_url: string | null;
  submission_tls_url: string | null;
  /** What development assumes, by variable: the command line takes it where its environment says nothing. */
  settings: Record<string, string>;
  /** The metrics of all processes, for Prometheus. */
  metrics_url: string | null;
};

/** What testers and the command line read. */
export type ReadyFile = ReadyInfo & { pids: Record<string, number> };

const SECRETS = ["secret", "demo-key", "owner-password", "ready.json", "processes.json"];
const FOLDERS = ["logs", "redis"];
/** Its server keeps its files to itself. */
const POSTGRES_FOLDER = "postgres";

type Processes = Record<string, Identity>;

export class Home {
  readonly folder: string;
  readonly #readyFile: string;
  readonly #processesFile: string;
  readonly #processes: Processes = {};
  #isOurs = false;
  #announced: ReadyInfo | null = null;

  constructor(folder: string) {
    this.folder = folder;
    this.#readyFile = join(folder, "ready.json");
    this.#processesFile = join(folder, "processes.json");
  }

  /** Takes the folder for this process; waits for what a run that was killed left behind. */
  async enter(say: (line: string) => void): Promise<void> {
    try {
      await this.#enter(say);
    } catch (error) {
      if (!(error instanceof Error && "syscall" in error)) throw error;
      throw new ChildStartError(
        `The folder ${this.folder} (POSTRIDER_HOME) cannot be used: ${error.message}. ` +
          "Set POSTRIDER_HOME to a folder in which Postrider may write.",
      );
    }
  }

  async #enter(say: (line: string) => void): Promise<void> {
    makeFolder(this.folder);
    closeHome(this.folder);
    makeFolder(join(this.folder, "logs"));
    this.#processes.root = identify(process.pid) as Identity;
    while (!createWhole(this.#processesFile, JSON.stringify(this.#processes))) {
      const { root, ...others } = readProcesses(this.#processesFile);
      if (root && stillRuns(root))
        throw new ChildStartError(`Postrider is already running in ${this.folder} (pid ${root.pid}).`);
      const leftovers = Object.values(others).filter(stillRuns);
      if (leftovers.length > 0) say("Waiting for processes of the last run to end");
      await Promise.all(leftovers.map((leftover) => endProcess(leftover, "SIGINT")));
      rmSync(this.#processesFile, { force: true });
    }
    this.#isOurs = true;
    this.withdraw();
  }

  leave(): void {
    this.withdraw();
    if (this.#isOurs) rmSync(this.#processesFile, { force: true });
  }

  note(name: string, pid: number): void {
    const identity = identify(pid);
    if (identity === null) return; // it ended at once: whoever waits for it says so
    this.#processes[name] = identity;
    writeWhole(this.#processesFile, JSON.stringify(this.#processes));
    if (this.#announced) this.announce(this.#announced);
  }

  announce(place: ReadyInfo): void {
    const pids = Object.fromEntries(Object.entries(this.#processes).map(([name, { pid }]) => [name, pid]));
    const ready: ReadyFile = { ...place, pids };
    writeWhole(this.#readyFile, `${JSON.stringify(ready, null, 2)}\n`);
    this.#announced = place;
  }

  /** Another run's is left alone. */
  withdraw(): void {
    this.#announced = null;
    if (this.#isOurs) rmSync(this.#readyFile, { force: true });
  }

  running(name: string): Identity | null {
    const process = this.#processes[name];
    return process && stillRuns(process) ? process : null;
  }

  /** The server secret: made once, since every key carries a check value under it. */
  secret(): string {
    const file = join(this.folder, "secret");
    if (!existsSync(file)) writeWhole(file, randomBytes(32).toString("hex"));
    return readFileSync(file, "utf8").trim();
  }

  demoKey(): string | null {
    const file = join(this.folder, "demo-key");
    return existsSync(file) ? readFileSync(file, "utf8").trim() : null;
  }

  keepDemoKey(key: string): void {
    writeWhole(join(this.folder, "demo-key"), key);
  }

  /** null: it was made by an earlier version, or the file is gone. */
  ownerPassword(): string | null {
    const file = join(this.folder, "owner-password");
    return existsSync(file) ? readFileSync(file, "utf8").trim() : null;
  }

  /** Of the demo workspace's owner. */
  keepOwnerPassword(password: string): void {
    writeWhole(join(this.folder, "owner-password"), password);
  }

  logFile(name: string): string {
    return join(this.folder, "logs", `${name}.log`);
  }
}

/**
 * Closes it to other users, also what an earlier version left open; not a folder that is there for something
 * else.
 */
function closeHome(folder: string): void {
  const names = readdirSync(folder);
  const isOurs = (name: string) => [...SECRETS, ...FOLDERS, POSTGRES_FOLDER].includes(name);
  if (!names.some((name) => SECRETS.includes(name)) && !names.every(isOurs))
    throw new ChildStartError(
      `The folder ${folder} (POSTRIDER_HOME) holds other files. Set POSTRIDER_HOME to a folder of its own: ` +
        "it is closed to all other users.",
    );
  chmodSync(folder, 0o700);
  for (const name of [...SECRETS, ...FOLDERS]) closeToOthers(join(folder, name));
}

function readProcesses(file: string): Processes {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Processes;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return {}; // that run just left
    if (!(error instanceof SyntaxError)) throw error;
    throw new ChildStartError(`${file} is damaged. If no Postrider runs in this folder, remove the file.`);
  }
}

function writeWhole(file: string, text: string): void {
  const making = `${file}.${process.pid}`;
  writeFileSync(making, text, { mode: 0o600 });
  renameSync(making, file);
}

/** false: there is one already. */
function createWhole(file: string, text: string): boolean {
  const making = `${file}.${process.pid}`;
  writeFileSync(making, text, { mode: 0o600 });
  try {
    linkSync(making, file);
    return true;
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    return false;
  } finally {
    rmSync(making);
  }
}
