/**
 * The shaping file as somebody edits it while we run: read again when it changes. A file that cannot be used
 * is complained about, and the last good one stays in force; Postgres keeps that, so that a restart changes
 * nothing. While Postgres is away a changed file is in force all the same, and is kept when it is back.
 */
import { readFileSync, statSync } from "node:fs";
import { codeOf, messageOf } from "../caught.ts";
import type { Clock } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import { keepShaping, loadShaping } from "../record/mail/destinations.ts";
import { readShaping, type ShapingRules } from "./file.ts";

const LOOK_EVERY_MS = 1_000;
const ADVICE = "Correct the file; it is read again as soon as it changes.";

type RulesFileOptions = {
  path: string;
  sql: Sql;
  clock: Clock;
  onRules(rules: ShapingRules): void;
  onFault(error: unknown): void;
};

/** The rules of a file. Throws with the file, the place and the reason. */
export function readShapingFile(path: string): { text: string; rules: ShapingRules } {
  try {
    const text = readFileSync(path, "utf8");
    return { text, rules: readShaping(text) };
  } catch (error) {
    const [code, message] = [codeOf(error), messageOf(error)];
    const why =
      code === "ENOENT"
        ? "There is no such file."
        : error instanceof SyntaxError
          ? `It is not JSON: ${message}.`
          : message;
    throw new Error(`SHAPING_FILE ${path}: ${why}`);
  }
}

export class RulesFile {
  readonly #options: RulesFileOptions;
  readonly #timer: NodeJS.Timeout;
  #seen = GONE;
  #refused = "";
  #unkept: string | null = null;
  #isKeeping = false;
  /** The text that could not be kept, as was said. */
  #complainedOf: string | null = null;

  constructor(options: RulesFileOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#look(), LOOK_EVERY_MS);
  }

  /**
   * Reads it for the first time. Without a file that can be used, the one that was kept is in force, or none.
   */
  async open(): Promise<void> {
    const { sql, onRules, onFault } = this.#options;
    try {
      this.#read();
      await this.#keep();
    } catch (error) {
      const kept = await loadShaping(sql);
      const rules = kept && rulesOf(kept.text);
      if (rules) onRules(rules);
      const inForce = rules
        ? `The rules that were read on ${kept.readAt.toISOString()} stay in force.`
        : "No limits are in force.";
      this.#refused = String(error);
      onFault(new Error(`${messageOf(error)} ${inForce} ${ADVICE}`));
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const { path, onFault } = this.#options;
    try {
      if (changeOf(path) !== this.#seen) this.#read();
    } catch (error) {
      // one that stays as it is is complained about once
      if (String(error) !== this.#refused)
        onFault(new Error(`${messageOf(error)} The rules before it stay in force. ${ADVICE}`));
      this.#refused = String(error);
    }
    await this.#keep();
  }

  #read(): void {
    const { path, onRules } = this.#options;
    this.#seen = changeOf(path);
    const { text, rules } = readShapingFile(path);
    this.#refused = "";
    onRules(rules);
    this.#unkept = text;
  }

  async #keep(): Promise<void> {
    const { sql, clock, onFault } = this.#options;
    const text = this.#unkept;
    if (text === null || this.#isKeeping) return;
    this.#isKeeping = true;
    try {
      await keepShaping(sql, text, new Date(clock.now()));
      if (this.#unkept === text) this.#unkept = null;
    } catch (error) {
      if (this.#complainedOf !== text) onFault(error);
      this.#complainedOf = text;
    } finally {
      this.#isKeeping = false;
    }
  }
}

/** null: an older version wrote it, for which other rules held. */
function rulesOf(text: string): ShapingRules | null {
  try {
    return readShaping(text);
  } catch {
    return null;
  }
}

const GONE = "";

/**
 * While it cannot be read it is gone: when it can again, it has changed. A file that replaces another may
 * have its time, and one that is being written too.
 */
function changeOf(path: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(path);
    return `${mtimeMs} ${size} ${ino}`;
  } catch {
    return GONE;
  }
}
