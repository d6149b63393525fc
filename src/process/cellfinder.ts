/**
 * In which cell a workspace is: the records are asked, all at once, and what they say is remembered. What is
 * remembered may be wrong, so nothing is decided by it: the cell that is asked decides by its own record, and
 * whoever hears there that it is not known forgets it and asks again.
 */
import { Unavailable } from "../admission/unavailable.ts";
import type { CellFinder } from "../api/cells.ts";
import type { Sql } from "../record/db/connect.ts";
import { within } from "../record/db/groupcommit.ts";
import { seekWorkspace, type WorkspaceName } from "../record/workspaces/workspaces.ts";

const REMEMBERED_MAX = 100_000;
const LOOKS_MAX = 64;
const LOOK_MS_MAX = 1_000;
/**
 * The fence of a workspace that has left stays for longer (mover.ts): until then it refuses whoever believes
 * it is there.
 */
const REMEMBERED_MS = 10_000;
/** Of a workspace that is between two cells. */
const ARRIVES_MS_MAX = 3_000;
const ARRIVES_LOOK_MS = 25;

export class RecordCells implements CellFinder {
  readonly #records: readonly Sql[];
  readonly #known = new Map<string, { cell: number; until: number }>();
  readonly #looks = new Map<string, Promise<number | null>>();

  /** In the order of the cells. */
  constructor(records: readonly Sql[]) {
    this.#records = records;
  }

  ofHandle(handle: string): Promise<number | null> {
    return this.#find(handle, { handle });
  }

  ofWorkspace(id: string): Promise<number | null> {
    return this.#find(id, { id });
  }

  forget(name: string): void {
    this.#known.delete(name);
  }

  #find(name: string, who: WorkspaceName): Promise<number | null> {
    const known = this.#known.get(name);
    if (known && performance.now() < known.until) return Promise.resolve(known.cell);
    const running = this.#looks.get(name);
    if (running) return running;
    if (this.#looks.size >= LOOKS_MAX)
      return Promise.reject(new Unavailable("capacity", "too many workspaces are being looked for"));
    const look = this.#look(name, who).finally(() => this.#looks.delete(name));
    this.#looks.set(name, look);
    return look;
  }

  /** A cell that does not answer matters only to a workspace that no other cell has. */
  async #look(name: string, who: WorkspaceName): Promise<number | null> {
    for (const until = performance.now() + ARRIVES_MS_MAX; ; ) {
      const answers = await Promise.allSettled(
        this.#records.map((sql) => within(seekWorkspace(sql, who), LOOK_MS_MAX)),
      );
      const found = answers.map((answer) => (answer.status === "fulfilled" ? answer.value : null));
      const cell = found.findIndex((one) => one?.isHere);
      if (cell >= 0) {
        if (this.#known.size >= REMEMBERED_MAX) this.#known.clear();
        this.#known.set(name, { cell, until: performance.now() + REMEMBERED_MS });
        return cell;
      }
      const silent = answers.find((answer) => answer.status === "rejected");
      if (silent) throw new Unavailable("postgres", "a cell did not answer", silent.reason);
      if (!found.some((one) => one?.isOnItsWay)) return null;
      if (performance.now() > until) throw new Unavailable("workspace", "the workspace is between two cells");
      await new Promise((resolve) => setTimeout(resolve, ARRIVES_LOOK_MS));
    }
  }
}
