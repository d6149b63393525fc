/**
 * Keeps search blocks: cuts new ones, looks through those that are not known, and checks that the others are
 * whole.
 *
 * Promises: sends come first. It works half of the time at most, and a tenth while mail travels in numbers.
 */
import type { Sql } from "../record/db/connect.ts";
import {
  auditBlocks,
  type BlockKey,
  cutBlocks,
  FIRST_BLOCK,
  isMuchTravelling,
  readBlocks,
  workspacesAfter,
} from "../record/mail/searchblocks.ts";
import { StepSize } from "../rules/stepsize.ts";
import type { Lease } from "./lease.ts";

/** Looked at in a tick, in turn; besides those that have sent much of late. */
const WORKSPACES_MAX = 50;
const BUSY_MAX = 200;
const CUT_MAX = 20;
const READ_MAX = 10;
const AUDITED_MAX = 100;
/** Of a step that looks through blocks: short, since it competes with sends. */
const READ_SLOW_MS = 250;
/** Then the next tick goes on. */
const WORK_MS_MAX = 60_000;

export class SearchUpkeep {
  readonly #sql: Sql;
  readonly #cut: StepSize;
  readonly #read: StepSize;
  readonly #audited: StepSize;
  /** Workspaces of which something was cut when they were looked at last. */
  readonly #busy = new Set<string>();
  #workspaceAt: string | null = null;
  #auditAt: BlockKey = FIRST_BLOCK;

  constructor(sql: Sql, slowMs: number) {
    this.#sql = sql;
    this.#cut = new StepSize({ max: CUT_MAX, slowMs });
    this.#read = new StepSize({ max: READ_MAX, slowMs: READ_SLOW_MS });
    this.#audited = new StepSize({ max: AUDITED_MAX, slowMs: READ_SLOW_MS });
  }

  /** Says whether there is more to do. */
  async work(now: number, lease: Lease): Promise<boolean> {
    const until = performance.now() + WORK_MS_MAX;
    const isMoreToCut = await this.#cutSome(now, lease);
    let isMoreToRead = true;
    while (isMoreToRead && lease.isHeld() && performance.now() < until)
      isMoreToRead = await this.#unhurried(() => this.#read.full((most) => readBlocks(this.#sql, most)));
    await this.#unhurried(() => this.#auditSome());
    return isMoreToCut || isMoreToRead;
  }

  async #cutSome(now: number, lease: Lease): Promise<boolean> {
    const next = await workspacesAfter(this.#sql, this.#workspaceAt, WORKSPACES_MAX);
    this.#workspaceAt = next.length === WORKSPACES_MAX ? (next.at(-1) ?? null) : null;
    let isMore = false;
    for (const id of new Set([...this.#busy, ...next])) {
      if (!lease.isHeld()) return false;
      isMore = (await this.#unhurried(() => this.#cutOf(id, now))) || isMore;
    }
    return isMore;
  }

  async #cutOf(workspaceId: string, now: number): Promise<boolean> {
    const [cut, most] = await this.#cut.take(
      async (most) => [await cutBlocks(this.#sql, workspaceId, now, most), most] as const,
      ([cut]) => cut,
    );
    if (cut === 0) this.#busy.delete(workspaceId);
    else if (this.#busy.size < BUSY_MAX) this.#busy.add(workspaceId);
    return cut === most;
  }

  async #auditSome(): Promise<void> {
    const next = await this.#audited.take((most) => auditBlocks(this.#sql, this.#auditAt, most));
    this.#auditAt = next ?? FIRST_BLOCK;
  }

  async #unhurried<T>(step: () => Promise<T>): Promise<T> {
    const pauses = (await isMuchTravelling(this.#sql)) ? 9 : 1;
    const since = performance.now();
    const result = await step();
    await new Promise((resolve) => setTimeout(resolve, pauses * (performance.now() - since)));
    return result;
  }
}
