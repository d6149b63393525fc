/**
 * The policy in force: the highest version in Postgres, the same for every process and command, or the
 * built-in policy while there is none. Nothing in a file or a row can end a process: what cannot be used is
 * said in the log, and the policy before it stays in force.
 *
 * CAPS_POLICY only begins: the file that it names becomes version 1 where there is no version yet. Later it
 * is compared and never taken. Two machines may have different files, and an old file in a new image would
 * undo what somebody applied; so a change is made by `caps policy apply`, once, with an author.
 */
import { statSync } from "node:fs";
import { messageOf } from "../caught.ts";
import type { Clock } from "../clock.ts";
import type { Sql, Tx } from "../record/db/connect.ts";
import type { Looks } from "../record/db/looks.ts";
import {
  type CapPolicyRow,
  capPolicyOn,
  findCapPolicy,
  insertCapPolicy,
  newestCapPolicy,
  newestVersion,
} from "../record/workspaces/cappolicies.ts";
import { pathOfPolicy } from "./policy/shipped.ts";
import { DEFAULT_POLICY, type Policy, policyVersion } from "./policy.ts";

const LOOK_EVERY_MS = 2_000;
const APPLY_ATTEMPTS_MAX = 5;
export const BUILT_IN = 0;

export type VersionedPolicy = { version: number; policy: Policy };
export type PolicyAuthor = { name: string; reason: string };
/** `refused`: why the highest version is not in force; null: it is. */
type UsablePolicy = VersionedPolicy & { refused: string | null };

/** What every command judges by. */
export async function policyInForce(sql: Sql | Tx): Promise<UsablePolicy> {
  const row = await newestCapPolicy(sql);
  return row ? newestUsable(sql, row) : { version: BUILT_IN, policy: DEFAULT_POLICY, refused: null };
}

/**
 * An older release may read a version that a newer one wrote: then the highest that it can use is in force.
 */
async function newestUsable(sql: Sql | Tx, newest: CapPolicyRow): Promise<UsablePolicy> {
  let refused: string | null = null;
  for (let row: CapPolicyRow | null = newest; row; row = await findCapPolicy(sql, row.version - 1))
    try {
      return { version: row.version, policy: await policyOf(row), refused };
    } catch (error) {
      refused ??= wordsOf(error);
    }
  return { version: BUILT_IN, policy: DEFAULT_POLICY, refused };
}

/** As it was at a time; null: it was one that this release cannot use. */
export async function policyInForceAt(sql: Sql | Tx, at: Date): Promise<Policy | null> {
  const row = await capPolicyOn(sql, at);
  return row === null ? DEFAULT_POLICY : policyOf(row).catch(() => null);
}

/** null when there is no such version. */
export async function policyAt(sql: Sql | Tx, version: number): Promise<Policy | null> {
  if (version === BUILT_IN) return DEFAULT_POLICY;
  const row = await findCapPolicy(sql, version);
  return row && policyOf(row);
}

/**
 * Puts a policy in force; one that decides as the present one makes no new version. `before`: what was in
 * force.
 */
export async function applyPolicy(
  sql: Sql,
  policy: Policy,
  by: PolicyAuthor,
  now: number,
): Promise<{ version: number; isNew: boolean; before: Policy }> {
  const digest = policyVersion(policy);
  const text = JSON.stringify(policy, null, 2);
  for (let attempt = 0; attempt < APPLY_ATTEMPTS_MAX; attempt++) {
    const known = await newestCapPolicy(sql);
    if (known?.digest === digest) return { version: known.version, isNew: false, before: policy };
    const before = known === null ? DEFAULT_POLICY : (await newestUsable(sql, known)).policy;
    const row = { text, digest, author: by.name, reason: by.reason };
    const version = await insertCapPolicy(sql, row, known?.version ?? BUILT_IN, new Date(now));
    if (version !== null) return { version, isNew: true, before };
  }
  throw new Error("The policy keeps changing: somebody else applies policies at this moment. Try again.");
}

/** How the file that CAPS_POLICY names stands to the policy in force; null: they decide alike. */
export async function policyFileFault(
  path: string,
  { version, policy }: VersionedPolicy,
): Promise<string | null> {
  const { readPolicy } = await import("./policyfile.ts");
  try {
    if (policyVersion(readPolicy(path)) === policyVersion(policy)) return null;
  } catch (error) {
    return `CAPS_POLICY ${wordsOf(error)}`;
  }
  const inForce =
    version === BUILT_IN ? "the built-in policy, which is in force" : `version ${version}, which is in force`;
  return `CAPS_POLICY ${path} differs from ${inForce}. \`postrider caps policy diff ${path}\` shows how, \`caps policy apply ${path}\` puts it in force.`;
}

