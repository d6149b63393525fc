/**
 * Moves that have begun and not ended: whether a command works on them now, or was ended, the record does not
 * know.
 */
import type { Sql } from "../db/connect.ts";
import { oneOf, type RowOf, text, typed } from "../db/rowshape.ts";

const openMoveRow = {
  workspaceId: text,
  state: oneOf("leaving", "gone", "arriving"),
  other: text,
};
export type OpenMove = RowOf<typeof openMoveRow>;

export async function listMoves(sql: Sql): Promise<OpenMove[]> {
  return typed(sql, openMoveRow)`
    select workspace_id as "workspaceId", state, cell as other from workspace_move order by workspace_id`;
}

export type UnfinishedMove = { workspaceId: string; isServed: boolean; text: string };

/** What to do about each. A cell that could not be asked is missing in `cells`. */
export function unfinishedMoves(
  cells: readonly { name: string; moves: readonly OpenMove[] }[],
): UnfinishedMove[] {
  const found = cells.flatMap(({ name, moves }) => moves.map((move) => ({ ...move, name })));
  const ids = [...new Set(found.map(({ workspaceId }) => workspaceId))];
  return ids.map((workspaceId) => {
    const own = found.filter((move) => move.workspaceId === workspaceId);
    const source = own.find(({ state }) => state !== "arriving");
    const copy = own.find(({ state }) => state === "arriving");
    const [from, to] = [source?.name ?? copy?.other ?? "", source?.other ?? copy?.name ?? ""];
    const again = `run \`postrider workspace move ${workspaceId} --to ${to}\``;
    const undo = `\`postrider workspace move ${workspaceId} --abort\``;
    const isServed = source?.state !== "gone" || (!copy && cells.some(({ name }) => name === to));
    const text = () => {
      if (source?.state === "leaving")
        return `it works in ${from} and is moving to ${to}. If no command is moving it now, ${again} to finish, or ${undo} to undo`;
      if (source && isServed)
        return `it works in ${to}, and its old rows are still in ${from}. If no command is moving it now, ${again} to remove them`;
      if (source && copy)
        return `it has left ${from} and not arrived in ${to}: its requests are answered 503 and its mail waits until you ${again}`;
      if (source)
        return `it has left ${from}; ${to} could not be asked whether it has arrived. If its requests are answered 503, ${again}`;
      return `${to} has a copy of it from ${from}. If no command is moving it now, run ${undo} to remove the copy`;
    };
    return { workspaceId, isServed, text: `workspace ${workspaceId}: ${text()}` };
  });
}
