/**
 * Moves a workspace to another cell while it works. Every step may be repeated: whoever runs the move again
 * goes on where it stands, whatever was ended in the middle of it.
 *
 *   1. Fences go up in both records, and what is there is copied, step by step.
 *   2. What changed meanwhile is copied again, until little is left.
 *   3. No bag is claimed any more; those with workers are waited for.
 *   4. The pause: writers are refused, the rest goes over, and the record that it leaves says that it is
 *      gone.
 *   5. The new record lets it work. Redis of the old one forgets its keys.
 *   6. When no process can still believe that the workspace is there, the old rows are removed, and last the
 *      fence. Whoever believed it until then has read what was true at the switch, and written nothing.
 */
import { randomUUID } from "node:crypto";
import type { Keyring } from "../admission/keyring.ts";
import type { Reservations } from "../admission/reserve.ts";
import { codeOf, messageOf } from "../caught.ts";
import { dropFence, isFenced, raiseFence } from "../record/cells/fence.ts";
import {
  arrive,
  beginToTell,
  type Copied,
  catchUp,
  copyStep,
  drain,
  endDrain,
  findMove,
  forgetCopied,
  forgetMove,
  handOver,
  LAST_CHANGES_MAX,
  type MovingRun,
  makeSamePartitions,
  NotYet,
  noteArriving,
  noteLeaving,
  obstacle,
  Pauses,
  removeStep,
  takenDomain,
  takeOver,
  type WorkspaceMove,
} from "../record/cells/moves.ts";
import { type MovedTable, workspaceTables } from "../record/cells/tables.ts";
import type { Sql } from "../record/db/connect.ts";
import { findWorkspace } from "../record/workspaces/workspaces.ts";

/** What processes remember of a workspace lapses before: see cellfinder.ts, and the deadlines of requests. */
const FENCE_STAYS_SECONDS = 20;
/** So long records of keys live in Redis that could not be told. */
const FENCE_STAYS_UNTOLD_SECONDS = 75;
const DRAIN_MS_MAX = 120_000;
const LOOK_EVERY_MS = 50;
const TRIES_MAX = 30;
const TRY_AGAIN_MS = 300;
const UNIQUE_VIOLATION = "23505";
const CLASHES_MAX = 10;

export type MovingCell = { name: string; sql: Sql; keyring: Keyring; reservations: Reservations };

export type MovePhase = "copying" | "catching up" | "waiting for workers" | "switched" | "removing old rows";

export type MoverParts = {
  cells: readonly MovingCell[];
  onPhase(phase: MovePhase): void;
  wait(ms: number): Promise<void>;
};

/** Said to the operator as it is. */
export class MoveError extends Error {}

/** `pauses`: as its callers met them; null: nobody knows. */
export type Moved = { workspaceId: string; from: string; to: string; pauses: Pauses | null };

export class Mover {
  readonly #parts: MoverParts;

  constructor(parts: MoverParts) {
    this.#parts = parts;
  }

  /** null: it is there already, and nothing is left to do. */
  async move(workspaceId: string, to: string): Promise<Moved | null> {
    const target = this.#cell(to);
    const source = await this.#sourceOf(workspaceId, target);
    if (source === null) return null;
    const tables = await sameTables(source, target);
    const before = await findMove(source.sql, workspaceId);
    const isResumed = before?.state === "gone";
    const pauses = isResumed ? null : await this.#leave(workspaceId, source, target, tables);
    await this.#letIn(workspaceId, source, target, isResumed);
    pauses?.end();
    await this.#settleIn(workspaceId, source, target, tables);
    this.#parts.onPhase("removing old rows");
    await this.#remove(workspaceId, source, tables);
    return { workspaceId, from: source.name, to, pauses };
  }

