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
/** Looks that a cell has not answered. Each cell has its own count: one that is silent uses up no other's. */
const ASKED_MAX = 1_000;
const LOOK_MS_MAX = 1_000;
/**
 * The fence of a workspace that has left stays for longer (mover.ts): until then it refuses whoever believes
 * it is there.
 */
const REMEMBERED_MS = 10_000;
/** Of a workspace that is between two cells. */
const ARRIVES_MS_MAX = 3_000;
const ARRIVES_LOOK_MS = 25;

type Sought = Awaited<ReturnType<typeof seekWorkspace>>;

export class RecordCells implements CellFinder {
  readonly #cells: readonly AskedCell[];
  readonly #known = new Map<string, { cell: number; until: number }>();
  readonly #looks = new Map<string, Promise<number | null>>();

  /** In the order of the cells; null: of one that has not answered yet. */
  constructor(records: readonly (() => Sql | null)[]) {
    this.#cells = records.map((record) => new AskedCell(record));
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
    const look = this.#look(name, who).finally(() => this.#looks.delete(name));
    this.#looks.set(name, look);
    return look;
  }

  async #look(name: string, who: WorkspaceName): Promise<number | null> {
    for (const until = performance.now() + ARRIVES_MS_MAX; ; ) {
      const answers = this.#cells.map((cell) => cell.seek(who));
      const cell = await firstThatHas(answers);
      if (cell !== null) {
        if (this.#known.size >= REMEMBERED_MAX) this.#known.clear();
        this.#known.set(name, { cell, until: performance.now() + REMEMBERED_MS });
        return cell;
      }
      const found = await Promise.all(answers).catch((error: unknown) => {
        throw error instanceof Unavailable
          ? error
          : new Unavailable("postgres", "a cell did not answer", error);
      });
      if (!found.some(({ isOnItsWay }) => isOnItsWay)) return null;
      if (performance.now() > until) throw new Unavailable("workspace", "the workspace is between two cells");
      await new Promise((resolve) => setTimeout(resolve, ARRIVES_LOOK_MS));
    }
  }
}

class AskedCell {
  readonly #record: () => Sql | null;
  #asked = 0;

  constructor(record: () => Sql | null) {
    this.#record = record;
  }

  async seek(who: WorkspaceName): Promise<Sought> {
    const sql = this.#record();
    if (sql === null) throw new Unavailable("postgres", "a cell has not answered since the process began");
    if (this.#asked >= ASKED_MAX)
      throw new Unavailable("capacity", "too many workspaces are being looked for in a cell");
    this.#asked++;
    const answer = seekWorkspace(sql, who).finally(() => this.#asked--);
    return within(answer, LOOK_MS_MAX);
  }
}

/**
 * A cell that does not answer is waited for only when no other has the workspace. null: all have been heard.
 */
async function firstThatHas(answers: readonly Promise<Sought>[]): Promise<number | null> {
  const having = answers.map(async (answer, cell) => {
    if ((await answer).isHere) return cell;
    throw NOT_HERE;
  });
  return Promise.any(having).catch(() => null);
}

const NOT_HERE = new Error("the workspace is not in this cell");
