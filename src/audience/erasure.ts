/**
 * Erasing what was mailed to people who are no longer kept: at once as far as it is quick, and to the end by
 * the keeper, which also empties the audiences that were deleted.
 */
import type { Clock } from "../clock.ts";
import {
  beginErasure,
  type EraseSizes,
  emptyDeletedAudience,
  eraseSizes,
  eraseStep,
} from "../record/contacts/erasures.ts";
import type { Sql } from "../record/db/connect.ts";

/** How long a caller waits, and how long a tick may take. */
const AT_ONCE_MS = 1_000;

/** Works on erasures, of one workspace or of all, for a while; says whether any may be left. */
export async function eraseMail(
  sql: Sql,
  workspaceId: string | null,
  clock: Clock,
  sizes: EraseSizes = eraseSizes(AT_ONCE_MS),
): Promise<boolean> {
  const until = performance.now() + AT_ONCE_MS;
  while (performance.now() < until) {
    let left = await beginErasure(sql, workspaceId);
    if (!left) return false;
    while (left && performance.now() < until) left = await eraseStep(sql, left, new Date(clock.now()), sizes);
  }
  return true;
}

/**
 * Passes of `eraseMail` over the mail of each workspace, one after the other. All of them lock the same
 * ledger, and many at once would only wait for each other. Who asks during a pass is served by the next, with
 * everybody else who does.
 */
export class ErasurePasses {
  readonly #pass: (workspaceId: string) => Promise<unknown>;
  readonly #running = new Map<string, Promise<unknown>>();
  readonly #next = new Map<string, Promise<unknown>>();

  constructor(pass: (workspaceId: string) => Promise<unknown>) {
    this.#pass = pass;
  }

  /** Resolves after a whole pass that began later than this. */
  run(workspaceId: string): Promise<unknown> {
    const known = this.#next.get(workspaceId);
    if (known) return known;
    const running = this.#running.get(workspaceId);
    if (!running) return this.#begin(workspaceId);
    const begin = (): Promise<unknown> => {
      this.#next.delete(workspaceId);
      return this.#begin(workspaceId);
    };
    const next = running.then(begin, begin);
    this.#next.set(workspaceId, next);
    return next;
  }

  #begin(workspaceId: string): Promise<unknown> {
    const pass = this.#pass(workspaceId).finally(() => this.#running.delete(workspaceId));
    this.#running.set(workspaceId, pass);
    return pass;
  }
}

/**
 * Erases the contacts of deleted audiences for a while, so that many are looked for in the mail at once; says
 * whether any may be left.
 */
export async function emptyAudiences(
  sql: Sql,
  clock: Clock,
  sizes: EraseSizes = eraseSizes(AT_ONCE_MS),
): Promise<boolean> {
  const until = performance.now() + AT_ONCE_MS;
  while (performance.now() < until) {
    const emptied = await sizes.emptied.take(
      (most) => emptyDeletedAudience(sql, new Date(clock.now()), most),
      (count) => count ?? 0,
    );
    if (emptied === null) return false;
  }
  return true;
}