async function policyOf({ version, text }: CapPolicyRow): Promise<Policy> {
  const { parsePolicy } = await import("./policyfile.ts");
  try {
    return parsePolicy(text);
  } catch (error) {
    throw new Error(
      `Version ${version} of the policy of caps cannot be used by this release: ${wordsOf(error)} \`postrider caps policy rollback VERSION\` returns to an earlier one.`,
    );
  }
}

function wordsOf(error: unknown): string {
  return messageOf(error);
}

export type PolicyInForceParts = {
  sql: Sql;
  clock: Clock;
  /** CAPS_POLICY; null: it names none. */
  path: string | null;
  /** A version or a file that is not used, said once as long as it stays so. */
  onRefused(words: string): void;
  onFault(error: unknown): void;
};

/** The policy in force, as one process knows it. */
export class PolicyInForce {
  readonly #parts: PolicyInForceParts;
  #unfollow = () => {};
  #looking: Promise<void> | null = null;
  #isStopped = false;
  #known: VersionedPolicy = { version: BUILT_IN, policy: DEFAULT_POLICY };
  #feedback: ReadonlySet<string> = new Set(DEFAULT_POLICY.feedback_domains);
  /** The highest version that was read, used or not. */
  #readVersion = BUILT_IN;
  #fileChangedAt: number | null = null;
  #refusedVersion: string | null = null;
  #refusedFile: string | null = null;

  constructor(parts: PolicyInForceParts) {
    this.#parts = parts;
  }

  /**
   * A store that does not answer now is asked again: the built-in policy says meanwhile who reports
   * complaints.
   */
  async open(): Promise<void> {
    await this.#look().catch((error: unknown) => {
      if (!this.#isStopped) this.#parts.onFault(error);
    });
  }

  /** Looks for another version, and at the file, every two seconds from now on. */
  keepLooking(looks: Looks): void {
    this.#unfollow = looks.ask(LOOK_EVERY_MS, newestVersion, (version: number | null) => {
      const { path } = this.#parts;
      if (version === null ? path !== null : version > this.#readVersion) void this.open();
      else if (path !== null) void this.#compare(path, false);
    });
  }

  get version(): number {
    return this.#known.version;
  }

  /** A version that this release cannot use, or a file that is broken or differs; null: there is none. */
  get refused(): string | null {
    return this.#refusedVersion ?? this.#refusedFile;
  }

  /** As it is in Postgres now: caps are judged by nothing else. */
  async latest(): Promise<Policy> {
    await this.#looking?.catch(() => {});
    await this.#look();
    return this.#known.policy;
  }

  /** Whether complaints of readers at this domain reach us. */
  hasFeedback(domain: string): boolean {
    return this.#feedback.has(domain);
  }

  /** What is being read is not waited for: Postgres may be silent. */
  stop(): void {
    this.#unfollow();
    this.#isStopped = true;
  }

  #look(): Promise<void> {
    this.#looking ??= this.#read().finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #read(): Promise<void> {
    const { sql, path } = this.#parts;
    const row = await newestCapPolicy(sql, this.#readVersion);
    if (row) await this.#take(row);
    else if (this.#readVersion === BUILT_IN && path !== null) await this.#begin(path);
    if (path !== null) await this.#compare(path, row !== null);
  }

  async #take(row: CapPolicyRow): Promise<void> {
    const { refused, ...known } = await newestUsable(this.#parts.sql, row);
    this.#readVersion = row.version;
    this.#known = known;
    this.#feedback = new Set(known.policy.feedback_domains);
    this.#refusedVersion = refused;
    if (refused !== null) this.#parts.onRefused(refused);
  }

  /**
   * No version yet: the file is the first. Of two processes that begin at once one inserts it, and both read
   * it.
   */
  async #begin(path: string): Promise<void> {
    const { sql, clock } = this.#parts;
    const policy = await usable(path);
    if (policy === null) return;
    const digest = policyVersion(policy);
    const first = {
      text: JSON.stringify(policy, null, 2),
      digest,
      author: "CAPS_POLICY",
      reason: `the first start with ${path}`,
    };
    await insertCapPolicy(sql, first, BUILT_IN, new Date(clock.now()));
    const row = await newestCapPolicy(sql);
    if (row) await this.#take(row);
  }

  async #compare(path: string, isNewVersion: boolean): Promise<void> {
    const changedAt = changeOf(path);
    if (changedAt === this.#fileChangedAt && !isNewVersion) return;
    this.#fileChangedAt = changedAt;
    const fault = await policyFileFault(path, this.#known);
    if (fault !== null && fault !== this.#refusedFile) this.#parts.onRefused(fault);
    this.#refusedFile = fault;
  }
}

/** null: it is complained about when it is compared. */
async function usable(path: string): Promise<Policy | null> {
  const { readPolicy } = await import("./policyfile.ts");
  try {
    return readPolicy(path);
  } catch {
    return null;
  }
}

/** Zero while it cannot be read. */
function changeOf(path: string): number {
  try {
    return statSync(pathOfPolicy(path)).mtimeMs;
  } catch {
    return 0;
  }
}