  /** Back to before the move; not after the switch. */
  async abort(workspaceId: string): Promise<boolean> {
    const moves = await this.#movesOf(workspaceId);
    if (moves.some(({ move }) => move.state === "gone"))
      throw new MoveError(
        "The workspace has moved already: only its old rows are left. Run the move again to finish it, then move it back.",
      );
    // first where it is: from then on nobody can let it go, and what is taken away is only a copy
    for (const { cell, move } of moves.sort((a, b) => Number(isCopy(a.move)) - Number(isCopy(b.move)))) {
      const tables = await workspaceTables(cell.sql);
      const ours = await takeOver(cell.sql, move, randomUUID());
      const { id, state } = ours;
      if (state === "arriving") while (await removeStep(cell.sql, tables, { workspaceId, id, state }));
      // before the row: a fence without one notes nothing, and the next move would trust what was copied
      // earlier
      await dropFence(cell.sql, tables, ours);
      await forgetMove(cell.sql, ours);
    }
    return moves.length > 0;
  }

  #cell(name: string): MovingCell {
    const { cells } = this.#parts;
    const found = cells.find((cell) => cell.name === name);
    if (!found)
      throw new MoveError(
        `There is no cell ${name}. CELLS_FILE has ${cells.map((cell) => cell.name).join(", ")}.`,
      );
    return found;
  }

  async #movesOf(workspaceId: string): Promise<{ cell: MovingCell; move: WorkspaceMove }[]> {
    const found = await Promise.all(
      this.#parts.cells.map(async (cell) => ({ cell, move: await findMove(cell.sql, workspaceId) })),
    );
    return found.flatMap(({ cell, move }) => (move ? [{ cell, move }] : []));
  }

  /**
   * The cell that the workspace is in, or has left in a move that was not finished; null: the target, and it
   * is whole.
   */
  async #sourceOf(workspaceId: string, target: MovingCell): Promise<MovingCell | null> {
    const moves = await this.#movesOf(workspaceId);
    const leaving = moves.find(({ move }) => move.state !== "arriving");
    if (leaving) {
      if (leaving.move.cell !== target.name)
        throw new MoveError(
          `The workspace is moving to ${leaving.move.cell}. Finish that with --to ${leaving.move.cell}, or undo it with --abort.`,
        );
      return leaving.cell;
    }
    for (const cell of this.#parts.cells) {
      const workspace = await findWorkspace(cell.sql, workspaceId);
      const isArriving = moves.some(({ cell: other }) => other === cell);
      if (!workspace || isArriving) continue;
      return cell === target ? null : cell;
    }
    throw new MoveError(`No cell has the workspace ${workspaceId}.`);
  }

  /** Hands back how it was paused, of which the last goes on; null: nobody knows. */
  async #leave(
    workspaceId: string,
    source: MovingCell,
    target: MovingCell,
    tables: readonly MovedTable[],
  ): Promise<Pauses | null> {
    const found = await findMove(source.sql, workspaceId);
    const workspace = await findWorkspace(source.sql, workspaceId);
    const handle = found?.handle ?? workspace?.handle ?? "";
    const run = { workspaceId, id: randomUUID() };
    const taken = await takenDomain(source.sql, target.sql, workspaceId);
    if (taken !== null)
      throw new MoveError(
        `The domain ${taken} is verified by another workspace in ${target.name}. Remove it from one of the two.`,
      );
    if (!(await noteLeaving(source.sql, { ...run, cell: target.name, handle })))
      throw new MoveError(
        "Another command is moving this workspace. Wait until it ends, then run this one again.",
      );
    await this.#prepare({ ...run, handle }, source, target, tables);
    this.#parts.onPhase("copying");
    await this.#copy(run, source.sql, target.sql, tables);
    await this.#settleDown(run, source.sql, target.sql, tables);
    const pauses = new Pauses();
    for (let n = 1; ; n++) {
      try {
        await this.#switch({ ...run, handle }, source, target, tables, pauses);
        this.#parts.onPhase("switched");
        return pauses;
      } catch (error) {
        // a commit whose answer was lost has still a fate
        const now = await findMove(source.sql, workspaceId);
        if (now?.state === "gone") return null;
        await endDrain(source.sql, workspaceId);
        if (!mayTryAgain(error)) throw error;
        if (n === TRIES_MAX)
          throw new MoveError(
            `The workspace could not be switched: ${messageOf(error)}. It still works in ${source.name}. Run the command again, or undo the move with --abort.`,
          );
        await this.#parts.wait(TRY_AGAIN_MS);
        await this.#settleDown(run, source.sql, target.sql, tables);
      }
    }
  }

  /** The new record has the workspace, suspended, and there is a fence around it in both. */
  async #prepare(
    { workspaceId, id, handle }: MovingRun & { handle: string },
    source: MovingCell,
    target: MovingCell,
    tables: readonly MovedTable[],
  ): Promise<void> {
    const move = { workspaceId, id, cell: source.name, handle };
    await makeSamePartitions(source.sql, target.sql);
    await noteArriving(target.sql, move, source.sql);
    await raiseFence(target.sql, tables, move);
    await beginToTell(target.sql, workspaceId);
    // something may have been written unseen: nothing that was copied before is true
    if (!(await isFenced(source.sql, tables, move))) await forgetCopied(target.sql, { workspaceId, id });
    await raiseFence(source.sql, tables, move);
    if ((await findMove(target.sql, workspaceId))?.copied) return;
    while (await removeStep(target.sql, tables, { workspaceId, id, state: "arriving" }));
  }

  async #copy(run: MovingRun, source: Sql, target: Sql, tables: readonly MovedTable[]): Promise<void> {
    let copied: Copied | null = (await findMove(target, run.workspaceId))?.copied ?? null;
    let clashes = 0;
    while (copied === null || !("isWhole" in copied))
      try {
        copied = await copyStep(source, target, tables, { ...run, copied });
        clashes = 0;
      } catch (error) {
        // a row took the name that another had when that was copied: the other has changed since
        if (codeOf(error) !== UNIQUE_VIOLATION || ++clashes > CLASHES_MAX) throw error;
        await catchUp(source, target, tables, run);
      }
  }

  /** Until little is left to copy. */
  async #settleDown(run: MovingRun, source: Sql, target: Sql, tables: readonly MovedTable[]): Promise<void> {
    this.#parts.onPhase("catching up");
    for (let clashes = 0; ; )
      try {
        if ((await catchUp(source, target, tables, run)) < LAST_CHANGES_MAX / 4) return;
      } catch (error) {
        if (codeOf(error) !== UNIQUE_VIOLATION || ++clashes > CLASHES_MAX) throw error;
      }
  }

  async #switch(
    { handle, ...run }: MovingRun & { handle: string },
    source: MovingCell,
    target: MovingCell,
    tables: readonly MovedTable[],
    pauses: Pauses,
  ): Promise<void> {
    const { workspaceId } = run;
    const stays =
      "The workspace stays where it is. When Redis is back, run the command again, or undo the move with --abort.";
    await forgetIn(target, handle, stays);
    this.#parts.onPhase("waiting for workers");
    const until = performance.now() + DRAIN_MS_MAX;
    for (;;) {
      const [held, why] = [await drain(source.sql, workspaceId), await obstacle(source.sql, workspaceId)];
      if (held === 0 && why === null) break;
      if (performance.now() > until) throw new NotYet(why ?? `workers still have ${held} bags of its mail`);
      await catchUp(source.sql, target.sql, tables, run);
      await this.#parts.wait(LOOK_EVERY_MS);
    }
    // before the pause: Redis may be slow
    await forgetIn(target, handle, stays);
    await noteRevokedIn(target, workspaceId, handle, stays);
    await catchUp(source.sql, target.sql, tables, run);
    await drain(source.sql, workspaceId);
    await handOver(source.sql, target.sql, tables, { ...run, cell: target.name }, pauses);
  }

  /**
   * Ends the pause. Redis of the new cell may have counters and keys of a time when the workspace was there
   * before: they were dealt with before the switch, but for keys that were revoked since.
   */
  async #letIn(
    workspaceId: string,
    source: MovingCell,
    target: MovingCell,
    isResumed: boolean,
  ): Promise<void> {
    const move = await findMove(target.sql, workspaceId);
    if (move?.state !== "arriving") return;
    const otherwise = `The workspace has left ${source.name}, and nobody serves it until Redis is back and the command has run again.`;
    if (isResumed) await forgetIn(target, move.handle, otherwise);
    await noteRevokedIn(target, workspaceId, move.handle, otherwise);
    await arrive(target.sql, workspaceId);
  }

  async #settleIn(
    workspaceId: string,
    source: MovingCell,
    target: MovingCell,
    tables: readonly MovedTable[],
  ): Promise<void> {
    const gone = await findMove(source.sql, workspaceId);
    const workspace = await findWorkspace(target.sql, workspaceId);
    if (gone?.state !== "gone" || !workspace) return;
    await dropFence(target.sql, tables, { workspaceId, handle: gone.handle });
    await forgetIn(
      target,
      gone.handle,
      `The workspace works in ${target.name}. When Redis is back, run the command again: old rows are left in ${source.name}.`,
    );
    await source.keyring.forget(gone.handle, workspace.version).catch(() => {});
  }

  async #remove(
    workspaceId: string,
    { sql, keyring }: MovingCell,
    tables: readonly MovedTable[],
  ): Promise<void> {
    const move = await findMove(sql, workspaceId);
    if (move?.state !== "gone") return;
    const { id } = move;
    const workspace = await findWorkspace(sql, workspaceId);
    const isTold = await keyring.forget(move.handle, workspace?.version ?? 1).then(
      () => true,
      () => false,
    );
    const stays = isTold ? FENCE_STAYS_SECONDS : FENCE_STAYS_UNTOLD_SECONDS;
    await this.#parts.wait(Math.max(0, stays - (move.goneSeconds ?? 0)) * 1_000);
    while (await removeStep(sql, tables, { workspaceId, id, state: "gone" }));
    await dropFence(sql, tables, move);
    await forgetMove(sql, move);
  }
}

