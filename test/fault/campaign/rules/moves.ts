/** Moves between cells: whoever was to move has moved, however often the command was ended, and all of it. */
import type { Aftermath, History, Violation } from "../history.ts";
import { clockOf } from "./repeats.ts";

export function judgeMoves({ moves, tenants }: History, { inTwoCells }: Aftermath): Violation[] {
  const nameOf = new Map(tenants.map(({ id, name }) => [id, name]));
  return [
    ...moves
      .filter(({ endedAt }) => endedAt === null)
      .map(({ workspaceId, to, from, runs, said }) => ({
        rule: "move",
        subject: nameOf.get(workspaceId) ?? workspaceId,
        what: `its move to ${to}, begun at ${clockOf(from)}, has not ended after ${runs} runs of the command`,
        evidence: [said],
      })),
    ...inTwoCells.map((id) => ({
      rule: "in two cells",
      subject: id,
      what: "it has a row in either cell, and its workspace is in one",
      evidence: [],
    })),
  ];
}
