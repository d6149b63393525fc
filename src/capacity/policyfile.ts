/**
 * The policy as a file that somebody edits while we run: read again when it changes; a bad one is refused with the
 * reason, and the last good one stays in force.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { checkPolicy, DEFAULT_POLICY, type Policy } from "./policy.ts";

const LOOK_EVERY_MS = 2_000;

/** The shipped policy was beside package.json before it was in caps/: a setting that names it there still finds it. */
function pathOfPolicy(path: string): string {
  const moved = join(dirname(path), "caps", basename(path));
  return !existsSync(path) && basename(path) === "policy.json" && existsSync(moved) ? moved : path;
}

/** Throws with the reason when the file cannot be used. */
export function readPolicy(named: string): Policy {
  const path = pathOfPolicy(named);
  const text = readFileSync(path, "utf8");
  try {
    return checkPolicy(JSON.parse(text));
  } catch (error) {
    throw new Error(`${path}: ${error instanceof Error ? error.message : error}`);
  }
}

export class PolicyInForce {
  readonly #onRefused: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout | null;
  #policy: Policy;
  #feedback: ReadonlySet<string>;
  #changedAt: number;
  #refused = "";

  constructor(path: string | null, onRefused: (error: unknown) => void) {
    this.#onRefused = onRefused;
    this.#policy = path === null ? DEFAULT_POLICY : readPolicy(path);
    this.#feedback = new Set(this.#policy.feedback_domains);
    this.#changedAt = path === null ? 0 : statSync(pathOfPolicy(path)).mtimeMs;
    this.#timer = path === null ? null : setInterval(() => this.#look(path), LOOK_EVERY_MS);
  }

  get policy(): Policy {
    return this.#policy;
  }

  /** Whether complaints of readers at this domain reach us. */
  hasFeedback(domain: string): boolean {
    return this.#feedback.has(domain);
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
  }

  #look(path: string): void {
    try {
      const { mtimeMs } = statSync(pathOfPolicy(path));
      if (mtimeMs === this.#changedAt) return;
      this.#changedAt = mtimeMs;
      this.#policy = readPolicy(path);
      this.#feedback = new Set(this.#policy.feedback_domains);
      this.#refused = "";
    } catch (error) {
      // a file that stays away is complained about once
      if (String(error) !== this.#refused) this.#onRefused(error);
      this.#refused = String(error);
    }
  }
}