function isCopy({ state }: WorkspaceMove): boolean {
  return state === "arriving";
}

/** Rows go over as Postgres writes them: both records must have the same tables. */
async function sameTables(source: MovingCell, target: MovingCell): Promise<readonly MovedTable[]> {
  const [ours, theirs] = await Promise.all([workspaceTables(source.sql), workspaceTables(target.sql)]);
  if (JSON.stringify(ours) !== JSON.stringify(theirs))
    throw new MoveError(
      `The tables of ${source.name} and ${target.name} differ. Run \`postrider --cell ${source.name} migrate\` and \`postrider --cell ${target.name} migrate\` with this version.`,
    );
  return ours;
}

/**
 * Redis of the new cell counts anew. Without it nobody would be served there, so it is asked before the
 * switch, too. `otherwise`: where the workspace is when Redis is away, and what to do.
 */
function forgetIn(cell: MovingCell, handle: string, otherwise: string): Promise<void> {
  return redisOf(cell, cell.reservations.forget(handle), otherwise);
}

async function noteRevokedIn(
  cell: MovingCell,
  workspaceId: string,
  handle: string,
  otherwise: string,
): Promise<void> {
  const revoked = await cell.keyring.revokedLately(workspaceId);
  return redisOf(cell, cell.keyring.noteRevoked(handle, revoked), otherwise);
}

async function redisOf({ name }: MovingCell, asked: Promise<unknown>, otherwise: string): Promise<void> {
  try {
    await asked;
  } catch (error) {
    throw new MoveError(`Redis of ${name} cannot be used (${messageOf(error)}). ${otherwise}`, {
      cause: error,
    });
  }
}

const LOCK_TIMEOUT = "55P03";
const DEADLOCK = "40P01";

function mayTryAgain(error: unknown): boolean {
  const code = codeOf(error);
  return error instanceof NotYet || [LOCK_TIMEOUT, DEADLOCK, UNIQUE_VIOLATION].includes(code ?? "");
}
